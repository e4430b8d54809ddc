#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <foredraft/core/half.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// How a quantized format turns codes into values.
///
/// With s = k / sub: value[k] = d * scale[s] * (code[k] - offset) + bias[s], where bias is 0, the
/// block's m (the `_1` formats) or -m * min[s] (Q4_K, Q5_K). `scale` is 1 where a format has none.
struct QuantGeometry {
  int elements;  // k in a block of the file
  int sub;       // k that share a scale
  int offset;    // code of the value 0
  int bits;      // of a code
};

/// Geometry of a quantized format; all zero for the float formats.
constexpr QuantGeometry quant_geometry(TensorType type) noexcept {
  switch (type) {
    case TensorType::kQ4_0: return {32, 32, 8, 4};
    case TensorType::kQ4_1: return {32, 32, 0, 4};
    case TensorType::kQ5_0: return {32, 32, 16, 5};
    case TensorType::kQ5_1: return {32, 32, 0, 5};
    case TensorType::kQ8_0: return {32, 32, 128, 8};
    case TensorType::kQ4_K: return {256, 32, 0, 4};
    case TensorType::kQ5_K: return {256, 32, 0, 5};
    case TensorType::kQ6_K: return {256, 16, 32, 6};
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16: break;
  }
  return {};
}

/// One block of a file, taken apart but not yet multiplied out: nothing is lost or rounded.
struct QuantBlock {
  std::uint16_t d = 0;       // binary16 bits
  std::uint16_t m = 0;       // binary16 bits; 0 where a format has none
  std::int8_t scale[16]{};   // [elements / sub]
  std::uint8_t min[8]{};     // [elements / sub]; Q4_K and Q5_K
  std::uint8_t code[256]{};  // [elements], in the order of k
};

namespace detail {

/// Little-endian 16 bits, at any address.
inline std::uint16_t load_u16(const std::byte* p) noexcept {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(p[0]) |
                                    std::to_integer<unsigned>(p[1]) << 8);
}

/// Bit i of eight as byte i of a number in memory, 0 or 1.
inline std::uint64_t spread_bits(std::uint64_t bits) noexcept {
  static_assert(std::endian::native == std::endian::little, "byte i is the i-th lowest");
  // Every byte gets all eight and keeps its own; 127 more carries that one to the top.
  const std::uint64_t own = bits * 0x0101010101010101u & 0x8040201008040201u;
  return (own + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

/// The 6-bit scales and mins of Q4_K and Q5_K. Bytes 0..3 hold scales 0..3 and bytes 4..7 mins 0..3
/// in their low six bits; bytes 8..11 hold the low four bits of scales and mins 4..7, whose top two
/// bits sit atop bytes 0..7.
inline void decode_scales_and_mins(const std::uint8_t* packed, QuantBlock& block) noexcept {
  for (int s = 0; s < 4; ++s) {
    block.scale[s] = static_cast<std::int8_t>(packed[s] & 63);
    block.min[s] = static_cast<std::uint8_t>(packed[s + 4] & 63);
    block.scale[s + 4] = static_cast<std::int8_t>((packed[s + 8] & 15) | (packed[s] >> 6) << 4);
    block.min[s + 4] = static_cast<std::uint8_t>((packed[s + 8] >> 4) | (packed[s + 4] >> 6) << 4);
  }
}

/// Q4_0, Q4_1, Q5_0, Q5_1: d, [m], [32 high bits], then 16 bytes: element i low, element i + 16
/// high.
inline void decode_32(bool has_min, bool has_high, const std::byte* bytes,
                      QuantBlock& block) noexcept {
  block.d = load_u16(bytes);
  bytes += 2;
  if (has_min) {
    block.m = load_u16(bytes);
    bytes += 2;
  }
  std::uint32_t high = 0;
  if (has_high) {
    high = load_u16(bytes) | static_cast<std::uint32_t>(load_u16(bytes + 2)) << 16;
    bytes += 4;
  }
  // Eight bytes at a time: compilers make code of very different speed from a loop over elements.
  for (int half = 0; half < 2; ++half) {
    std::uint64_t nibbles;
    std::memcpy(&nibbles, bytes + 8 * half, 8);
    std::uint64_t first = nibbles & 0x0f0f0f0f0f0f0f0fu;
    std::uint64_t second = nibbles >> 4 & 0x0f0f0f0f0f0f0f0fu;
    if (has_high) {
      first |= spread_bits(high >> (8 * half) & 0xff) << 4;
      second |= spread_bits(high >> (16 + 8 * half) & 0xff) << 4;
    }
    std::memcpy(block.code + 8 * half, &first, 8);
    std::memcpy(block.code + 16 + 8 * half, &second, 8);
  }
}

/// Q4_K, Q5_K: d, m, 12 bytes of scales and mins, [32 bytes of high bits], 128 bytes of nibbles.
/// 32 bytes hold sub-blocks 2j (low) and 2j + 1 (high); bit s of high byte i belongs to element i
/// of sub-block s.
inline void decode_k45(bool has_high, const std::byte* bytes, QuantBlock& block) noexcept {
  block.d = load_u16(bytes);
  block.m = load_u16(bytes + 2);
  const auto* packed = reinterpret_cast<const std::uint8_t*>(bytes + 4);
  decode_scales_and_mins(packed, block);
  const std::uint8_t* high = packed + 12;
  const std::uint8_t* nibbles = has_high ? high + 32 : high;
  for (int j = 0; j < 4; ++j) {
    std::uint8_t* code = block.code + 64 * j;
    for (int i = 0; i < 32; ++i) {
      code[i] = nibbles[32 * j + i] & 15;
      code[i + 32] = static_cast<std::uint8_t>(nibbles[32 * j + i] >> 4);
    }
    if (!has_high) continue;
    for (int i = 0; i < 32; ++i) {
      code[i] = static_cast<std::uint8_t>(code[i] | (high[i] >> (2 * j) & 1) << 4);
      code[i + 32] = static_cast<std::uint8_t>(code[i + 32] | (high[i] >> (2 * j + 1) & 1) << 4);
    }
  }
}

/// Q6_K: 128 bytes of low nibbles, 64 bytes of high pairs, 16 signed scales, d. Each half of the
/// block (128 elements) is four runs of 32: runs 0 and 1 in the low nibbles, 2 and 3 in the high
/// ones; run r's pair is at bits 2r.
inline void decode_k6(const std::byte* bytes, QuantBlock& block) noexcept {
  const auto* low = reinterpret_cast<const std::uint8_t*>(bytes);
  const std::uint8_t* high = low + 128;
  for (int half = 0; half < 2; ++half, low += 64, high += 32) {
    std::uint8_t* code = block.code + 128 * half;
    for (int i = 0; i < 32; ++i) {
      code[i] = static_cast<std::uint8_t>((low[i] & 15) | (high[i] & 3) << 4);
      code[i + 32] = static_cast<std::uint8_t>((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
      code[i + 64] = static_cast<std::uint8_t>(low[i] >> 4 | (high[i] >> 4 & 3) << 4);
      code[i + 96] = static_cast<std::uint8_t>(low[i + 32] >> 4 | (high[i] >> 6) << 4);
    }
  }
  std::memcpy(block.scale, bytes + 192, 16);
  block.d = load_u16(bytes + 208);
}

}  // namespace detail

/// Take one block of a quantized format apart.
/// @shape bytes [layout_of(type)->bytes]
/// @source the block structures of the GGUF format
inline void decode_block(TensorType type, const std::byte* bytes, QuantBlock& block) noexcept {
  switch (type) {
    case TensorType::kQ4_0: detail::decode_32(false, false, bytes, block); break;
    case TensorType::kQ4_1: detail::decode_32(true, false, bytes, block); break;
    case TensorType::kQ5_0: detail::decode_32(false, true, bytes, block); break;
    case TensorType::kQ5_1: detail::decode_32(true, true, bytes, block); break;
    case TensorType::kQ8_0:
      block.d = detail::load_u16(bytes);
      // Two's complement plus 128 is the same byte with its top bit flipped.
      for (int i = 0; i < 32; ++i) {
        block.code[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(bytes[2 + i]) ^ 0x80u);
      }
      break;
    case TensorType::kQ4_K: detail::decode_k45(false, bytes, block); break;
    case TensorType::kQ5_K: detail::decode_k45(true, bytes, block); break;
    case TensorType::kQ6_K: detail::decode_k6(bytes, block); break;
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16: break;
  }
}

/// Value of element k. Products of codes, scales and binary16 numbers fit into 24 bits except for
/// Q6_K, which adds nothing to them: so the result does not depend on whether the compiler fuses
/// multiply and add.
inline float dequantize(TensorType type, const QuantBlock& block, int k) noexcept {
  const QuantGeometry geometry = quant_geometry(type);
  const float d = half_to_float(block.d);
  const float m = half_to_float(block.m);
  const float code = static_cast<float>(block.code[k] - geometry.offset);
  const int s = k / geometry.sub;
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1: return d * code + m;
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return d * static_cast<float>(block.scale[s]) * code - m * static_cast<float>(block.min[s]);
    case TensorType::kQ6_K: return d * static_cast<float>(block.scale[s]) * code;
    default: return d * code;
  }
}

/// Expand one row of a file to floats: the plain definition that everything else is compared with.
/// @shape row [row_bytes(type, n)]; out [n]; n a multiple of the format's block
/// @cost O(n), no allocation
inline void dequantize_row(TensorType type, const std::byte* row, std::size_t n,
                           float* out) noexcept {
  switch (type) {
    case TensorType::kF32: std::memcpy(out, row, n * sizeof(float)); return;
    case TensorType::kF16:
      for (std::size_t i = 0; i < n; ++i) out[i] = half_to_float(detail::load_u16(row + 2 * i));
      return;
    case TensorType::kBF16:
      for (std::size_t i = 0; i < n; ++i) out[i] = bfloat16_to_float(detail::load_u16(row + 2 * i));
      return;
    default: break;
  }
  const auto layout = layout_of(type);
  if (!layout) return;
  QuantBlock block;
  for (std::size_t i = 0; i < n; i += layout->elements, row += layout->bytes) {
    decode_block(type, row, block);
    for (std::size_t k = 0; k < layout->elements; ++k) {
      out[i + k] = dequantize(type, block, static_cast<int>(k));
    }
  }
}

}  // namespace foredraft::inline v0
