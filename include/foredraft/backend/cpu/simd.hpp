#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__SSE2__)
// GCC 12 warns falsely about the undefined vectors inside its own AVX-512 intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include <foredraft/backend/cpu/isa.hpp>

namespace foredraft::inline v0::cpu {

// Everything here is always inlined or a member of a template on Arch, and uses nothing of the
// standard library at run time: no function of a kernel unit may leak into units that are compiled
// for older machines.

/// A constant index, so that loops over registers and bit positions are unrolled at every
/// optimisation level. Not std::integral_constant, whose conversion is a function that an
/// unoptimised unit exports.
template <int i>
struct Index {
  static constexpr int value = i;
  [[gnu::always_inline]] constexpr operator int() const noexcept { return i; }
};

/// f(Index<0>), f(Index<1>), ... f(Index<n - 1>), in this order.
template <int n, typename F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (f(Index<i>{}), ...);
  }(std::make_integer_sequence<int, n>{});
}

/// The vector operations that kernels are written in. A specialisation has
///  - I, F: vectors of kLanes int32 or float; an I also holds 4 * kLanes bytes or 2 * kLanes int16;
///  - kLanes: 16, 8 or 4; the 16 rows of a panel are 16 / kLanes vectors;
///  - kMaxRows: rows of the tallest tile that fits the registers, with three accumulators a row and
///    four more;
///  - dot(acc, w, a): acc + sum of 4 products per lane; w unsigned <= 127, a signed;
///  - dot_offset128(...): the same for w up to 255, as sum of w * a or of (w - 128) * a:
///    start_offset128 knows which;
///  - dot_pairs(acc, w, a): acc + sum of 2 products of int16 per lane;
///  - kSumsInt16: has dot_int16, sums of 2 products as int16; add_int16; widen_int16, acc + sums
///    of neighbouring int16. Cheaper than dot where several of them fit an int16;
///  - merge_high<s, mask>: codes | (plane shifted right by s bits, left by -s) & mask.
///
/// Integer operations are exact in all of them; fma rounds once wherever the instruction set has
/// it.
template <class Arch>
struct Simd;

#if defined(__SSE2__)
/// Keeps the compiler from turning a chain of integer additions into a tree: exact as well, but all
/// terms of a tree are alive at once, and the accumulators of a tile no longer fit the registers.
template <typename V>
[[gnu::always_inline]] inline void in_this_order(V& v) {
  __asm__("" : "+v"(v));
}
#endif

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

/// What AVX-512 does with and without the int8 dot product.
template <class Arch>
struct Avx512Operations {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMaxRows = 8;

  [[gnu::always_inline]] static I zero() { return _mm512_setzero_si512(); }
  [[gnu::always_inline]] static F zero_float() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static I load(const void* p) { return _mm512_loadu_si512(p); }
  [[gnu::always_inline]] static F load_float(const float* p) { return _mm512_loadu_ps(p); }
  [[gnu::always_inline]] static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  [[gnu::always_inline]] static void store(std::int32_t* p, I v) { _mm512_storeu_si512(p, v); }
  [[gnu::always_inline]] static I broadcast(std::int32_t v) { return _mm512_set1_epi32(v); }
  [[gnu::always_inline]] static F broadcast(float v) { return _mm512_set1_ps(v); }

  [[gnu::always_inline]] static I low_nibbles(I v) {
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
  }
  [[gnu::always_inline]] static I high_nibbles(I v) {
    return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
  }
  template <int shift, int mask>
  [[gnu::always_inline]] static I merge_high(I codes, I plane) {
    if constexpr (shift > 0) plane = _mm512_srli_epi16(plane, shift);
    if constexpr (shift < 0) plane = _mm512_slli_epi16(plane, -shift);
    // 0xea: (first & second) | third
    return _mm512_ternarylogic_epi32(plane, _mm512_set1_epi8(mask), codes, 0xea);
  }

  [[gnu::always_inline]] static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  [[gnu::always_inline]] static I multiply(I a, I b) { return _mm512_mullo_epi32(a, b); }
  template <int shift>
  [[gnu::always_inline]] static I shift_left(I v) {
    return _mm512_slli_epi32(v, shift);
  }
  /// kLanes bytes, each widened to int32.
  [[gnu::always_inline]] static I widen_u8(const void* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static I widen_s8(const void* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  /// 2 * kLanes bytes, each widened to int16.
  [[gnu::always_inline]] static I widen_u8_pairs(const void* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }

  [[gnu::always_inline]] static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  [[gnu::always_inline]] static F add(F a, F b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static F multiply(F a, F b) { return _mm512_mul_ps(a, b); }
  [[gnu::always_inline]] static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  /// c - a * b
  [[gnu::always_inline]] static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  [[gnu::always_inline]] static F load_half(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static F load_bfloat16(const void* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16));
  }

  /// Bits of |v|; they compare as integers like the values, with infinity and NaN on top.
  [[gnu::always_inline]] static I magnitude_bits(F v) {
    return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
  }
  [[gnu::always_inline]] static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  /// To the nearest integer, ties to even.
  [[gnu::always_inline]] static I round(F v) { return _mm512_cvtps_epi32(v); }
  /// The low byte of each lane.
  [[gnu::always_inline]] static void store_bytes(std::int8_t* p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
};

template <>
struct Simd<Avx512> : Avx512Operations<Avx512> {
  static constexpr bool kSumsInt16 = true;
  // Two products of at most 127 * 127 stay below 2^15, so vpmaddubsw does not saturate.
  [[gnu::always_inline]] static I dot_int16(I w, I a) { return _mm512_maddubs_epi16(w, a); }
  [[gnu::always_inline]] static I add_int16(I a, I b) {
    I sum = _mm512_add_epi16(a, b);
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I widen_int16(I acc, I sums) {
    I sum = _mm512_add_epi32(acc, _mm512_madd_epi16(sums, _mm512_set1_epi16(1)));
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I dot(I acc, I w, I a) { return widen_int16(acc, dot_int16(w, a)); }
  // For w - 128 the sign moves over to the activation: 128 * 127 * 2 is still below 2^15, 255 * 127
  // * 2 is not.
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    const I centered = _mm512_xor_si512(w, _mm512_set1_epi8(-128));
    const __mmask64 negative = _mm512_movepi8_mask(centered);
    return dot(acc, _mm512_abs_epi8(centered), _mm512_mask_sub_epi8(a, negative, zero(), a));
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(w, a));
  }
};

#if defined(__AVX512VNNI__)
template <>
struct Simd<Avx512Vnni> : Avx512Operations<Avx512Vnni> {
  static constexpr bool kSumsInt16 = false;
  [[gnu::always_inline]] static I dot(I acc, I w, I a) { return _mm512_dpbusd_epi32(acc, w, a); }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    return _mm512_dpbusd_epi32(acc, w, a);
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t negated_sum) {
    return shift_left<7>(broadcast(negated_sum));
  }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    return _mm512_dpwssd_epi32(acc, w, a);
  }
};
#endif
#endif

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

template <>
struct Simd<Avx2> {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kMaxRows = 4;

  [[gnu::always_inline]] static I zero() { return _mm256_setzero_si256(); }
  [[gnu::always_inline]] static F zero_float() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static I load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static F load_float(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::always_inline]] static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  [[gnu::always_inline]] static void store(std::int32_t* p, I v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
  [[gnu::always_inline]] static I broadcast(std::int32_t v) { return _mm256_set1_epi32(v); }
  [[gnu::always_inline]] static F broadcast(float v) { return _mm256_set1_ps(v); }

  [[gnu::always_inline]] static I low_nibbles(I v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
  }
  [[gnu::always_inline]] static I high_nibbles(I v) {
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
  }
  template <int shift, int mask>
  [[gnu::always_inline]] static I merge_high(I codes, I plane) {
    if constexpr (shift > 0) plane = _mm256_srli_epi16(plane, shift);
    if constexpr (shift < 0) plane = _mm256_slli_epi16(plane, -shift);
    return _mm256_or_si256(codes, _mm256_and_si256(plane, _mm256_set1_epi8(mask)));
  }

  // As for AVX-512 without the int8 dot product: see there why nothing saturates.
  static constexpr bool kSumsInt16 = true;
  [[gnu::always_inline]] static I dot_int16(I w, I a) { return _mm256_maddubs_epi16(w, a); }
  [[gnu::always_inline]] static I add_int16(I a, I b) {
    I sum = _mm256_add_epi16(a, b);
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I widen_int16(I acc, I sums) {
    I sum = _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I dot(I acc, I w, I a) { return widen_int16(acc, dot_int16(w, a)); }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    const I centered = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    return dot(acc, _mm256_abs_epi8(centered), _mm256_sign_epi8(a, centered));
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(w, a));
  }

  [[gnu::always_inline]] static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  [[gnu::always_inline]] static I multiply(I a, I b) { return _mm256_mullo_epi32(a, b); }
  template <int shift>
  [[gnu::always_inline]] static I shift_left(I v) {
    return _mm256_slli_epi32(v, shift);
  }
  [[gnu::always_inline]] static I widen_u8(const void* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static I widen_s8(const void* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static I widen_u8_pairs(const void* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }

  [[gnu::always_inline]] static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  [[gnu::always_inline]] static F add(F a, F b) { return _mm256_add_ps(a, b); }
  [[gnu::always_inline]] static F multiply(F a, F b) { return _mm256_mul_ps(a, b); }
  [[gnu::always_inline]] static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  [[gnu::always_inline]] static F load_half(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static F load_bfloat16(const void* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))), 16));
  }

  [[gnu::always_inline]] static I magnitude_bits(F v) {
    return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
  }
  [[gnu::always_inline]] static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  [[gnu::always_inline]] static I round(F v) { return _mm256_cvtps_epi32(v); }
  [[gnu::always_inline]] static void store_bytes(std::int8_t* p, I v) {
    const I words = _mm256_packs_epi32(v, v);  // lanes 0-3 0-3 | 4-7 4-7
    const I bytes = _mm256_packs_epi16(words, words);
    const __m128i low = _mm256_castsi256_si128(bytes);
    const __m128i high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi32(low, high));
  }
};
#endif

/// Any machine: the compiler's own vectors of 16 bytes, which every target with SIMD maps to its
/// registers and the others to plain arithmetic.
template <>
struct Simd<Portable> {
  static constexpr bool kSumsInt16 = false;
  using I = std::int32_t __attribute__((vector_size(16)));
  using F = float __attribute__((vector_size(16)));
  using U = std::uint32_t __attribute__((vector_size(16)));
  using I16 = std::int16_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kMaxRows = 4;

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

  [[gnu::always_inline]] static I low_nibbles(I v) { return v & 0x0f0f0f0f; }
  [[gnu::always_inline]] static I high_nibbles(I v) { return (v >> 4) & 0x0f0f0f0f; }
  template <int shift, int mask>
  [[gnu::always_inline]] static I merge_high(I codes, I plane) {
    constexpr std::int32_t kMask = mask * 0x01010101;
    if constexpr (shift > 0) plane = plane >> shift;
    if constexpr (shift < 0) plane = reinterpret_cast<I>(reinterpret_cast<U>(plane) << -shift);
    return codes | (plane & kMask);
  }

  [[gnu::always_inline]] static I dot(I acc, I w, I a) {
    // Even and odd bytes as int16: their products with the activations fit, and so do the sums of
    // two in int32.
    const I even = w & 0x00ff00ff;
    const I odd = (w >> 8) & 0x00ff00ff;
    const I16 words = reinterpret_cast<I16>(a);
    const I even_a = reinterpret_cast<I>(static_cast<I16>((words << 8) >> 8));
    const I odd_a = reinterpret_cast<I>(static_cast<I16>(words >> 8));
    return dot_pairs(dot_pairs(acc, even, even_a), odd, odd_a);
  }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) { return dot(acc, w, a); }
  [[gnu::always_inline]] static I start_offset128(std::int32_t negated_sum) {
    return shift_left<7>(broadcast(negated_sum));
  }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
#if defined(__SSE2__)
    return acc + reinterpret_cast<I>(
                     _mm_madd_epi16(reinterpret_cast<__m128i>(w), reinterpret_cast<__m128i>(a)));
#else
    return acc + (w >> 16) * (a >> 16) + sign_extend_low(w) * sign_extend_low(a);
#endif
  }
  /// The low int16 of each lane.
  [[gnu::always_inline]] static I sign_extend_low(I v) {
    return reinterpret_cast<I>(reinterpret_cast<U>(v) << 16) >> 16;
  }

  [[gnu::always_inline]] static I add(I a, I b) { return a + b; }
  [[gnu::always_inline]] static I multiply(I a, I b) { return a * b; }
  template <int shift>
  [[gnu::always_inline]] static I shift_left(I v) {
    return reinterpret_cast<I>(reinterpret_cast<U>(v) << shift);
  }
  [[gnu::always_inline]] static I widen_u8(const void* p) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    return I{b[0], b[1], b[2], b[3]};
  }
  [[gnu::always_inline]] static I widen_s8(const void* p) {
    const auto* b = static_cast<const std::int8_t*>(p);
    return I{b[0], b[1], b[2], b[3]};
  }
  [[gnu::always_inline]] static I widen_u8_pairs(const void* p) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    return I{b[0] | b[1] << 16, b[2] | b[3] << 16, b[4] | b[5] << 16, b[6] | b[7] << 16};
  }

  [[gnu::always_inline]] static F to_float(I v) { return __builtin_convertvector(v, F); }
  [[gnu::always_inline]] static F add(F a, F b) { return a + b; }
  [[gnu::always_inline]] static F multiply(F a, F b) { return a * b; }
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

  [[gnu::always_inline]] static I magnitude_bits(F v) {
    return reinterpret_cast<I>(v) & 0x7fffffff;
  }
  [[gnu::always_inline]] static I max(I a, I b) { return a > b ? a : b; }
  [[gnu::always_inline]] static I round(F v) {
    // Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to an integer, ties to even, in
    // its low bits.
    return reinterpret_cast<I>(v + 0x1.8p23f) - 0x4b400000;
  }
  [[gnu::always_inline]] static void store_bytes(std::int8_t* p, I v) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::int8_t>(v[i]);
  }
};

/// Fetch a line that will be read soon, into all cache levels. Any address is fine, mapped or not.
[[gnu::always_inline]] inline void prefetch(const std::byte* p, std::size_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead), 0,
                     3);
}

}  // namespace foredraft::inline v0::cpu
