#pragma once

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Where a row of a storage lies: the one rule of caches, of the processor's kernels and of a GPU's.
/// Always inlined, so that no unit of another instruction set has a function of it.
/// @param pinned  rows that keep their places
/// @param ring    places behind them, which all further rows take in turn; 0: each row has its own
[[gnu::always_inline]] FOREDRAFT_HOST_DEVICE constexpr int ring_place(int row, int pinned,
                                                                      int ring) noexcept {
  return ring == 0 || row < pinned ? row : pinned + (row - pinned) % ring;
}

}  // namespace foredraft::inline v0
