#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <foredraft/backend/cpu/transpose.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// How Rows stores the keys of one head.
///
/// A score is a sum over the dimensions of a key. Kernels compute the scores of many positions side
/// by side and need the same dimension of all of them next to each other, so the keys of every
/// whole block of kKeyBlock committed positions are kept by dimensions: [d_head, kKeyBlock], in the
/// place of [kKeyBlock, d_head]. All other keys are rows: those of the last, incomplete block,
/// which change places when a tree is committed, and the staged ones. Values are always rows.
///
/// With q8_0 a row is d_head / 32 elements, and a whole block is laid out for int8 dot products
/// (see KeyPlaces): as two panels of 16 rows of a matrix in Q8_0, which is what Cpu takes it for.
inline constexpr int kKeyBlock = 32;

/// What d_head must be a multiple of.
template <typename T>
inline constexpr int kHeadMultiple = std::is_same_v<T, q8_0> ? 2 * q8_0::kValues : 1;
constexpr int head_multiple(RowFormat format) noexcept {
  return format == RowFormat::kQ8_0 ? kHeadMultiple<q8_0> : 1;
}

/// Positions, of the first `size` committed ones, whose keys lie in blocks.
[[gnu::always_inline]] constexpr Position positions_in_key_blocks(Position size) noexcept {
  return size / kKeyBlock * kKeyBlock;
}

/// Where dimension d of the key in storage row `row` lies, counted from its head's first element.
/// Not for q8_0.
constexpr std::size_t key_place(int row, int d, int d_head, Position size) noexcept {
  const bool in_block = row < positions_in_key_blocks(size);
  const int first = in_block ? row / kKeyBlock * kKeyBlock : row;
  const int within = in_block ? d * kKeyBlock + row - first : d;
  return idx(first) * idx(d_head) + idx(within);
}

/// Walks over a whole block of keys in q8_0. For each 16 positions, and of these for each 64
/// dimensions:
///   scales [2][16 positions], then codes + 128 as [16][16 positions][4 dimensions].
struct KeyPlaces {
  /// f(position, element of its row, offset in the element, offset in the block, bytes), in the
  /// order of the block; the bytes are a scale (2) or codes (4).
  template <typename F>
  [[gnu::always_inline]] static void for_each(int d_head, F&& f) noexcept {
    constexpr int kPositions = 16;
    std::size_t at = 0;
    for (int first = 0; first < kKeyBlock; first += kPositions) {
      for (int pair = 0; pair < row_elements<q8_0>(d_head); pair += 2) {
        for (int i = 0; i < 2 * kPositions; ++i, at += 2) {
          f(first + i % kPositions, pair + i / kPositions, std::size_t{0}, at, std::size_t{2});
        }
        for (int four = 0; four < 2 * q8_0::kValues / 4; ++four) {
          const std::size_t code = offsetof(q8_0, codes) + idx(four % 8) * 4;
          for (int i = 0; i < kPositions; ++i, at += 4) {
            f(first + i, pair + four / 8, code, at, std::size_t{4});
          }
        }
      }
    }
  }
};

/// The keys of a whole block of positions, from rows.
/// @shape rows [kKeyBlock, row_elements(d_head)]; block likewise, elsewhere
template <typename T>
[[gnu::always_inline]] inline void rows_to_key_block(const T* rows, int d_head, T* block) noexcept {
  if constexpr (std::is_same_v<T, q8_0>) {
    const auto* from = reinterpret_cast<const std::byte*>(rows);
    auto* to = reinterpret_cast<std::byte*>(block);
    const int n = row_elements<T>(d_head);
    KeyPlaces::for_each(d_head, [&](int row, int element, std::size_t offset, std::size_t at,
                                    std::size_t bytes) __attribute__((always_inline)) {
      const std::byte* part = from + idx(row * n + element) * sizeof(T);
      std::uint32_t four = 0;
      std::memcpy(&four, part + offset, bytes);
      if (bytes == 4) four ^= 0x80808080u;
      std::memcpy(to + at, &four, bytes);
    });
  } else {
    transpose(rows, kKeyBlock, d_head, block);
  }
}

/// The inverse of rows_to_key_block().
template <typename T>
void key_block_to_rows(const T* block, int d_head, T* rows) noexcept {
  if constexpr (std::is_same_v<T, q8_0>) {
    const auto* from = reinterpret_cast<const std::byte*>(block);
    auto* to = reinterpret_cast<std::byte*>(rows);
    const int n = row_elements<T>(d_head);
    KeyPlaces::for_each(
        d_head, [&](int row, int element, std::size_t offset, std::size_t at, std::size_t bytes) {
          std::byte* part = to + idx(row * n + element) * sizeof(T);
          std::uint32_t four = 0;
          std::memcpy(&four, from + at, bytes);
          if (bytes == 4) four ^= 0x80808080u;
          std::memcpy(part + offset, &four, bytes);
        });
  } else {
    transpose(block, d_head, kKeyBlock, rows);
  }
}

}  // namespace foredraft::inline v0::cpu
