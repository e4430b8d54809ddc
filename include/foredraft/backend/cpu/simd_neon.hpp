#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#include <foredraft/backend/cpu/simd_portable.hpp>

namespace foredraft::inline v0::cpu {

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)

/// Arm with the int8 dot product. Arithmetic on whole lanes is that of the compiler's vectors; here
/// is what it would not find by itself. Both operands of the dot product are signed, which is all
/// the same for weights below 128; those of 8 bits lose their offset before.
template <>
struct Simd<Neon> : VectorsOf16Bytes<Neon> {
  static constexpr bool kSumsInt16 = false;

  [[gnu::always_inline]] static I low_nibbles(I v) {
    return reinterpret_cast<I>(vandq_u8(reinterpret_cast<uint8x16_t>(v), vdupq_n_u8(15)));
  }
  [[gnu::always_inline]] static I high_nibbles(I v) {
    return reinterpret_cast<I>(vshrq_n_u8(reinterpret_cast<uint8x16_t>(v), 4));
  }
  template <int shift, int mask>
  [[gnu::always_inline]] static I merge_high(I codes, I plane) {
    auto bits = reinterpret_cast<uint8x16_t>(plane);
    if constexpr (shift > 0) bits = vshrq_n_u8(bits, shift);
    if constexpr (shift < 0) bits = vshlq_n_u8(bits, -shift);
    // Codes have zeros where the mask has ones, so that choosing is as good as an or.
    return reinterpret_cast<I>(
        vbslq_u8(vdupq_n_u8(mask), bits, reinterpret_cast<uint8x16_t>(codes)));
  }

  [[gnu::always_inline]] static I dot(I acc, I w, I a) {
    return reinterpret_cast<I>(vdotq_s32(reinterpret_cast<int32x4_t>(acc),
                                         reinterpret_cast<int8x16_t>(w),
                                         reinterpret_cast<int8x16_t>(a)));
  }
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, I a) {
    return dot(acc, without_offset(w), a);
  }
  [[gnu::always_inline]] static I start_offset128(std::int32_t) { return zero(); }
  /// Four activation codes, the same ones for all lanes. The instruction takes them from one lane
  /// of a register: a load serves four of them, and nothing has to be broadcast.
  template <int lane>
  struct FourCodes {
    I sixteen;
  };
  /// The codes at p + k; those around them, 16 from a multiple of 16, are read as well.
  template <int k>
  [[gnu::always_inline]] static FourCodes<k / 4 % 4> four_codes(const std::byte* p) {
    return {load(p + k / 16 * 16)};
  }
  template <int lane>
  [[gnu::always_inline]] static I dot(I acc, I w, FourCodes<lane> a) {
    return reinterpret_cast<I>(vdotq_laneq_s32(reinterpret_cast<int32x4_t>(acc),
                                               reinterpret_cast<int8x16_t>(w),
                                               reinterpret_cast<int8x16_t>(a.sixteen), lane));
  }
  template <int lane>
  [[gnu::always_inline]] static I dot_offset128(I acc, I w, FourCodes<lane> a) {
    return dot(acc, without_offset(w), a);
  }
  /// w - 128 as signed bytes.
  [[gnu::always_inline]] static I without_offset(I w) {
    return w ^ broadcast(static_cast<std::int32_t>(0x80808080));
  }

  [[gnu::always_inline]] static I dot_pairs(I acc, I w, I a) {
    const auto x = reinterpret_cast<int16x8_t>(w);
    const auto y = reinterpret_cast<int16x8_t>(a);
    return acc + reinterpret_cast<I>(
                     vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
  }

  [[gnu::always_inline]] static I widen_u8(const void* p) {
    std::uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return reinterpret_cast<I>(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
  }
  [[gnu::always_inline]] static I widen_s8(const void* p) {
    std::uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return reinterpret_cast<I>(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
  }
  [[gnu::always_inline]] static I widen_u8_pairs(const void* p) {
    std::uint64_t eight;
    __builtin_memcpy(&eight, p, sizeof eight);
    return reinterpret_cast<I>(vmovl_u8(vcreate_u8(eight)));
  }

  [[gnu::always_inline]] static F fma(F a, F b, F c) {
    return reinterpret_cast<F>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                         reinterpret_cast<float32x4_t>(a),
                                         reinterpret_cast<float32x4_t>(b)));
  }
  [[gnu::always_inline]] static F fnma(F a, F b, F c) {
    return reinterpret_cast<F>(vfmsq_f32(reinterpret_cast<float32x4_t>(c),
                                         reinterpret_cast<float32x4_t>(a),
                                         reinterpret_cast<float32x4_t>(b)));
  }

  [[gnu::always_inline]] static F load_half(const void* p) {
    std::uint64_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return reinterpret_cast<F>(vcvt_f32_f16(vcreate_f16(four)));
  }
  [[gnu::always_inline]] static F load_bfloat16(const void* p) {
    std::uint64_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return reinterpret_cast<F>(vshlq_n_u32(vmovl_u16(vcreate_u16(four)), 16));
  }
  [[gnu::always_inline]] static void store_half(std::uint16_t* p, F v) {
    const float16x4_t halves = vcvt_f16_f32(reinterpret_cast<float32x4_t>(v));
    __builtin_memcpy(p, &halves, sizeof halves);
  }

  [[gnu::always_inline]] static I round(F v) {
    return reinterpret_cast<I>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(v)));
  }
  [[gnu::always_inline]] static void store_bytes(std::int8_t* p, I v) {
    const int16x4_t words = vmovn_s32(reinterpret_cast<int32x4_t>(v));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    __builtin_memcpy(p, &bytes, kLanes);
  }
};
#endif

}  // namespace foredraft::inline v0::cpu
