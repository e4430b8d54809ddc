#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fragments.hpp>

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
    for (int k = t.thread(); k < a.table.n_in; k += kThreads) {
      t.store(x + k, t.mul(weight_at<F>(t, a.table, token, k), a.scale));
    }
  }
  static Grid grid(int n_rows) noexcept { return {n_rows}; }
};

}  // namespace foredraft::inline v0::cuda
