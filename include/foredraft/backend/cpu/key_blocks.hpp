#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <foredraft/backend/cpu/transpose.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0::cpu {

/// How Rows stores the keys of one head.
///
/// A score is a sum over the dimensions of a key. Kernels compute the scores of many positions side
/// by side and need the same dimension of all of them next to each other, so the keys of every
/// block of kKeyBlock rows lie by dimensions: [d_head, kKeyBlock], in the place of
/// [kKeyBlock, d_head]. A key is written there once, when its row is staged: committing moves
/// nothing. It shares the block's memory with committed keys, and no byte of it. Values are rows.
///
/// With q8_0 a row is d_head / 32 elements, and a block is laid out for int8 dot products: as two
/// panels of 16 rows of a matrix in Q8_0, which is what Cpu takes it for. Each panel has, for each
/// 64 dimensions,
///   scales [2][16 rows], then codes + 128 as [16][16 rows][4 dimensions].
inline constexpr int kKeyBlock = 32;

/// What d_head must be a multiple of.
template <typename T>
inline constexpr int kHeadMultiple = std::is_same_v<T, q8_0> ? 2 * q8_0::kValues : 1;
constexpr int head_multiple(RowFormat format) noexcept {
  return format == RowFormat::kQ8_0 ? kHeadMultiple<q8_0> : 1;
}

/// The first row of the block in which a row lies.
[[gnu::always_inline]] constexpr std::int32_t key_block_of(std::int32_t row) noexcept {
  return row / kKeyBlock * kKeyBlock;
}

/// The parts of which a key consists, each of them beside the same part of the next key.
/// @tparam T  how keys are stored
template <typename T>
struct KeyParts {
  /// f(offset in the key as a row, offset in the block of the first key's, bytes: a constant)
  template <typename F>
  [[gnu::always_inline]] static void for_each(int d_head, F&& f) noexcept {
    constexpr std::integral_constant<std::size_t, sizeof(T)> kBytes;
    for (int d = 0; d < d_head; ++d) f(idx(d) * kBytes, idx(d * kKeyBlock) * kBytes, kBytes);
  }
  /// Bytes before the panel in which key i lies: keys side by side.
  [[gnu::always_inline]] static std::size_t panel(int /*i*/, int /*d_head*/) noexcept { return 0; }
  static constexpr int kPanel = kKeyBlock;  // keys
};

template <>
struct KeyParts<q8_0> {
  static constexpr int kPanel = 16;
  static constexpr std::size_t kCodes = 4;  // bytes of a part that is no scale

  template <typename F>
  [[gnu::always_inline]] static void for_each(int d_head, F&& f) noexcept {
    constexpr std::integral_constant<std::size_t, sizeof(f16)> kScale;
    constexpr std::integral_constant<std::size_t, kCodes> kFour;
    std::size_t at = 0;
    for (int pair = 0; pair < row_elements<q8_0>(d_head); pair += 2) {
      const std::size_t row = idx(pair) * sizeof(q8_0);
      for (std::size_t half = 0; half < 2; ++half, at += kPanel * kScale) {
        f(row + half * sizeof(q8_0), at, kScale);
      }
      for (std::size_t four = 0; four < 16; ++four, at += kPanel * kFour) {
        f(row + four / 8 * sizeof(q8_0) + offsetof(q8_0, codes) + four % 8 * kFour, at, kFour);
      }
    }
  }
  [[gnu::always_inline]] static std::size_t panel(int i, int d_head) noexcept {
    return idx(i / kPanel * kPanel * row_elements<q8_0>(d_head)) * sizeof(q8_0);
  }
};

/// A key of a block.
/// @shape block [kKeyBlock, row_elements(d_head)]
template <typename T, typename Byte>
struct KeyIn {
  Byte* panel;
  std::size_t lane;

  [[gnu::always_inline]] KeyIn(Byte* block, int i, int d_head) noexcept
      : panel(block + KeyParts<T>::panel(i, d_head)), lane(idx(i % KeyParts<T>::kPanel)) {}
  [[gnu::always_inline]] Byte* part(std::size_t of_first, std::size_t bytes) const noexcept {
    return panel + of_first + lane * bytes;
  }
};

/// Codes of a block are not negative, those of a row have a sign.
template <typename T, std::size_t bytes>
[[gnu::always_inline]] inline void copy_changed_part(const std::byte* from,
                                                     std::byte* to) noexcept {
  if constexpr (std::is_same_v<T, q8_0> && bytes == KeyParts<q8_0>::kCodes) {
    std::uint32_t codes = 0;
    std::memcpy(&codes, from, bytes);
    codes ^= 0x80808080u;
    std::memcpy(to, &codes, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// A row becomes key i of a block.
/// @shape row [row_elements(d_head)]
template <typename T>
[[gnu::always_inline]] inline void store_key(const std::byte* row, int d_head, std::byte* block,
                                             int i) noexcept {
  const KeyIn<T, std::byte> to(block, i, d_head);
  KeyParts<T>::for_each(
      d_head, [&](std::size_t in_row, std::size_t at, auto bytes) __attribute__((always_inline)) {
        copy_changed_part<T, bytes>(row + in_row, to.part(at, bytes));
      });
}

/// The inverse of store_key().
template <typename T>
[[gnu::always_inline]] inline void load_key(const std::byte* block, int i, int d_head,
                                            std::byte* row) noexcept {
  const KeyIn<T, const std::byte> from(block, i, d_head);
  KeyParts<T>::for_each(
      d_head, [&](std::size_t in_row, std::size_t at, auto bytes) __attribute__((always_inline)) {
        copy_changed_part<T, bytes>(from.part(at, bytes), row + in_row);
      });
}

/// Key i of a block becomes key j of another one, or of the same.
template <typename T>
[[gnu::always_inline]] inline void copy_key(const std::byte* from_block, int i, int d_head,
                                            std::byte* to_block, int j) noexcept {
  const KeyIn<T, const std::byte> from(from_block, i, d_head);
  const KeyIn<T, std::byte> to(to_block, j, d_head);
  KeyParts<T>::for_each(
      d_head, [&](std::size_t, std::size_t at, auto bytes) __attribute__((always_inline)) {
        std::memcpy(to.part(at, bytes), from.part(at, bytes), bytes);
      });
}

/// A whole block of rows becomes a block of keys, elsewhere.
template <typename T>
void store_keys(const std::byte* rows, int d_head, std::byte* block) noexcept {
  if constexpr (kValuesPerElement<T> == 1) {
    transpose(reinterpret_cast<const T*>(rows), kKeyBlock, d_head, reinterpret_cast<T*>(block));
  } else {
    const std::size_t row = idx(row_elements<T>(d_head)) * sizeof(T);
    for (int i = 0; i < kKeyBlock; ++i) store_key<T>(rows + idx(i) * row, d_head, block, i);
  }
}

/// The inverse of store_keys().
template <typename T>
void load_keys(const std::byte* block, int d_head, std::byte* rows) noexcept {
  if constexpr (kValuesPerElement<T> == 1) {
    transpose(reinterpret_cast<const T*>(block), d_head, kKeyBlock, reinterpret_cast<T*>(rows));
  } else {
    const std::size_t row = idx(row_elements<T>(d_head)) * sizeof(T);
    for (int i = 0; i < kKeyBlock; ++i) load_key<T>(block, i, d_head, rows + idx(i) * row);
  }
}

}  // namespace foredraft::inline v0::cpu
