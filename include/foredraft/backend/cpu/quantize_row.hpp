#pragma once

#include <cstdint>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/simd.hpp>

namespace foredraft::inline v0::cpu {

/// Writes the blocks of one row of activations.
///
/// Codes are round(127 * x / max|x|), so that no code is -128 and a code's sign can be flipped. A
/// run that holds an infinity or NaN gets the scale NaN: the products must not look healthy.
template <class Arch>
struct RowQuantizer {
  using S = Simd<Arch>;
  using I = typename S::I;
  using F = typename S::F;

  /// Quantize n values that share a scale.
  /// @return the scale
  template <int n>
  static float quantize(const float* x, std::int8_t* codes) noexcept {
    I greatest = S::zero();
    for (int i = 0; i < n; i += S::kLanes) {
      greatest = S::max(greatest, S::magnitude_bits(S::load_float(x + i)));
    }
    std::int32_t lanes[S::kLanes];
    S::store(lanes, greatest);
    std::int32_t bits = lanes[0];
    for (int i = 1; i < S::kLanes; ++i) bits = lanes[i] > bits ? lanes[i] : bits;

    constexpr std::int32_t kInfinity = 0x7f800000;
    // 2^-100: below it 127 / max|x| might overflow, and no activation that small matters.
    constexpr std::int32_t kTiny = (127 - 100) << 23;
    if (bits < kTiny || bits >= kInfinity) {
      __builtin_memset(codes, 0, n);
      return bits < kTiny ? 0.0f : __builtin_nanf("");
    }
    const float magnitude = __builtin_bit_cast(float, bits);
    const F inverse = S::broadcast(127.0f / magnitude);
    for (int i = 0; i < n; i += S::kLanes) {
      S::store_bytes(codes + i, S::round(S::multiply(S::load_float(x + i), inverse)));
    }
    return magnitude / 127.0f;
  }

  /// Sums of four consecutive codes each.
  template <int n>
  static void sum_fours(const std::int8_t* codes, std::int32_t* sums) noexcept {
    const I ones = S::broadcast(0x01010101);
    for (int i = 0; i < n; i += 4 * S::kLanes) {
      S::store(sums + i / 4, S::dot(S::zero(), ones, S::load(codes + i)));
    }
  }

  static void write(const float* x, std::int8_t* codes, ScalesPer256& of) noexcept {
    of.scale = quantize<256>(x, codes);
    std::int32_t fours[64];
    sum_fours<256>(codes, fours);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t* four = fours + 4 * i;
      of.negated_sums[i] = -(four[0] + four[1] + four[2] + four[3]);
    }
    for (int i = 0; i < 8; ++i) {
      // At most 32 * 127, well within 16 bits.
      of.sums[i] =
          static_cast<std::int16_t>(-(of.negated_sums[2 * i] + of.negated_sums[2 * i + 1]));
    }
  }

  static void write(const float* x, std::int8_t* codes, ScalesPer32& of) noexcept {
    for (int s = 0; s < 2; ++s) of.scales[s] = quantize<32>(x + 32 * s, codes + 32 * s);
    std::int32_t fours[16];
    sum_fours<64>(codes, fours);
    for (int s = 0; s < 2; ++s) {
      std::int32_t sum = 0;
      for (int i = 0; i < 8; ++i) sum += fours[8 * s + i];
      of.negated_sums[s] = -sum;
      of.scaled_sums[s] = of.scales[s] * static_cast<float>(sum);
    }
  }

  template <ActivationFormat format>
  static void write_block(const float* x, const Activations::Block& to) noexcept {
    auto* codes = reinterpret_cast<std::int8_t*>(to.codes);
    if constexpr (format == ActivationFormat::kF32)
      __builtin_memcpy(codes, x, activation_code_bytes(format));
    if constexpr (format == ActivationFormat::kInt8Per32) write(x, codes, to.per_32(0));
    if constexpr (format == ActivationFormat::kInt8Per256) write(x, codes, to.per_256(0));
  }

  template <ActivationFormat format>
  static void write_row(const float* x, const Activations& a, int row, int begin,
                        int end) noexcept {
    constexpr int block_k = activation_block_k(format);
    Activations::Block block = a.block(row, begin / block_k);
    for (; begin + block_k <= end; begin += block_k, block.advance()) {
      write_block<format>(x + begin, block);
    }
    if (begin == end) return;
    float padded[block_k];
    for (int i = 0; i < block_k; ++i) padded[i] = begin + i < end ? x[begin + i] : 0.0f;
    write_block<format>(padded, block);
  }
};

/// Store the columns begin .. end - 1 of one row of a view of activations. Both are multiples of
/// kBlockColumns, or `end` is a.n_in. Threads may write different rows or columns at once.
/// @shape x [a.n_in], the whole row
/// @cost O(end - begin), no allocation
template <class Arch>
void quantize_row(const float* x, const Activations& a, int row, int begin, int end) noexcept {
  using Quantizer = RowQuantizer<Arch>;
  switch (a.format) {
    case ActivationFormat::kF32:
      return Quantizer::template write_row<ActivationFormat::kF32>(x, a, row, begin, end);
    case ActivationFormat::kInt8Per32:
      return Quantizer::template write_row<ActivationFormat::kInt8Per32>(x, a, row, begin, end);
    case ActivationFormat::kInt8Per256:
      return Quantizer::template write_row<ActivationFormat::kInt8Per256>(x, a, row, begin, end);
  }
}

}  // namespace foredraft::inline v0::cpu
