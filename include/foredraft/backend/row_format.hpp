#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The formats in which a row of a key or a value is stored, known when a program is compiled (the
/// type of an element: float, f16, bf16, q8_0) or when it runs (RowFormat).

/// The format whose elements are of type T.
template <typename T>
inline constexpr RowFormat kFormatOf = RowFormat::kF32;
template <>
inline constexpr RowFormat kFormatOf<f16> = RowFormat::kF16;
template <>
inline constexpr RowFormat kFormatOf<bf16> = RowFormat::kBF16;
template <>
inline constexpr RowFormat kFormatOf<q8_0> = RowFormat::kQ8_0;

/// A type without a value.
template <typename T>
struct Element {
  using type = T;
};

/// f(Element<T>()) with the element type of a format: from here on it is known to the compiler.
template <typename F>
[[gnu::always_inline]] constexpr decltype(auto) with_element(RowFormat format, F&& f) {
  switch (format) {
    case RowFormat::kF32: return f(Element<float>());
    case RowFormat::kF16: return f(Element<f16>());
    case RowFormat::kBF16: return f(Element<bf16>());
    case RowFormat::kQ8_0: break;
  }
  return f(Element<q8_0>());
}

constexpr std::string_view name_of(RowFormat format) noexcept {
  constexpr std::string_view kNames[] = {"f32", "f16", "q8_0", "bf16"};
  return kNames[static_cast<int>(format)];
}

/// Values that an element of a format holds.
template <typename T>
inline constexpr int kValuesPerElement = 1;
template <>
inline constexpr int kValuesPerElement<q8_0> = q8_0::kValues;

constexpr int values_in_element(RowFormat format) noexcept {
  return format == RowFormat::kQ8_0 ? kValuesPerElement<q8_0> : 1;
}

/// Elements of a stored row.
template <typename T>
[[gnu::always_inline]] constexpr int row_elements(int d_head) noexcept {
  return d_head / kValuesPerElement<T>;
}

/// Bytes of a stored row.
[[gnu::always_inline]] constexpr std::size_t row_bytes(RowFormat format, int d_head) noexcept {
  switch (format) {
    case RowFormat::kF32: return idx(d_head) * sizeof(float);
    case RowFormat::kF16: return idx(d_head) * sizeof(f16);
    case RowFormat::kBF16: return idx(d_head) * sizeof(bf16);
    case RowFormat::kQ8_0: break;
  }
  return idx(row_elements<q8_0>(d_head)) * sizeof(q8_0);
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

/// The same in a format that is known when the program runs.
inline void store_row(RowFormat format, std::span<const float> values, std::byte* row) noexcept {
  with_element(format,
               [&]<typename T>(Element<T>) { store_row(values, reinterpret_cast<T*>(row)); });
}
inline void load_row(RowFormat format, const std::byte* row, std::span<float> values) noexcept {
  with_element(format,
               [&]<typename T>(Element<T>) { load_row(reinterpret_cast<const T*>(row), values); });
}

}  // namespace foredraft::inline v0
