#pragma once

#include <algorithm>
#include <atomic>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// Rows that the first half of an operator writes piece by piece, on all workers, and that the
/// matrix product of its second half takes as input.
///
/// Whoever writes the last piece of a block of columns quantizes it. So rows are quantized once,
/// and no barrier is needed but the one that the product waits for anyway.
struct Intermediate {
  /// Values of a block of columns that have been written; on a cache line of its own, because
  /// workers work on different blocks most of the time.
  struct alignas(64) Written {
    std::atomic<int> count{0};
  };

  float* values = nullptr;     // [in.n_rows, in.n_in]
  Activations in;              // written block by block
  Written* written = nullptr;  // [n_blocks(in.n_in)], zeros before, and zeros when all is written

  static constexpr int n_blocks(int n_in) noexcept {
    return (n_in + kBlockColumns - 1) / kBlockColumns;
  }

  float* row(int row) const noexcept { return values + idx(row) * idx(in.n_in); }

  /// This worker has written the columns begin .. end - 1 of n_rows rows, and nobody has before. A
  /// block is complete when all its columns have been added for all rows, in any order.
  void add(const KernelTable& kernels, int n_rows, int begin, int end) const noexcept {
    while (begin < end) {
      const int block = begin / kBlockColumns;
      const int first = block * kBlockColumns;
      const int last = std::min(first + kBlockColumns, in.n_in);
      const int next = std::min(end, last);
      std::atomic<int>& count = written[block].count;
      const int here = n_rows * (next - begin);
      // Acquire what other workers have written, release what this one has.
      if (count.fetch_add(here, std::memory_order_acq_rel) + here == in.n_rows * (last - first)) {
        count.store(0, std::memory_order_relaxed);
        for (int i = 0; i < in.n_rows; ++i) kernels.quantize_row(row(i), in, i, first, last);
      }
      begin = next;
    }
  }
};

}  // namespace foredraft::inline v0::cpu
