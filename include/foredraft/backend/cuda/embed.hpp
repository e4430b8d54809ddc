#pragma once

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fragments.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/core/index.hpp>

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
    float* const x = a.x + idx(row) * idx(a.table.n_in);
    for (int k = t.thread(); k < a.table.n_in; k += kThreads) {
      t.store(x + k, t.mul(weight_at<F>(t, a.table, token, k), a.scale));
    }
  }
  static Grid grid(int n_rows) noexcept { return {n_rows}; }
};

/// What each layer is given besides x: (norm(projected) + scale * table[token]) / sqrt(2), a block for
/// each (row, layer). @see EmbedLayersArgs
template <WeightFormat F>
struct EmbedLayers {
  static constexpr const char* kName = "embed_layers";
  static constexpr int kThreads = 128;
  struct Args {
    Weights table;           // [n_vocab, n_layers * d_input]
    const int* tokens;       // [n_rows]
    const float* projected;  // [n_rows, n_layers * d_input]
    Norm norm;               // [d_input]
    int d_input;
    float scale;
    float* inputs;  // written, as projected
  };

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    constexpr float kSqrtHalf = 0.70710678f;
    const int token = t.load(a.tokens + t.block_x());
    const int first = t.block_y() * a.d_input;
    const auto at = idx(t.block_x()) * idx(a.table.n_in) + idx(first);
    const float* const projected = a.projected + at;
    const float scale = norm_scale(t, projected, a.d_input, a.norm.epsilon);
    for (int i = t.thread(); i < a.d_input; i += kThreads) {
      const float normed = t.mul(t.mul(t.load(projected + i), scale), t.load(a.norm.weight + i));
      const float of_token = weight_at<F>(t, a.table, token, first + i);
      t.store(a.inputs + at + i, t.mul(t.fma(a.scale, of_token, normed), kSqrtHalf));
    }
  }
  static Grid grid(int n_rows, int n_layers) noexcept { return {n_rows, n_layers}; }
};

}  // namespace foredraft::inline v0::cuda
