#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

/// How the input rows of a matrix product are stored: as the weights' format wants them.
enum class ActivationFormat : std::uint8_t {
  kF32,         ///< float formats
  kInt8Per32,   ///< Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: one scale for each 32 values
  kInt8Per256,  ///< Q4_K, Q5_K, Q6_K: one scale for each 256 values
};

/// 16 values; the last block of a row is padded with zeros, as are those of the other formats.
struct BlockF32 {
  float values[16];
};

/// Two times 32 values: x = scale * code.
struct BlockInt8Per32 {
  std::int8_t codes[64];
  std::int32_t negated_sums[2];  // -sum of the 32 codes: times the weights' offset where a dot
                                 // product starts
  float scales[2];
  float scaled_sums[2];  // scale * sum: what a weight's m is multiplied with
};

/// 256 values: x = scale * code.
struct BlockInt8Per256 {
  std::int8_t codes[256];
  std::int32_t negated_sums[16];  // -sum of each 16 codes
  std::int16_t sums[8];           // sum of each 32 codes
  float scale;
};
static_assert(sizeof(BlockInt8Per32) == 88 && sizeof(BlockInt8Per256) == 340, "no hidden padding");

constexpr ActivationFormat activation_format(TensorType type) noexcept {
  if (scaled_per_32(type)) return ActivationFormat::kInt8Per32;
  if (scaled_per_256(type)) return ActivationFormat::kInt8Per256;
  return ActivationFormat::kF32;
}

/// Values in a block: the block_k of the panels that go with the format.
[[gnu::always_inline]] constexpr int activation_block_k(ActivationFormat format) noexcept {
  switch (format) {
    case ActivationFormat::kF32: return 16;
    case ActivationFormat::kInt8Per32: return 64;
    case ActivationFormat::kInt8Per256: return 256;
  }
  return 0;
}

[[gnu::always_inline]] constexpr std::size_t activation_block_bytes(
    ActivationFormat format) noexcept {
  switch (format) {
    case ActivationFormat::kF32: return sizeof(BlockF32);
    case ActivationFormat::kInt8Per32: return sizeof(BlockInt8Per32);
    case ActivationFormat::kInt8Per256: return sizeof(BlockInt8Per256);
  }
  return 0;
}

/// Columns that are whole blocks of every format.
inline constexpr int kBlockColumns = 256;
static_assert(kBlockColumns % activation_block_k(ActivationFormat::kF32) == 0 &&
              kBlockColumns % activation_block_k(ActivationFormat::kInt8Per32) == 0 &&
              kBlockColumns % activation_block_k(ActivationFormat::kInt8Per256) == 0);

/// Bytes of one row.
constexpr std::size_t activation_bytes(ActivationFormat format, std::size_t n_in) noexcept {
  const auto block_k = static_cast<std::size_t>(activation_block_k(format));
  return (n_in + block_k - 1) / block_k * activation_block_bytes(format);
}

/// Rows that share a tile of the matrix product, and so are interleaved in memory.
inline constexpr int kTileRows = 8;

/// The input rows of a matrix product: a view of memory that the caller owns.
///
/// Rows lie in groups of 8 (the last may be smaller), each group block after block with the group's
/// rows side by side, so that a tile walks one stream. So a row's place depends on n_rows: fill all
/// rows of one view with quantize_row(). Matrices of the same format and n_in share one view.
/// @shape n_rows * activation_bytes(format, n_in) bytes, aligned to 64
struct Activations {
  ActivationFormat format = ActivationFormat::kF32;
  int n_rows = 0;
  int n_in = 0;
  std::byte* data = nullptr;

  [[gnu::always_inline]] constexpr int n_blocks() const noexcept {
    const int block_k = activation_block_k(format);
    return (n_in + block_k - 1) / block_k;
  }

  /// Rows of the group that begins at row `first`, a multiple of kTileRows.
  [[gnu::always_inline]] constexpr int group_rows(int first) const noexcept {
    return n_rows - first < kTileRows ? n_rows - first : kTileRows;
  }

  /// Bytes from `data` to a block of a row.
  [[gnu::always_inline]] constexpr std::size_t offset(int row, int block) const noexcept {
    const int first = row / kTileRows * kTileRows;
    const int before = first * n_blocks() + block * group_rows(first) + row - first;
    return static_cast<std::size_t>(before) * activation_block_bytes(format);
  }
};

}  // namespace foredraft::inline v0::cpu
