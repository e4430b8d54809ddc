#pragma once

#include <cstddef>

#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

/// Output rows of a panel: the lanes of one 64-byte vector of int32 or float sums.
inline constexpr int kPanelRows = 16;

/// Bytes of a unit of codes: 16 rows x 4 consecutive k, as the int8 dot product takes them.
inline constexpr int kUnitBytes = 64;

/// Where the parts of one block of a panel lie. A panel is 16 output rows x all k, block after
/// block; a matrix is panel after panel. Every part begins at a multiple of 64 bytes (those of
/// scale rows at their size).
///
/// Codes keep their bit width. The low plane holds one byte a code (Q8_0) or nibbles: byte i of
/// vector v is code i of unit 2v below and of unit 2v + 1 above. Bits 4 and up lie in the high
/// plane, one vector per sub-block: bits [u * high_bits, (u + 1) * high_bits) of byte i belong to
/// code i of unit u. Within a unit, byte 4 r + j is row r, k + j.
///
///   | format       | d                    | m                | scales       | mins             |
///   |--------------|----------------------|------------------|--------------|------------------|
///   | Q4_0 .. Q8_0 | f16 [2][16]          | f16 [2][16] (_1) |              |                  |
///   | Q4_K, Q5_K   | f16 [16]             | f16 [16]         | u8 [8][16]   | u8 [4][16][2]    |
///   | Q6_K         | f32 [16]             |                  | s8 [16][16]  |                  |
///   | F16, BF16    | values [16 k][16], 2 bytes each; F32: 4 bytes each                        |
struct PanelLayout {
  int block_k = 0;    // k in a block of the panel
  int sub_k = 0;      // k that share a scale; block_k for the float formats
  int low_bits = 0;   // 4 or 8; of a value for the float formats: 16 or 32
  int high_bits = 0;  // 0, 1 or 2
  int offset = 0;     // code of the value 0
  std::size_t d = 0;
  std::size_t m = 0;
  std::size_t scales = 0;
  std::size_t mins = 0;
  std::size_t low = 0;
  std::size_t high = 0;
  std::size_t bytes = 0;  // of a block
};

/// Formats with one d for each 32 k. Two of them form a block, so that its parts are whole cache
/// lines.
constexpr bool scaled_per_32(TensorType type) noexcept {
  return quant_geometry(type).elements == 32;
}

/// Formats with 256 k, one d and a smaller scale for each sub-block.
constexpr bool scaled_per_256(TensorType type) noexcept {
  return quant_geometry(type).elements == 256;
}

/// Formats that add a multiple of m.
constexpr bool has_min(TensorType type) noexcept {
  return type == TensorType::kQ4_1 || type == TensorType::kQ5_1 || type == TensorType::kQ4_K ||
         type == TensorType::kQ5_K;
}

constexpr PanelLayout panel_layout(TensorType type) noexcept {
  constexpr std::size_t kLine = 64;
  PanelLayout layout;
  const QuantGeometry geometry = quant_geometry(type);
  if (geometry.elements == 0) {
    layout.block_k = layout.sub_k = 16;
    layout.low_bits = type == TensorType::kF32 ? 32 : 16;
    layout.bytes = 16 * kPanelRows * idx(layout.low_bits) / 8;
    return layout;
  }
  layout.sub_k = geometry.sub;
  layout.offset = geometry.offset;
  layout.low_bits = geometry.bits == 8 ? 8 : 4;
  layout.high_bits = geometry.bits - layout.low_bits;
  std::size_t end = kLine;  // d
  if (scaled_per_32(type)) {
    layout.block_k = 64;
    layout.m = end;
    if (has_min(type)) end += kLine;
  } else {
    layout.block_k = 256;
    layout.m = kLine / 2;
    const auto n_sub = idx(layout.block_k / layout.sub_k);
    layout.scales = end;
    end += n_sub * kPanelRows;
    layout.mins = end;
    if (has_min(type)) end += n_sub * kPanelRows;
  }
  const auto codes = idx(layout.block_k * kPanelRows);
  layout.low = end;
  end += codes * idx(layout.low_bits) / 8;
  layout.high = end;
  layout.bytes = end + codes * idx(layout.high_bits) / 8;
  return layout;
}

static_assert(panel_layout(TensorType::kQ4_K).bytes == 2368);
static_assert(panel_layout(TensorType::kQ6_K).bytes % 64 == 0);

/// A packed matrix as kernels see it: plain data, not owned.
/// @shape n_panels * 16 >= n_out rows, n_blocks * block_k >= n_in columns, the surplus zero
struct PackedPanels {
  TensorType type = TensorType::kF32;
  int n_out = 0;
  int n_in = 0;
  int n_panels = 0;
  int n_blocks = 0;             // of a panel
  std::size_t panel_bytes = 0;  // n_blocks * panel_layout(type).bytes
  const std::byte* data = nullptr;
};

}  // namespace foredraft::inline v0::cpu
