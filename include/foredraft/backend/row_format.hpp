#pragma once

#include <cstddef>
#include <span>

#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0 {

/// The formats in which a row of a key or a value is stored: float, f16, q8_0.

/// Values that an element of a format holds.
template <typename T>
inline constexpr int kValuesPerElement = 1;
template <>
inline constexpr int kValuesPerElement<q8_0> = q8_0::kValues;

/// Elements of a stored row.
template <typename T>
[[gnu::always_inline]] constexpr int row_elements(int d_head) noexcept {
  return d_head / kValuesPerElement<T>;
}

/// @shape values [d_head], row [row_elements(d_head)], written
template <typename T>
void store_row(std::span<const float> values, T* row) noexcept {
  constexpr std::size_t kValues = kValuesPerElement<T>;
  for (std::size_t d = 0; d < values.size(); d += kValues, ++row) {
    if constexpr (kValues == 1) *row = static_cast<T>(values[d]);
    if constexpr (kValues != 1) *row = T(values.data() + d);
  }
}

/// @shape row [row_elements(d_head)], values [d_head], written
template <typename T>
void load_row(const T* row, std::span<float> values) noexcept {
  constexpr std::size_t kValues = kValuesPerElement<T>;
  for (std::size_t d = 0; d < values.size(); ++d) {
    if constexpr (kValues == 1) values[d] = static_cast<float>(row[d]);
    if constexpr (kValues != 1) values[d] = row[d / kValues][static_cast<int>(d % kValues)];
  }
}

}  // namespace foredraft::inline v0
