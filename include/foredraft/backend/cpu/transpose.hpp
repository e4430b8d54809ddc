#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

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
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      Rows rows{load(from + I * from_stride)...};
      for (std::size_t side = kSide; side > 1; side /= 2) {
        rows = {half<I % 2>(rows.at[I / 2], rows.at[I / 2 + kSide / 2])...};
      }
      (std::memcpy(static_cast<void*>(to + I * to_stride), &rows.at[I], sizeof(Row)), ...);
    }(std::make_index_sequence<kSide>());
  }

 private:
  struct Rows {
    Row at[kSide];
  };

  static Row load(const T* from) noexcept {
    Row row;
    std::memcpy(&row, from, sizeof row);
    return row;
  }
  /// Of a0 b0 a1 b1 ... the first or the second half.
  template <std::size_t Second>
  static Row half(Row a, Row b) noexcept {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return __builtin_shufflevector(a, b, (Second * kSide / 2 + I / 2 + I % 2 * kSide)...);
    }(std::make_index_sequence<kSide>());
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
