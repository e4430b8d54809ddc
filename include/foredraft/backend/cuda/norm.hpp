#pragma once

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// A norm as kernels read it; absent where weight is null.
struct Norm {
  const float* weight = nullptr;
  float epsilon = 0;
};

/// 1 / sqrt(squares / n + epsilon)
template <typename T>
FOREDRAFT_DEVICE float inverse_root(T& t, float squares, int n, float epsilon) {
  const float mean = t.divide(squares, static_cast<float>(n));
  return t.divide(1.0f, t.sqrt(t.add(mean, epsilon)));
}

/// 1 / sqrt(mean(x^2) + epsilon), computed by each warp that calls it, in one order. `n` may be that
/// of any row: lane i adds up the values i, i + 32, ...
/// @shape x [n]
template <typename T>
FOREDRAFT_DEVICE float norm_scale(T& t, const float* x, int n, float epsilon) {
  float squares = 0;
  for (int i = lane_of(t); i < n; i += kWarp) {
    const float value = t.load(x + i);
    squares = t.fma(value, value, squares);
  }
  return inverse_root(t, t.warp_sum(squares), n, epsilon);
}

/// The same for a row that all threads of a block have a part of, in each of them. The order of the sum depends
/// on who has what alone. @param squares  the thread's own  @param of_warps  shared memory [warps]
template <int kThreads, typename T>
FOREDRAFT_DEVICE float norm_scale_of_block(T& t, float squares, int n, float epsilon,
                                           float* of_warps) {
  constexpr int kWarps = kThreads / kWarp;  // a lane for the sum of each
  squares = t.warp_sum(squares);
  if (lane_of(t) == 0) t.store(of_warps + warp_of(t), squares);
  t.sync();
  squares = lane_of(t) < kWarps ? t.load(of_warps + lane_of(t)) : 0.0f;
  return inverse_root(t, t.warp_sum(squares), n, epsilon);
}

template <typename T>
FOREDRAFT_DEVICE float add_squares(T& t, const Four& values, float squares) {
  FOREDRAFT_UNROLL
  for (int i = 0; i < 4; ++i) squares = t.fma(values.v[i], values.v[i], squares);
  return squares;
}

/// x = (x + norm(y) * residual) * output_scale, a block for each row: a norm behind a product has to see all of it.
struct AddNorm {
  static constexpr const char* kName = "add_norm";
  static constexpr int kThreads = 512;
  struct Args {
    const float* y;  // [n_rows, n]
    float* x;        // read and written [n_rows, n]
    int n;
    Norm norm;
    float residual;
    float output_scale;
  };

  static Grid grid(int n_rows) noexcept { return {n_rows}; }
  static int shared() noexcept { return shared_bytes<float>(kThreads / kWarp); }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const of_warps = t.template shared<float>(kThreads / kWarp);
    const auto row = idx(t.block_x()) * idx(a.n);
    float squares = 0;
    for (int k = 4 * t.thread(); k < a.n; k += 4 * kThreads) {
      squares = add_squares(t, load_elements(t, a.y + row, k, a.n), squares);
    }
    const float scale = norm_scale_of_block<kThreads>(t, squares, a.n, a.norm.epsilon, of_warps);
    for (int i = t.thread(); i < a.n; i += kThreads) {
      const float value = t.mul(t.mul(t.load(a.y + row + i), scale), t.load(a.norm.weight + i));
      const float sum = t.fma(value, a.residual, t.load(a.x + row + i));
      t.store(a.x + row + i, t.mul(sum, a.output_scale));
    }
  }
};

}  // namespace foredraft::inline v0::cuda
