#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <foredraft/backend/cpu/simd_base.hpp>
#include <foredraft/core/half.hpp>

namespace foredraft::inline v0::cpu {

/// What the compiler's own vectors of 16 bytes do: every target with SIMD maps them to its
/// registers, the others to plain arithmetic.
template <class Arch>
struct VectorsOf16Bytes {
  using I = std::int32_t __attribute__((vector_size(16)));
  using F = float __attribute__((vector_size(16)));
  using U = std::uint32_t __attribute__((vector_size(16)));
  using I16 = std::int16_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;

  [[gnu::always_inline]] static I zero() { return I{}; }
  [[gnu::always_inline]] static F zero_float() { return F{}; }
  [[gnu::always_inline]] static I load(const void* p) {
    I v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  [[gnu::always_inline]] static F load_float(const float* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  [[gnu::always_inline]] static void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  [[gnu::always_inline]] static void store(std::int32_t* p, I v) {
    __builtin_memcpy(p, &v, sizeof v);
  }
  [[gnu::always_inline]] static I broadcast(std::int32_t v) { return I{v, v, v, v}; }
  [[gnu::always_inline]] static F broadcast(float v) { return F{v, v, v, v}; }

  [[gnu::always_inline]] static I add(I a, I b) { return a + b; }
  [[gnu::always_inline]] static I multiply(I a, I b) { return a * b; }
  template <int shift>
  [[gnu::always_inline]] static I shift_left(I v) {
    return reinterpret_cast<I>(reinterpret_cast<U>(v) << shift);
  }
  [[gnu::always_inline]] static F to_float(I v) { return __builtin_convertvector(v, F); }
  [[gnu::always_inline]] static F add(F a, F b) { return a + b; }
  [[gnu::always_inline]] static F multiply(F a, F b) { return a * b; }
  [[gnu::always_inline]] static I magnitude_bits(F v) {
    return reinterpret_cast<I>(v) & 0x7fffffff;
  }
  [[gnu::always_inline]] static I max(I a, I b) { return a > b ? a : b; }
};

/// Any machine.
template <>
struct Simd<Portable> : VectorsOf16Bytes<Portable> {
  static constexpr bool kSumsInt16 = true;

  [[gnu::always_inline]] static I low_nibbles(I v) { return v & 0x0f0f0f0f; }
  [[gnu::always_inline]] static I high_nibbles(I v) { return (v >> 4) & 0x0f0f0f0f; }
  template <int shift, int mask>
  [[gnu::always_inline]] static I merge_high(I codes, I plane) {
    constexpr std::int32_t kMask = mask * 0x01010101;
    if constexpr (shift > 0) plane = plane >> shift;
    if constexpr (shift < 0) plane = reinterpret_cast<I>(reinterpret_cast<U>(plane) << -shift);
    return codes | (plane & kMask);
  }

  /// Bytes as int16, even and odd ones apart: where the upper half of a product is to be had, times
  /// 256, which takes one operation less.
  struct Halves {
    I even, odd;

    [[gnu::always_inline]] Halves(I e, I o) : even(e), odd(o) {}
    // NOLINTBEGIN(google-explicit-constructor): a broadcast is four codes, too
#if defined(__SSE2__)
    [[gnu::always_inline]] Halves(I bytes)
        : even(reinterpret_cast<I>(static_cast<I16>(reinterpret_cast<I16>(bytes) << 8))),
          odd(bytes & static_cast<std::int32_t>(0xff00ff00)) {}
#else
    [[gnu::always_inline]] Halves(I bytes)
        : even(reinterpret_cast<I>(static_cast<I16>((reinterpret_cast<I16>(bytes) << 8) >> 8))),
          odd(reinterpret_cast<I>(static_cast<I16>(reinterpret_cast<I16>(bytes) >> 8))) {}
#endif
    // NOLINTEND(google-explicit-constructor)
  };
  /// Of bytes that a half holds.
  [[gnu::always_inline]] static I product(I a, I b) {
#if defined(__SSE2__)
    return reinterpret_cast<I>(
        _mm_mulhi_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    return reinterpret_cast<I>(
        static_cast<I16>(reinterpret_cast<I16>(a) * reinterpret_cast<I16>(b)));
#endif
  }

  /// Split once for the sixteen codes around them.
  template <int k>
  [[gnu::always_inline]] static Halves four_codes(const std::byte* p) {
    constexpr int kLane = k % 16 / 4;
    const Halves sixteen = load(p + k / 16 * 16);
    return {__builtin_shufflevector(sixteen.even, sixteen.even, kLane, kLane, kLane, kLane),
            __builtin_shufflevector(sixteen.odd, sixteen.odd, kLane, kLane, kLane, kLane)};
  }

  /// Bytes of w are signed here, so that those with an offset of 128 fit, too.
  [[gnu::always_inline]] static I dot_int16(I w, Halves a) {
    const Halves codes = w;
    return add_int16(product(codes.even, a.even), product(codes.odd, a.odd));
  }
  [[gnu::always_inline]] static I add_int16(I a, I b) {
    I sum =
        reinterpret_cast<I>(static_cast<I16>(reinterpret_cast<I16>(a) + reinterpret_cast<I16>(b)));
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I dot(I acc, I w, Halves a) {
    return dot_pairs(acc, dot_int16(w, a), broadcast(std::int32_t{0x00010001}));
  }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, Halves a) {
    return dot(acc, w ^ static_cast<std::int32_t>(0x80808080), a);
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  [[gnu::always_inline]] static I low_half(I v) { return v & 0xffff; }
  [[gnu::always_inline]] static I both_halves(I v) { return low_half(v) | shift_left<16>(v); }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
#if defined(__SSE2__)
    I sum = acc + reinterpret_cast<I>(
                      _mm_madd_epi16(reinterpret_cast<__m128i>(w), reinterpret_cast<__m128i>(a)));
#else
    I sum = acc + (w >> 16) * (a >> 16) + sign_extend_low(w) * sign_extend_low(a);
#endif
    in_this_order(sum);
    return sum;
  }
  /// The low int16 of each lane.
  [[gnu::always_inline]] static I sign_extend_low(I v) {
    return reinterpret_cast<I>(reinterpret_cast<U>(v) << 16) >> 16;
  }

  [[gnu::always_inline]] static I widen_u8(const void* p) {
    using Bytes = std::uint8_t __attribute__((vector_size(4)));
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, I);
  }
  [[gnu::always_inline]] static I widen_s8(const void* p) {
    using Bytes = std::int8_t __attribute__((vector_size(4)));
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, I);
  }
  [[gnu::always_inline]] static I widen_u8_pairs(const void* p) {
    using Bytes = std::uint8_t __attribute__((vector_size(8)));
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return reinterpret_cast<I>(__builtin_convertvector(bytes, I16));
  }

  [[gnu::always_inline]] static F fma(F a, F b, F c) {
    // Said explicitly where the target can: left to the compiler, which product it fuses might
    // depend on the tile.
#if defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
  }
  [[gnu::always_inline]] static F fnma(F a, F b, F c) { return fma(-a, b, c); }

  /// Exact: a subnormal half is a small integer times 2^-24, any other one a float with another
  /// exponent bias.
  [[gnu::always_inline]] static float half(const std::uint8_t* p) {
    const auto bits = static_cast<std::uint32_t>(p[0] | p[1] << 8);
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t rest = bits & 0x7fffu;
    std::uint32_t value = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
    if (rest < 0x400u)
      value = __builtin_bit_cast(std::uint32_t, static_cast<float>(rest) * 0x1p-24f);
    return __builtin_bit_cast(float, sign | value);
  }
  [[gnu::always_inline]] static F load_half(const void* p) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    return F{half(b), half(b + 2), half(b + 4), half(b + 6)};
  }
  [[gnu::always_inline]] static F load_bfloat16(const void* p) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    return reinterpret_cast<F>(
        shift_left<16>(I{b[0] | b[1] << 8, b[2] | b[3] << 8, b[4] | b[5] << 8, b[6] | b[7] << 8}));
  }

  [[gnu::always_inline]] static void store_half(std::uint16_t* p, F v) {
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(v[i]);
  }

  [[gnu::always_inline]] static I round(F v) {
#if defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    __asm__("" : "+m"(v));  // v is a product more often than not: it must be rounded before the sum
#endif
    // Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to an integer, ties to even, in
    // its low bits.
    return reinterpret_cast<I>(v + 0x1.8p23f) - 0x4b400000;
  }
  [[gnu::always_inline]] static void store_bytes(std::int8_t* p, I v) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::int8_t>(v[i]);
  }
};

}  // namespace foredraft::inline v0::cpu
