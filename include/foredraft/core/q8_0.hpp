#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <foredraft/core/half.hpp>
#include <foredraft/core/quantize.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// Storage type of quantized caches: 32 values that share a scale, value i = scale * codes[i]. The
/// block of the file format Q8_0.
struct q8_0 {
  static constexpr int kValues = 32;

  f16 scale;
  std::int8_t codes[kValues] = {};  // -127 .. 127

  q8_0() = default;
  /// To nearest, by the greatest magnitude, as quantize_row() does. NaN throughout where a value is
  /// not finite or beyond 127 * 65504.
  /// @shape values [kValues]
  explicit q8_0(const float* values) noexcept {
    std::array<std::byte, 2 + kValues> block;
    if (quantize_row(TensorType::kQ8_0, values, kValues, block.data())) {
      scale.bits = static_cast<std::uint16_t>(std::to_integer<unsigned>(block[0]) |
                                              std::to_integer<unsigned>(block[1]) << 8);
      std::memcpy(codes, block.data() + 2, kValues);
    } else {
      scale = f16(std::numeric_limits<float>::quiet_NaN());
    }
  }

  float operator[](int i) const noexcept {
    return static_cast<float>(scale) * static_cast<float>(codes[i]);
  }
};
static_assert(sizeof(q8_0) == 34);

}  // namespace foredraft::inline v0
