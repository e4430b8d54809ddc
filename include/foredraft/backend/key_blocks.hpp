#pragma once

#include <cstddef>
#include <cstring>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How caches store the keys of one head.
///
/// A score is a sum over the dimensions of a key. Kernels compute the scores of many positions side
/// by side and need the same dimension of all of them next to each other, so the keys of every
/// whole block of kKeyBlock committed positions are kept by dimensions: [d_head, kKeyBlock], in the
/// place of [kKeyBlock, d_head]. All other keys are rows: those of the last, incomplete block,
/// which change places when a tree is committed, and the staged ones. Values are always rows.
///
/// A pass puts the keys of blocks that have become whole since the last one in order before it
/// reads them, because its lanes do that together; KvLayer::in_blocks says how far that had come.
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

/// Put the keys of one head in order: those of all whole blocks from position `from` on.
/// @shape keys [size, d_head], scratch [kKeyBlock * d_head]
template <typename T>
void complete_key_blocks(T* keys, int d_head, Position from, Position size, T* scratch) noexcept {
  const auto block_size = static_cast<std::size_t>(kKeyBlock * d_head);
  for (; from < positions_in_key_blocks(size); from += kKeyBlock) {
    T* const block = keys + static_cast<std::size_t>(from) * static_cast<std::size_t>(d_head);
    std::memcpy(scratch, block, block_size * sizeof(T));
    transpose(scratch, kKeyBlock, d_head, block);
  }
}

}  // namespace foredraft::inline v0
