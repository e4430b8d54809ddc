#pragma once

#include <cstdint>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cuda {

/// How a matrix lies in a device's memory. Each type of a file goes into one that holds its values
/// exactly; where codes become wider than in the file, so that they can be used as they are, its name
/// says so.
enum class WeightFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8,        ///< int8 codes, a binary16 scale for 32: Q8_0; Q5_0, wider
  kQ4,        ///< 4-bit codes from -8 on, likewise: Q4_0
  kQ4Biased,  ///< 4-bit codes, float scale and bias for 32: Q4_1, Q4_K
  kQ8Biased,  ///< int8 codes, likewise: Q5_1, Q5_K, wider
  kQ8Narrow,  ///< int8 codes, a float scale for 16: Q6_K, wider
};

constexpr WeightFormat format_for(TensorType type) noexcept {
  switch (type) {
    case TensorType::kF16: return WeightFormat::kF16;
    case TensorType::kBF16: return WeightFormat::kBF16;
    case TensorType::kQ5_0:
    case TensorType::kQ8_0: return WeightFormat::kQ8;
    case TensorType::kQ4_0: return WeightFormat::kQ4;
    case TensorType::kQ4_1:
    case TensorType::kQ4_K: return WeightFormat::kQ4Biased;
    case TensorType::kQ5_1:
    case TensorType::kQ5_K: return WeightFormat::kQ8Biased;
    case TensorType::kQ6_K: return WeightFormat::kQ8Narrow;
    case TensorType::kF32: break;
  }
  return WeightFormat::kF32;
}

/// `f.operator()<format>()`: a format that is known when a program runs, as a constant.
template <typename F>
constexpr void with_format(WeightFormat format, F&& f) {
  switch (format) {
    case WeightFormat::kF32: return f.template operator()<WeightFormat::kF32>();
    case WeightFormat::kF16: return f.template operator()<WeightFormat::kF16>();
    case WeightFormat::kBF16: return f.template operator()<WeightFormat::kBF16>();
    case WeightFormat::kQ8: return f.template operator()<WeightFormat::kQ8>();
    case WeightFormat::kQ4: return f.template operator()<WeightFormat::kQ4>();
    case WeightFormat::kQ4Biased: return f.template operator()<WeightFormat::kQ4Biased>();
    case WeightFormat::kQ8Biased: return f.template operator()<WeightFormat::kQ8Biased>();
    case WeightFormat::kQ8Narrow: return f.template operator()<WeightFormat::kQ8Narrow>();
  }
}

inline constexpr int kTileRows = 16;     // outputs that a warp computes together
inline constexpr int kTileColumns = 16;  // inputs of one mma

/// How a tile, 16 rows of a matrix, is cut into what a warp loads at once.
struct FormatShape {
  int columns;  ///< of a step: a lane loads 16 bytes of it, or 32
  int loads;    ///< of 16 bytes
  int planes;   ///< numbers in bf16 whose sum is a weight, or a code
  int group;    ///< columns that share a scale; 0: there are no scales
  bool biased;  ///< each group has a bias, too
  bool half;    ///< scales are binary16, else float

  /// Of a group, for rows g and g + 8 of a tile. @units bytes
  FOREDRAFT_HOST_DEVICE constexpr int scale_bytes() const {
    return group == 0 ? 0 : half ? 4 : biased ? 16 : 8;
  }
};

FOREDRAFT_HOST_DEVICE constexpr FormatShape shape_of(WeightFormat format) noexcept {
  switch (format) {
    case WeightFormat::kF32: return {16, 2, 3, 0, false, false};
    case WeightFormat::kF16: return {16, 1, 2, 0, false, false};
    case WeightFormat::kBF16: return {16, 1, 1, 0, false, false};
    case WeightFormat::kQ8: return {32, 1, 1, 32, false, true};
    case WeightFormat::kQ4: return {64, 1, 1, 32, false, true};
    case WeightFormat::kQ4Biased: return {64, 1, 1, 32, true, false};
    case WeightFormat::kQ8Biased: return {32, 1, 1, 32, true, false};
    case WeightFormat::kQ8Narrow: return {32, 1, 1, 16, false, false};
  }
  return {};
}
template <WeightFormat F>
inline constexpr FormatShape kShape = shape_of(F);

/// Codes of 4 bits, else of 8, where there are codes.
FOREDRAFT_HOST_DEVICE constexpr bool has_nibbles(WeightFormat format) noexcept {
  return format == WeightFormat::kQ4 || format == WeightFormat::kQ4Biased;
}
/// The nibble that stands for 0.
FOREDRAFT_HOST_DEVICE constexpr int nibble_offset(WeightFormat format) noexcept {
  return format == WeightFormat::kQ4 ? 8 : 0;
}

}  // namespace foredraft::inline v0::cuda
