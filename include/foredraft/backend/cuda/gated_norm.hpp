#pragma once

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What is read out of states, before its product: norms of parts of a row, and a gate before them
/// or behind them. A block for each part of a row.
struct GatedNorm {
  static constexpr const char* kName = "gated_norm";
  static constexpr int kThreads = 128;
  struct Args {
    float* y;  // read and written [n_rows, width]
    int width;
    int part;           // columns of a norm
    const float* gate;  // [n_rows, gate_stride], of which the first `width`
    int gate_stride;
    /// norm(y .* silu(gate)), with weights for all columns; else norm(y) .* silu(gate), with the same
    /// weights for all parts.
    bool gate_first;
    Norm norm;  // [width] or [part]
  };

  static Grid grid(const Args& a, int n_rows) noexcept { return {a.width / a.part, n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const auto row = idx(t.block_y());
    const int first = t.block_x() * a.part;
    float* const y = a.y + row * idx(a.width) + first;
    const float* const gate = a.gate + row * idx(a.gate_stride) + first;
    const float* const weight = a.norm.weight + (a.gate_first ? first : 0);
    if (a.gate_first) {
      for (int i = t.thread(); i < a.part; i += kThreads) t.store(y + i, gated(t, y, gate, i));
      t.sync();
    }
    const float scale = norm_scale(t, y, a.part, a.norm.epsilon);
    t.sync();  // every warp has read what is written now
    for (int i = t.thread(); i < a.part; i += kThreads) {
      t.store(y + i, t.mul(t.mul(t.load(y + i), scale), t.load(weight + i)));
      if (!a.gate_first) t.store(y + i, gated(t, y, gate, i));
    }
  }

 private:
  template <typename T>
  FOREDRAFT_DEVICE static float gated(T& t, const float* y, const float* gate, int i) {
    return t.mul(t.load(y + i), activated(t, Activation::kSilu, t.load(gate + i)));
  }
};

}  // namespace foredraft::inline v0::cuda
