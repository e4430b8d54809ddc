#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/backend/ops.hpp>

namespace foredraft::inline v0::cuda {

/// x = table[token] * scale, a block for each row.
template <WeightFormat F>
struct Embed {
  static constexpr const char* kName = "embed";
  static constexpr int kThreads = 128;
  struct Args {
    Weights table;
    const int* tokens;  // [n_rows]
    float scale;
    float* x;  // written [n_rows, table.n_in]
  };

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int row = t.block_x();
    const int token = t.load(a.tokens + row);
    float* const x = a.x + static_cast<std::size_t>(row) * static_cast<std::size_t>(a.table.n_in);
    for (int chunk = t.thread(); chunk < parts_of(a.table.n_in, kChunk<F>); chunk += kThreads) {
      float w[kChunk<F>];
      load_chunk<F>(t, a.table, token, chunk, w);
      FOREDRAFT_UNROLL
      for (int i = 0; i < kChunk<F>; ++i) {
        const int k = chunk * kChunk<F> + i;
        if (k < a.table.n_in) t.store(x + k, t.mul(w[i], a.scale));
      }
    }
  }
  static Grid grid(int n_rows) noexcept { return {n_rows}; }
};

/// gate = activation(gate) * up, a thread for each value.
struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr int kThreads = 128;
  struct Args {
    float* gate;      // read and written [n]
    const float* up;  // [n]
    int n;
    Activation activation;
  };

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int i = t.block_x() * kThreads + t.thread();
    if (i >= a.n) return;
    const float gate = t.load(a.gate + i);
    t.store(a.gate + i, t.mul(activate(t, a.activation, gate), t.load(a.up + i)));
  }
  static Grid grid(int n) noexcept { return {parts_of(n, kThreads)}; }

  template <typename T>
  FOREDRAFT_DEVICE static float activate(T& t, Activation activation, float x) {
    switch (activation) {
      case Activation::kGeluTanh: {
        constexpr float kSqrt2OverPi = 0.797884561f;
        const float inner = t.mul(kSqrt2OverPi, t.fma(t.mul(0.044715f, t.mul(x, x)), x, x));
        return t.mul(t.mul(0.5f, x), t.add(1.0f, t.tanh(inner)));
      }
      case Activation::kReluSquared: return x <= 0.0f ? 0.0f : t.mul(x, x);  // NaN stays
      case Activation::kSilu: return t.divide(x, t.add(1.0f, t.exp(-x)));
      case Activation::kSigmoid: break;
    }
    return t.divide(1.0f, t.add(1.0f, t.exp(-x)));
  }
};

}  // namespace foredraft::inline v0::cuda
