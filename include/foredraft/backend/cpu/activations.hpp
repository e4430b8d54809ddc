#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

/// How the input rows of a matrix product are stored: as the weights' format wants them.
enum class ActivationFormat : std::uint8_t {
  kF32,         ///< float formats
  kInt8Per32,   ///< Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: one scale for each 32 values
  kInt8Per256,  ///< Q4_K, Q5_K, Q6_K: one scale for each 256 values
};

/// What goes with two times 32 codes: x = scale * code.
struct ScalesPer32 {
  std::int32_t negated_sums[2];  // -sum of the 32 codes: times the weights' offset where a dot
                                 // product starts
  float scales[2];
  float scaled_sums[2];  // scale * sum: what a weight's m is multiplied with
};

/// What goes with 256 codes: x = scale * code.
struct ScalesPer256 {
  std::int32_t negated_sums[16];  // -sum of each 16 codes
  std::int16_t sums[8];           // sum of each 32 codes
  float scale;
};
static_assert(sizeof(ScalesPer32) == 24 && sizeof(ScalesPer256) == 84, "no hidden padding");

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

/// Bytes of the codes of a block: int8, or floats as they are.
[[gnu::always_inline]] constexpr std::size_t activation_code_bytes(
    ActivationFormat format) noexcept {
  const auto block_k = idx(activation_block_k(format));
  return format == ActivationFormat::kF32 ? block_k * sizeof(float) : block_k;
}

/// Bytes of what goes with them.
[[gnu::always_inline]] constexpr std::size_t activation_scales_bytes(
    ActivationFormat format) noexcept {
  switch (format) {
    case ActivationFormat::kF32: return 0;
    case ActivationFormat::kInt8Per32: return sizeof(ScalesPer32);
    case ActivationFormat::kInt8Per256: return sizeof(ScalesPer256);
  }
  return 0;
}

/// Columns that are whole blocks of every format.
inline constexpr int kBlockColumns = 256;
static_assert(kBlockColumns % activation_block_k(ActivationFormat::kF32) == 0 &&
              kBlockColumns % activation_block_k(ActivationFormat::kInt8Per32) == 0 &&
              kBlockColumns % activation_block_k(ActivationFormat::kInt8Per256) == 0);

/// Rows that share a tile of the matrix product by vectors.
inline constexpr int kTileRows = 8;

/// The input rows of a matrix product: a view of memory that the caller owns.
///
/// Rows lie in groups of 16 (the last may be smaller), each group block after block, so that a tile
/// walks one stream. In a block of a group come the codes of all its rows, then what goes with
/// them, row by row; the last block of a row is padded with zeros. So a row's codes begin at a
/// cache line, which a tile register wants: its loads of rows that do not are five times as slow.
///
/// A row's place depends on n_rows: fill all rows of one view with quantize_row(). Matrices of the
/// same format and n_in share one view. The last groups of a view are a view too.
/// @shape bytes(format, n_rows, n_in), aligned to 64
struct Activations {
  static constexpr int kGroupRows = 16;
  static_assert(kGroupRows % kTileRows == 0);

  ActivationFormat format = ActivationFormat::kF32;
  int n_rows = 0;
  int n_in = 0;
  std::byte* data = nullptr;

  /// A block of one row and of those of its group behind it.
  struct Block {
    std::byte* codes = nullptr;
    std::byte* scales = nullptr;
    std::size_t stride = 0;

    /// Go on to the next block of the same rows.
    [[gnu::always_inline]] void advance() noexcept {
      codes += stride;
      scales += stride;
    }
    /// What goes with the codes, m rows behind the first.
    [[gnu::always_inline]] ScalesPer32& per_32(int m) const noexcept {
      return reinterpret_cast<ScalesPer32*>(scales)[m];
    }
    [[gnu::always_inline]] ScalesPer256& per_256(int m) const noexcept {
      return reinterpret_cast<ScalesPer256*>(scales)[m];
    }
  };

  static constexpr std::size_t bytes(ActivationFormat format, int n_rows, int n_in) noexcept {
    const Activations a{format, n_rows, n_in, nullptr};
    return a.offset_of_group(n_rows / kGroupRows * kGroupRows) +
           idx(a.n_blocks()) * a.block_stride(n_rows % kGroupRows);
  }

  [[gnu::always_inline]] constexpr int n_blocks() const noexcept {
    const int block_k = activation_block_k(format);
    return (n_in + block_k - 1) / block_k;
  }

  /// Rows of the group of a row.
  [[gnu::always_inline]] constexpr int group_rows(int row) const noexcept {
    const int rest = n_rows - row / kGroupRows * kGroupRows;
    return rest < kGroupRows ? rest : kGroupRows;
  }

  /// Bytes from one block of a row to the next.
  [[gnu::always_inline]] constexpr std::size_t stride(int row) const noexcept {
    return block_stride(group_rows(row));
  }

  /// The codes of a block of a row, those of the group's next row right behind them.
  [[gnu::always_inline]] constexpr std::byte* codes(int row, int block) const noexcept {
    return data + offset_of_block(row, block) + in_group(row) * activation_code_bytes(format);
  }
  /// What goes with them, that of the next row right behind it.
  [[gnu::always_inline]] constexpr std::byte* scales(int row, int block) const noexcept {
    return data + offset_of_block(row, block) +
           idx(group_rows(row)) * activation_code_bytes(format) +
           in_group(row) * activation_scales_bytes(format);
  }
  /// Where a walk through a row begins: cheaper than to ask for the codes and scales of each block.
  [[gnu::always_inline]] constexpr Block block(int row, int index) const noexcept {
    return {codes(row, index), scales(row, index), stride(row)};
  }

 private:
  [[gnu::always_inline]] static constexpr std::size_t in_group(int row) noexcept {
    return idx(row % kGroupRows);
  }
  [[gnu::always_inline]] constexpr std::size_t block_stride(int rows) const noexcept {
    const std::size_t row = activation_code_bytes(format) + activation_scales_bytes(format);
    return (idx(rows) * row + 63) / 64 * 64;
  }
  [[gnu::always_inline]] constexpr std::size_t offset_of_group(int first) const noexcept {
    return idx(first / kGroupRows) * idx(n_blocks()) * block_stride(kGroupRows);
  }
  [[gnu::always_inline]] constexpr std::size_t offset_of_block(int row, int block) const noexcept {
    return offset_of_group(row) + idx(block) * stride(row);
  }
};

}  // namespace foredraft::inline v0::cpu
