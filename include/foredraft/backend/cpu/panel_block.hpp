#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cpu {

// From the blocks of a file to those of a panel and back, one output row at a time (see
// PanelLayout). Plain code: it runs once, when a model is loaded, and for the embedding of each
// token.

/// Offset of an entry among rows of 16 of them, each `size` bytes.
constexpr std::size_t panel_entry(std::size_t base, int index, int row, std::size_t size) noexcept {
  return base + idx(index * kPanelRows + row) * size;
}

/// Offset of min s of a row: the mins of two neighbouring sub-blocks are pairs.
constexpr std::size_t panel_min(const PanelLayout& layout, int s, int row) noexcept {
  return layout.mins + idx((s / 2 * kPanelRows + row) * 2 + s % 2);
}

/// Write one row's codes, of a format with 256 of them in a block, into the planes of a block.
/// @shape codes [layout.block_k]
inline void pack_codes(const PanelLayout& layout, const std::uint8_t* codes, int row,
                       std::byte* block) noexcept {
  std::byte* low = block + layout.low + 4 * row;
  for (int k = 0; k < layout.block_k; k += 8, low += kUnitBytes) {
    // Eight codes as one integer: the first four become the low nibbles of four bytes, the others
    // the high ones.
    std::uint64_t eight;
    std::memcpy(&eight, codes + k, 8);
    eight &= 0x0f0f0f0f0f0f0f0fu;
    const auto nibbles = static_cast<std::uint32_t>(eight | eight >> 28);
    std::memcpy(low, &nibbles, 4);
  }
  if (layout.high_bits == 0) return;
  const int units = 8 / layout.high_bits;  // of a vector of the high plane
  std::byte* high = block + layout.high + 4 * row;
  for (int k = 0; k < layout.block_k; k += 4 * units, high += kUnitBytes) {
    std::uint32_t plane = 0;
    for (int u = 0; u < units; ++u) {
      std::uint32_t four;
      std::memcpy(&four, codes + k + 4 * u, 4);
      const std::uint32_t bits = four >> 4 & (layout.high_bits == 1 ? 0x01010101u : 0x03030303u);
      plane |= bits << (u * layout.high_bits);
    }
    std::memcpy(high, &plane, 4);
  }
}

/// Read one code of a row.
inline std::uint8_t unpack_code(const PanelLayout& layout, const std::byte* block, int row,
                                int k) noexcept {
  const int unit = k / 4;
  const auto byte_of = [&](std::size_t plane, int vector) {
    return std::to_integer<unsigned>(block[plane + idx(vector * kUnitBytes + 4 * row + k % 4)]);
  };
  if (layout.low_bits == 8) return static_cast<std::uint8_t>(byte_of(layout.low, unit));
  const unsigned both = byte_of(layout.low, unit / 2);
  unsigned code = unit % 2 == 0 ? both & 15 : both >> 4;
  if (layout.high_bits != 0) {
    const int units = 8 / layout.high_bits;
    const unsigned high = byte_of(layout.high, unit / units) >> (unit % units * layout.high_bits);
    code |= (high & (layout.high_bits == 1 ? 1u : 3u)) << 4;
  }
  return static_cast<std::uint8_t>(code);
}

/// Write a row's d, m, scales and mins, of a format with 256 k in a block.
inline void pack_scales(TensorType type, const PanelLayout& layout, const QuantBlock& source,
                        int row, std::byte* block) noexcept {
  if (type == TensorType::kQ6_K) {
    // There is room in its cache line for the float, which spares the kernels a conversion.
    const float d = half_to_float(source.d);
    std::memcpy(block + panel_entry(layout.d, 0, row, 4), &d, 4);
  } else {
    std::memcpy(block + panel_entry(layout.d, 0, row, 2), &source.d, 2);
    std::memcpy(block + panel_entry(layout.m, 0, row, 2), &source.m, 2);
  }
  for (int s = 0; s < layout.block_k / layout.sub_k; ++s) {
    std::memcpy(block + panel_entry(layout.scales, s, row, 1), source.scale + s, 1);
    if (has_min(type)) block[panel_min(layout, s, row)] = std::byte{source.min[s]};
  }
}

/// Read d, m, scales and mins of a row; `index` counts the file's blocks within the panel's.
inline void unpack_scales(TensorType type, const PanelLayout& layout, const std::byte* block,
                          int index, int row, QuantBlock& target) noexcept {
  if (type == TensorType::kQ6_K) {
    float d;
    std::memcpy(&d, block + panel_entry(layout.d, 0, row, 4), 4);
    target.d = float_to_half(d);  // it was a half before, so this is exact
  } else {
    std::memcpy(&target.d, block + panel_entry(layout.d, index, row, 2), 2);
    if (has_min(type)) std::memcpy(&target.m, block + panel_entry(layout.m, index, row, 2), 2);
  }
  if (!scaled_per_256(type)) return;
  for (int s = 0; s < layout.block_k / layout.sub_k; ++s) {
    std::memcpy(target.scale + s, block + panel_entry(layout.scales, s, row, 1), 1);
    if (has_min(type))
      target.min[s] = std::to_integer<std::uint8_t>(block[panel_min(layout, s, row)]);
  }
}

namespace detail {

/// Eight bits of two units of a file's high plane, bit 4 u + j that of code j of unit u, as bit u of
/// byte j.
inline constexpr std::array<std::uint32_t, 256> kHighBits = [] {
  std::array<std::uint32_t, 256> bytes{};
  for (std::uint32_t bits = 0; bits < bytes.size(); ++bits) {
    for (int i = 0; i < 8; ++i) bytes[bits] |= (bits >> i & 1) << (8 * (i % 4) + i / 4);
  }
  return bytes;
}();

/// One block of 32 k of a file into its place in a panel's block; `index` counts the file's blocks
/// within that. Codes move in groups of four, without being taken apart.
template <TensorType kType>
void pack_block_of_32(const std::byte* source, int index, int row, std::byte* block) noexcept {
  constexpr PanelLayout kLayout = panel_layout(kType);
  const auto load = [&source]<typename T>(T& value) {
    std::memcpy(&value, source, sizeof(T));
    source += sizeof(T);
  };
  std::uint16_t half;
  load(half);
  std::memcpy(block + panel_entry(kLayout.d, index, row, 2), &half, 2);
  if constexpr (has_min(kType)) {
    load(half);
    std::memcpy(block + panel_entry(kLayout.m, index, row, 2), &half, 2);
  }
  constexpr int kVectors = 32 / (kLayout.low_bits == 8 ? 4 : 8);  // of the low plane
  const auto store = [&](int vector, std::uint32_t four) {
    std::memcpy(block + panel_entry(kLayout.low, kVectors * index + vector, row, 4), &four, 4);
  };
  if constexpr (kLayout.low_bits == 8) {
    for (int vector = 0; vector < kVectors; ++vector) {
      std::uint32_t four;
      load(four);
      store(vector, four ^ 0x80808080u);  // two's complement, plus the offset of 128
    }
    return;
  }
  if constexpr (kLayout.high_bits == 1) {
    std::uint32_t bits;
    load(bits);
    bits = kHighBits[bits & 0xff] | kHighBits[bits >> 8 & 0xff] << 2 |
           kHighBits[bits >> 16 & 0xff] << 4 | kHighBits[bits >> 24] << 6;
    std::memcpy(block + panel_entry(kLayout.high, index, row, 4), &bits, 4);
  }
  // Byte i of 16 holds codes i and i + 16.
  for (int vector = 0; vector < 2; ++vector) {
    std::uint32_t first;
    std::uint32_t second;
    load(first);
    load(second);
    store(vector, (first & 0x0f0f0f0fu) | (second & 0x0f0f0f0fu) << 4);
    store(vector + 2, (first >> 4 & 0x0f0f0f0fu) | (second & 0xf0f0f0f0u));
  }
}

/// What pack_panel does, for one format: the compiler knows the layout, and loops have fixed ends.
/// Blocks outside and rows inside, so that a block stays in the first-level cache while all 16 rows
/// write their part of each of its lines.
template <TensorType kType>
void pack_panel_of(const std::byte* rows, std::size_t row_size, int n_rows, int n_in,
                   std::byte* panel) noexcept {
  constexpr PanelLayout kLayout = panel_layout(kType);
  constexpr TypeLayout kFile = *layout_of(kType);
  constexpr auto kElements = static_cast<int>(kFile.elements);
  constexpr std::size_t kBlockBytes = kLayout.block_k / kElements * kFile.bytes;  // of a row
  QuantBlock decoded;
  for (int begin = 0; begin < n_in; begin += kLayout.block_k, panel += kLayout.bytes) {
    const int n_k = std::min(kLayout.block_k, n_in - begin);
    if (n_rows < kPanelRows || n_k < kLayout.block_k) std::memset(panel, 0, kLayout.bytes);
    const std::byte* source = rows + idx(begin / kElements) * kFile.bytes;
    for (int row = 0; row < n_rows; ++row, source += row_size) {
      // The same place of the next panel: sixteen rows side by side are too many for the hardware to
      // fetch ahead. Behind the last one lies something else or nothing, which a fetch may name.
      const auto next = reinterpret_cast<std::uintptr_t>(source) + kPanelRows * row_size;
      for (std::size_t at = 0; at < kBlockBytes; at += kLine)
        __builtin_prefetch(reinterpret_cast<const void*>(next + at));
      if constexpr (kElements == 1) {
        for (int k = 0; k < n_k; ++k) {
          std::memcpy(panel + panel_entry(0, k, row, kFile.bytes), source + idx(k) * kFile.bytes,
                      kFile.bytes);
        }
      } else if constexpr (kElements == kLayout.block_k) {
        decode_block(kType, source, decoded);
        pack_scales(kType, kLayout, decoded, row, panel);
        pack_codes(kLayout, decoded.code, row, panel);
      } else {
        for (int index = 0; index < n_k / kElements; ++index)
          pack_block_of_32<kType>(source + index * kFile.bytes, index, row, panel);
      }
    }
  }
}

}  // namespace detail

/// Write up to 16 rows of a file into a panel; rows and columns that are missing become zeros.
/// @shape rows [n_rows, row_size], row_size = row_bytes(type, n_in); panel [blocks of n_in]
inline void pack_panel(TensorType type, const std::byte* rows, std::size_t row_size, int n_rows,
                       int n_in, std::byte* panel) noexcept {
  with_type(type, [&]<TensorType kType>() {
    detail::pack_panel_of<kType>(rows, row_size, n_rows, n_in, panel);
  });
}

/// Read one row of a panel as the floats that it held in the file.
/// @shape out [n_in]
inline void unpack_row(TensorType type, const std::byte* panel, int n_in, int row,
                       float* out) noexcept {
  const PanelLayout layout = panel_layout(type);
  const int elements = quant_geometry(type).elements;
  if (elements == 0) {
    const auto size = idx(layout.low_bits / 8);
    for (int k = 0; k < n_in; ++k)
      dequantize_row(type, panel + panel_entry(0, k, row, size), 1, out + k);
    return;
  }
  QuantBlock decoded;
  for (int begin = 0; begin < n_in; begin += elements) {
    const int first = begin % layout.block_k;
    const std::byte* block = panel + idx(begin / layout.block_k) * layout.bytes;
    unpack_scales(type, layout, block, first / elements, row, decoded);
    for (int k = 0; k < elements; ++k) decoded.code[k] = unpack_code(layout, block, row, first + k);
    for (int k = 0; k < elements; ++k) out[begin + k] = dequantize(type, decoded, k);
  }
}

}  // namespace foredraft::inline v0::cpu
