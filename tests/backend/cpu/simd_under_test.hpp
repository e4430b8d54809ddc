#pragma once

#include <cstdint>

#include <foredraft/backend/cpu/simd.hpp>

namespace simd_under_test {

namespace cpu = foredraft::cpu;

/// The vector operations of one instruction set, as functions over 16 lanes, whatever its registers
/// hold. Units must export nothing but this table: no test code is compiled with their flags.
struct Operations {
  cpu::Isa isa;
  /// out = acc + 4 products a lane; w [64], a [4] for all lanes
  void (*dot)(const std::int32_t* acc, const std::uint8_t* w, const std::int8_t* a,
              std::int32_t* out);
  /// out = 4 products a lane of w - 128 and a
  void (*dot_offset128)(const std::uint8_t* w, const std::int8_t* a, std::int32_t* out);
  /// out = acc + 2 products a lane; w [32], a [2]
  void (*dot_pairs)(const std::int32_t* acc, const std::int16_t* w, const std::int16_t* a,
                    std::int32_t* out);
  /// 32 bytes, widened
  void (*widen_pairs)(const std::uint8_t* w, std::int16_t* out);
  /// out[j] = 4 products a lane of w [64] and the codes 4 j to 4 j + 3; null where a set broadcasts
  void (*dot_sixteen)(const std::uint8_t* w, const std::int8_t* sixteen, std::int32_t (*out)[16]);
  /// 16 int16, widened, with 0 in the upper half and with the same in both; null where a set has no
  /// sums of int16
  void (*halves)(const std::int16_t* v, std::int32_t* low, std::int32_t* both);
  /// nibbles of 64 bytes with the bits of `plane` that belong to units 2 and 3 on top: 1 and 2 bits
  /// a code
  void (*merge)(const std::uint8_t* codes, const std::uint8_t* plane, int bits, std::uint8_t* even,
                std::uint8_t* odd);
  /// 16 halves, bfloat16s
  void (*convert)(const std::uint16_t* halves, const std::uint16_t* bfloats, float* half_values,
                  float* bfloat_values);
  /// 16 floats to rounded bytes, and their magnitude bits
  void (*round)(const float* x, std::int8_t* rounded, std::int32_t* magnitudes);
  /// a * b + c and c - a * b, 16 lanes
  void (*fma)(const float* a, const float* b, const float* c, float* sum, float* difference);
};

/// The operations of Simd<Arch>, applied to the vectors that make up 16 lanes.
template <class Arch>
struct Probe {
  using S = cpu::Simd<Arch>;
  using I = typename S::I;
  static constexpr int kLanes = S::kLanes;

  static std::int32_t four_codes(const std::int8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    return four;
  }

  static void dot(const std::int32_t* acc, const std::uint8_t* w, const std::int8_t* a,
                  std::int32_t* out) {
    for (int i = 0; i < 16; i += kLanes) {
      S::store(out + i, S::dot(S::load(acc + i), S::load(w + 4 * i), S::broadcast(four_codes(a))));
    }
  }

  static void dot_offset128(const std::uint8_t* w, const std::int8_t* a, std::int32_t* out) {
    const I start = S::start_offset128(-(a[0] + a[1] + a[2] + a[3]));
    for (int i = 0; i < 16; i += kLanes) {
      S::store(out + i, S::dot_offset128(start, S::load(w + 4 * i), S::broadcast(four_codes(a))));
    }
  }

  static void dot_pairs(const std::int32_t* acc, const std::int16_t* w, const std::int16_t* a,
                        std::int32_t* out) {
    std::int32_t two;
    __builtin_memcpy(&two, a, 4);
    for (int i = 0; i < 16; i += kLanes) {
      S::store(out + i, S::dot_pairs(S::load(acc + i), S::load(w + 2 * i), S::broadcast(two)));
    }
  }

  static void widen_pairs(const std::uint8_t* w, std::int16_t* out) {
    std::int32_t lanes[kLanes];
    for (int i = 0; i < 16; i += kLanes) {
      S::store(lanes, S::widen_u8_pairs(w + 2 * i));
      __builtin_memcpy(out + 2 * i, lanes, sizeof lanes);
    }
  }

  static void dot_sixteen(const std::uint8_t* w, const std::int8_t* sixteen,
                          std::int32_t (*out)[16]) {
    const auto* codes = reinterpret_cast<const std::byte*>(sixteen);
    cpu::unroll<4>([&](auto j) __attribute__((always_inline)) {
      for (int i = 0; i < 16; i += kLanes) {
        S::store(out[j] + i, S::dot(S::zero(), S::load(w + 4 * i),
                                    S::template four_codes<4 * decltype(j)::value>(codes)));
      }
    });
  }

  static void halves(const std::int16_t* v, std::int32_t* low, std::int32_t* both) {
    std::int32_t wide[16];
    for (int i = 0; i < 16; ++i) wide[i] = v[i];
    for (int i = 0; i < 16; i += kLanes) {
      S::store(low + i, S::low_half(S::load(wide + i)));
      S::store(both + i, S::both_halves(S::load(wide + i)));
    }
  }

  static void merge(const std::uint8_t* codes, const std::uint8_t* plane, int bits,
                    std::uint8_t* even, std::uint8_t* odd) {
    std::int32_t lanes[kLanes];
    for (int i = 0; i < 64; i += 4 * kLanes) {
      I low = S::low_nibbles(S::load(codes + i));
      I high = S::high_nibbles(S::load(codes + i));
      const I p = S::load(plane + i);
      low = bits == 1 ? S::template merge_high<2 - 4, 0x10>(low, p)
                      : S::template merge_high<4 - 4, 0x30>(low, p);
      high = bits == 1 ? S::template merge_high<3 - 4, 0x10>(high, p)
                       : S::template merge_high<6 - 4, 0x30>(high, p);
      S::store(lanes, low);
      __builtin_memcpy(even + i, lanes, sizeof lanes);
      S::store(lanes, high);
      __builtin_memcpy(odd + i, lanes, sizeof lanes);
    }
  }

  static void convert(const std::uint16_t* halves, const std::uint16_t* bfloats, float* half_values,
                      float* bfloat_values) {
    for (int i = 0; i < 16; i += kLanes) {
      S::store(half_values + i, S::load_half(halves + i));
      S::store(bfloat_values + i, S::load_bfloat16(bfloats + i));
    }
  }

  static void round(const float* x, std::int8_t* rounded, std::int32_t* magnitudes) {
    for (int i = 0; i < 16; i += kLanes) {
      S::store_bytes(rounded + i, S::round(S::load_float(x + i)));
      S::store(magnitudes + i, S::max(S::zero(), S::magnitude_bits(S::load_float(x + i))));
    }
  }

  static void fma(const float* a, const float* b, const float* c, float* sum, float* difference) {
    for (int i = 0; i < 16; i += kLanes) {
      const auto x = S::load_float(a + i);
      const auto y = S::load_float(b + i);
      S::store(sum + i, S::fma(x, y, S::load_float(c + i)));
      S::store(difference + i, S::fnma(x, y, S::load_float(c + i)));
    }
  }
};

template <class Arch>
constexpr Operations operations_of() {
  static_assert(Arch::kCompilable, "this unit's flags do not allow the instruction set");
  using P = Probe<Arch>;
  Operations all{Arch::kIsa, &P::dot,   &P::dot_offset128, &P::dot_pairs, &P::widen_pairs, nullptr,
                 nullptr,    &P::merge, &P::convert,       &P::round,     &P::fma};
  if constexpr (requires(const std::byte* p) { P::S::template four_codes<0>(p); })
    all.dot_sixteen = &P::dot_sixteen;
  if constexpr (P::S::kSumsInt16) all.halves = &P::halves;
  return all;
}

extern const Operations kPortable;
extern const Operations kAvx2;
extern const Operations kAvxVnni;
extern const Operations kAvx512;
extern const Operations kAvx512Vnni;
extern const Operations kNeon;

}  // namespace simd_under_test
