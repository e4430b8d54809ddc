#pragma once

#include <cstddef>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How caches store the keys of one head.
///
/// A score is a sum over the dimensions of a key. Kernels compute the scores of many positions side
/// by side and need the same dimension of all of them next to each other, so the keys of every
/// whole block of kKeyBlock committed positions are kept by dimensions: [d_head, kKeyBlock], in the
/// place of [kKeyBlock, d_head]. All other keys are rows: those of the last, incomplete block,
/// which change places when a tree is committed, and the staged ones. Values are always rows.
inline constexpr int kKeyBlock = 32;

/// Positions, of the first `size` committed ones, whose keys lie in blocks.
[[gnu::always_inline]] constexpr Position positions_in_key_blocks(Position size) noexcept {
  return size / kKeyBlock * kKeyBlock;
}

/// Where dimension d of the key in storage row `row` lies, counted from its head's first element.
constexpr std::size_t key_place(int row, int d, int d_head, Position size) noexcept {
  const bool in_block = row < positions_in_key_blocks(size);
  const int first = in_block ? row / kKeyBlock * kKeyBlock : row;
  const int within = in_block ? d * kKeyBlock + row - first : d;
  return static_cast<std::size_t>(first) * static_cast<std::size_t>(d_head) +
         static_cast<std::size_t>(within);
}

/// Rows become dimensions: the matrix [rows, columns] at `from` is written to `to` as
/// [columns, rows].
template <typename T>
void transpose(const T* from, int rows, int columns, T* to) noexcept {
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) *to++ = from[row * columns + column];
  }
}

}  // namespace foredraft::inline v0
