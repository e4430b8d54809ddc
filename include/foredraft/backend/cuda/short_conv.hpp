#pragma once

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// b .* u of each row into its row of the storage, and c .* their convolution along the row's path.
/// A thread for each channel and row. A token of the same pass is not read from the storage, where
/// its own thread writes it, but computed again.
struct ShortConv {
  static constexpr const char* kName = "short_conv";
  static constexpr int kThreads = 128;
  struct Args {
    const StateRow* rows;  // [n_rows]
    int n_rows;
    const float* in;  // [rows of the pass, 3, width]: b, c, u
    int width;
    int n_taps;
    const float* kernel;  // [n_taps, width], oldest token first
    float* out;           // written [rows of the pass, width]
    StateLayers layers;
  };

  static Grid grid(const Args& a) noexcept { return {parts_of(a.width, kThreads), a.n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int c = t.block_x() * kThreads + t.thread();
    if (c >= a.width) return;
    const StateRow* const row = a.rows + t.block_y();
    const StateLayer layer = a.layers.of[t.load(&row->sequence)];
    const auto width = idx(a.width);
    const auto of_pass = [&](int pass_row) {
      const float* const in = a.in + idx(pass_row) * 3 * width + c;
      return t.mul(t.load(in), t.load(in + 2 * width));
    };
    const auto own = idx(t.load(&row->row));
    t.store(layer.row(t.load(&row->taps[0].row)) + c, of_pass(static_cast<int>(own)));
    const float sum = convolved(t, row, layer, a.n_taps, a.kernel, a.width, c, 0.0f, of_pass);
    t.store(a.out + own * width + c, t.mul(t.load(a.in + own * 3 * width + width + c), sum));
  }
};

}  // namespace foredraft::inline v0::cuda
