#pragma once

#include <cstdint>

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

#include <foredraft/backend/cpu/simd_base.hpp>

namespace foredraft::inline v0::cpu {

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

/// What AVX-512 does with and without the int8 dot product.
template <class Arch>
struct Avx512Operations {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;

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
  [[gnu::always_inline]] static void store_half(std::uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
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
  [[gnu::always_inline]] static I dot(I acc, I w, I a) {
    return dot_pairs(acc, dot_int16(w, a), _mm512_set1_epi16(1));
  }
  // For w - 128 the sign moves over to the activation: 128 * 127 * 2 is still below 2^15, 255 * 127
  // * 2 is not.
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    const I centered = _mm512_xor_si512(w, _mm512_set1_epi8(-128));
    const __mmask64 negative = _mm512_movepi8_mask(centered);
    return dot(acc, _mm512_abs_epi8(centered), _mm512_mask_sub_epi8(a, negative, zero(), a));
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    I sum = _mm512_add_epi32(acc, _mm512_madd_epi16(w, a));
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I low_half(I v) {
    return _mm512_and_si512(v, _mm512_set1_epi32(0xffff));
  }
  [[gnu::always_inline]] static I both_halves(I v) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, v, _mm512_slli_epi32(v, 16));
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

/// What AVX2 does with and without the int8 dot product.
template <class Arch>
struct Avx2Operations {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8;

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
  [[gnu::always_inline]] static void store_half(std::uint16_t* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
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

template <>
struct Simd<Avx2> : Avx2Operations<Avx2> {
  // As for AVX-512 without the int8 dot product: see there why nothing saturates.
  static constexpr bool kSumsInt16 = true;
  [[gnu::always_inline]] static I dot_int16(I w, I a) { return _mm256_maddubs_epi16(w, a); }
  [[gnu::always_inline]] static I add_int16(I a, I b) {
    I sum = _mm256_add_epi16(a, b);
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I dot(I acc, I w, I a) {
    return dot_pairs(acc, dot_int16(w, a), _mm256_set1_epi16(1));
  }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    const I centered = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    return dot(acc, _mm256_abs_epi8(centered), _mm256_sign_epi8(a, centered));
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    I sum = _mm256_add_epi32(acc, _mm256_madd_epi16(w, a));
    in_this_order(sum);
    return sum;
  }
  [[gnu::always_inline]] static I low_half(I v) {
    return _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
  }
  [[gnu::always_inline]] static I both_halves(I v) {
    return _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
  }
};

#if defined(__AVXVNNI__)
template <>
struct Simd<AvxVnni> : Avx2Operations<AvxVnni> {
  static constexpr bool kSumsInt16 = false;
  [[gnu::always_inline]] static I dot(I acc, I w, I a) {
    return _mm256_dpbusd_avx_epi32(acc, w, a);
  }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    return _mm256_dpbusd_avx_epi32(acc, w, a);
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t negated_sum) {
    return shift_left<7>(broadcast(negated_sum));
  }
  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    return _mm256_dpwssd_avx_epi32(acc, w, a);
  }
};
#endif
#endif

}  // namespace foredraft::inline v0::cpu
