#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// Whether quantize_row() can write a format.
constexpr bool quantizable(TensorType type) noexcept {
  return type == TensorType::kQ4_0 || type == TensorType::kQ8_0;
}

namespace detail {

inline constexpr int kQuantBlock = 32;  // values that share a scale in Q4_0 and Q8_0
inline constexpr float kGreatestHalf = 65504.0f;

using QuantValues = std::array<float, kQuantBlock>;

/// The value that lies furthest from 0, with its sign; the first of equals. A NaN counts as further
/// than any other.
inline float extreme_of(const float* values) noexcept {
  // Without the sign, floats are in the order of their bits. Eight running maxima fit a vector.
  std::array<std::int32_t, kQuantBlock> bits;
  std::memcpy(bits.data(), values, sizeof bits);
  std::int32_t greatest[8] = {};
  for (std::size_t i = 0; i < bits.size(); i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      bits[i + j] &= 0x7fffffff;
      greatest[j] = greatest[j] > bits[i + j] ? greatest[j] : bits[i + j];
    }
  }
  const std::int32_t extreme = *std::max_element(greatest, greatest + 8);
  return values[std::find(bits.begin(), bits.end(), extreme) - bits.begin()];
}

/// Codes of Q4_0 without their offset, -8 to 7, for a scale that brings no value far beyond them.
/// @param inverse 1 / scale
inline void round_to_q4(const float* values, float inverse, QuantValues& codes) noexcept {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    // Adding 8.5 makes cutting off a rounding, and the codes those of the file.
    int code = static_cast<int>(values[i] * inverse + 8.5f);
    code = code < 0 ? 0 : code;
    code = code > 15 ? 15 : code;
    codes[i] = static_cast<float>(code - 8);
  }
}

/// Sum of a * b. Halving an array of products fixes the order and lets the compiler use vectors.
inline float dot_of(const float* a, const float* b) noexcept {
  QuantValues sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = a[i] * b[i];
  for (std::size_t i = 0; i < 16; ++i) sums[i] += sums[i + 16];
  for (std::size_t i = 0; i < 8; ++i) sums[i] += sums[i + 8];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// The least-squares scale of one of a few roundings.
///
/// Once the codes c are fixed, the best scale is x.c / c.c and leaves the error x.x - (x.c)^2 /
/// c.c. So each candidate only has to round, and the one with the greatest (x.c)^2 / c.c wins. The
/// candidates map the extreme value to -8.5 .. -7: beyond -8 it is cut off, which pays where it
/// stands alone. More of them cost load time and gain little.
inline float q4_scale(const float* values, float extreme) noexcept {
  float greatest = 0;
  float scale = 0;
  QuantValues codes;
  for (const float end : {-8.5f, -8.0f, -7.5f, -7.0f}) {
    round_to_q4(values, end / extreme, codes);
    const float xc = dot_of(values, codes.data());
    const float cc = dot_of(codes.data(), codes.data());
    const float least_squares = cc > 0.0f ? xc / cc : 0.0f;
    const bool better = xc * least_squares > greatest;
    greatest = better ? xc * least_squares : greatest;
    scale = better ? least_squares : scale;
  }
  return scale;
}

/// d, then 16 bytes: value i low, value i + 16 high.
inline bool quantize_q4_0(const float* values, std::byte* out) noexcept {
  const float extreme = extreme_of(values);
  if (!(std::abs(extreme) <= 8.0f * kGreatestHalf)) return false;
  std::uint16_t bits = 0;
  QuantValues codes{};
  // Below half of the least scale nothing but zeros is left. A sum of squares that would not be
  // zero there could underflow.
  if (std::abs(extreme) >= 8.0f * 0x1p-25f) {
    bits = float_to_half(q4_scale(values, extreme));
    const float scale = half_to_float(bits);
    round_to_q4(values, scale == 0.0f ? 0.0f : 1.0f / scale, codes);
  }
  out[0] = static_cast<std::byte>(bits & 0xffu);
  out[1] = static_cast<std::byte>(bits >> 8);
  for (std::size_t i = 0; i < 16; ++i) {
    const int low = static_cast<int>(codes[i]) + 8;
    const int high = static_cast<int>(codes[i + 16]) + 8;
    out[2 + i] = static_cast<std::byte>(low | high << 4);
  }
  return true;
}

/// d, then 32 signed bytes.
inline bool quantize_q8_0(const float* values, std::byte* out) noexcept {
  const float greatest = std::abs(extreme_of(values));
  if (!(greatest <= 127.0f * kGreatestHalf)) return false;
  std::uint16_t bits = float_to_half(greatest / 127.0f);
  // A scale that was rounded down far, as the least ones are, would cut off the greatest value.
  if (greatest > 127.5f * half_to_float(bits)) ++bits;
  const float scale = half_to_float(bits);
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  out[0] = static_cast<std::byte>(bits & 0xffu);
  out[1] = static_cast<std::byte>(bits >> 8);
  for (int i = 0; i < kQuantBlock; ++i) {
    // Above 0, cutting off 128.5 more is rounding; the low byte of the code is that of the sum.
    int code = static_cast<int>(values[i] * inverse + 128.5f) - 128;
    code = code < -127 ? -127 : code;
    code = code > 127 ? 127 : code;
    out[2 + i] = static_cast<std::byte>(code & 0xff);
  }
  return true;
}

}  // namespace detail

/// Quantize a row of floats to Q8_0 or Q4_0, as dequantize_row() reads them.
///
/// Q8_0: the greatest value gets code 127; no value is further off than half a scale. Q4_0: the
/// scale is the best, by squared error, of a few, among them the usual one, which gives the value
/// furthest from 0 code -8. Scales are binary16, the least of which is 2^-24: what is far
/// smaller becomes 0.
/// @shape values [n], n a multiple of 32; out [row_bytes(type, n)]
/// @return false where a value is not finite or beyond 65504 codes' reach (8 or 127 times 65504),
///   or the format is another; `out` is undefined then
/// @cost O(n), no allocation; the result depends on nothing but the values
inline bool quantize_row(TensorType type, const float* values, std::size_t n,
                         std::byte* out) noexcept {
  if (!quantizable(type)) return false;
  const std::size_t bytes = layout_of(type)->bytes;
  bool held = true;
  for (std::size_t i = 0; i < n; i += detail::kQuantBlock, out += bytes) {
    held &= type == TensorType::kQ4_0 ? detail::quantize_q4_0(values + i, out)
                                      : detail::quantize_q8_0(values + i, out);
  }
  return held;
}

/// The same from a row in any format.
/// @shape row [row_bytes(from, n)]; n a multiple of 32 and of the block of `from`
inline bool requantize_row(TensorType from, const std::byte* row, std::size_t n, TensorType to,
                           std::byte* out) noexcept {
  constexpr std::size_t kPiece = 256;  // the longest block of any format
  std::array<float, kPiece> values;
  bool held = true;
  for (std::size_t i = 0; i < n; i += kPiece) {
    const std::size_t count = std::min(kPiece, n - i);
    dequantize_row(from, row, count, values.data());
    held &= quantize_row(to, values.data(), count, out);
    row += row_bytes(from, count).value_or(0);
    out += row_bytes(to, count).value_or(0);
  }
  return held;
}

}  // namespace foredraft::inline v0
