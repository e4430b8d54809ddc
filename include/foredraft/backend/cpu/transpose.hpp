#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// A square matrix of vectors of 16 bytes, in registers. The first half of the rows and the second one
/// are interleaved value by value; once for each halving of the side, and rows are columns.
template <typename T>
struct TransposedSquare {
  static constexpr std::size_t kSide = 16 / sizeof(T);
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  using Row [[gnu::vector_size(16)]] = Bits;

  static void write(const T* from, std::size_t from_stride, T* to, std::size_t to_stride) noexcept {
    Rows rows;
    for (std::size_t i = 0; i < kSide; ++i) {
      std::memcpy(&rows.at[i], from + i * from_stride, sizeof(Row));
    }
    for (std::size_t side = kSide; side > 1; side /= 2) rows = interleaved(rows);
    for (std::size_t i = 0; i < kSide; ++i) {
      std::memcpy(static_cast<void*>(to + i * to_stride), &rows.at[i], sizeof(Row));
    }
  }

 private:
  struct Rows {
    Row at[kSide];
  };

  static Rows interleaved(const Rows& rows) noexcept {
    Rows out;
    for (std::size_t i = 0; i < kSide / 2; ++i) {
      out.at[2 * i] = first_half(rows.at[i], rows.at[i + kSide / 2]);
      out.at[2 * i + 1] = second_half(rows.at[i], rows.at[i + kSide / 2]);
    }
    return out;
  }
  // Of a0 b0 a1 b1 and so on. Written down, because nvcc reads this header and expands no packs here.
  static Row first_half(Row a, Row b) noexcept {
    if constexpr (kSide == 8) {
      return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    } else {
      return __builtin_shufflevector(a, b, 0, 4, 1, 5);
    }
  }
  static Row second_half(Row a, Row b) noexcept {
    if constexpr (kSide == 8) {
      return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    } else {
      return __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
  }
};

/// Rows become columns: the matrix [rows, columns] at `from` is written to `to` as [columns, rows].
template <typename T>
void transpose(const T* from, int rows, int columns, T* to) noexcept {
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    using Square = TransposedSquare<T>;
    constexpr int kSide = Square::kSide;
    if (rows % kSide == 0 && columns % kSide == 0) {
      for (int column = 0; column < columns; column += kSide) {
        for (int row = 0; row < rows; row += kSide) {
          Square::write(from + row * columns + column, idx(columns), to + column * rows + row,
                        idx(rows));
        }
      }
      return;
    }
  }
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) *to++ = from[row * columns + column];
  }
}

}  // namespace foredraft::inline v0::cpu
