#pragma once

#include <cstdint>
#include <utility>

#include <foredraft/backend/cpu/simd.hpp>

namespace foredraft::inline v0::cpu {

/// Sixteen floats in as many registers as the instruction set needs: 1, 2 or 4.
///
/// Lane i means the same on every instruction set, so sums that run by lanes have one order
/// everywhere. A product that is added to something is always written fma: GCC would fuse a
/// multiplication and an addition in one instantiation of a template and not in the next, and rows
/// would differ in their last bit.
template <class Arch>
struct Vec16 {
  using S = Simd<Arch>;
  using F = typename S::F;
  using I = typename S::I;
  static constexpr int kLanes = S::kLanes;
  static constexpr int kParts = 16 / kLanes;

  F part[kParts];

  /// The vector whose parts are make(0), make(1), ...
  template <typename Make>
  [[gnu::always_inline]] static Vec16 of(Make&& make) {
    Vec16 v;
    unroll<kParts>([&](auto i) __attribute__((always_inline)) { v.part[i] = make(i); });
    return v;
  }

  [[gnu::always_inline]] static Vec16 broadcast(float x) {
    return of([&](int) __attribute__((always_inline)) { return S::broadcast(x); });
  }
  [[gnu::always_inline]] static Vec16 zero() { return broadcast(0.0f); }
  [[gnu::always_inline]] static Vec16 load(const float* p) {
    return of([&](int i) __attribute__((always_inline)) { return S::load_float(p + i * kLanes); });
  }
  /// Sixteen binary16 values.
  [[gnu::always_inline]] static Vec16 load_half(const std::uint16_t* p) {
    return of([&](int i) __attribute__((always_inline)) { return S::load_half(p + i * kLanes); });
  }
  [[gnu::always_inline]] static Vec16 load_bfloat16(const std::uint16_t* p) {
    return of([&](int i)
                  __attribute__((always_inline)) { return S::load_bfloat16(p + i * kLanes); });
  }
  /// Sixteen signed bytes.
  [[gnu::always_inline]] static Vec16 load_bytes(const std::int8_t* p) {
    return of([&](int i) __attribute__((always_inline)) {
      return S::to_float(S::widen_s8(p + i * kLanes));
    });
  }
  /// The first n floats at p, the other lanes `rest`. Nothing behind them is read.
  [[gnu::always_inline]] static Vec16 load_first(const float* p, int n, float rest) {
    float padded[16];
    for (int i = 0; i < 16; ++i) padded[i] = i < n ? p[i] : rest;
    return load(padded);
  }

  [[gnu::always_inline]] void store(float* p) const {
    unroll<kParts>([&](auto i)
                       __attribute__((always_inline)) { S::store(p + i * kLanes, part[i]); });
  }
  /// As sixteen binary16 values, to nearest even.
  [[gnu::always_inline]] void store_half(std::uint16_t* p) const {
    unroll<kParts>([&](auto i)
                       __attribute__((always_inline)) { S::store_half(p + i * kLanes, part[i]); });
  }
  /// As sixteen bytes, each rounded to the nearest integer, ties to even; within -128 .. 127.
  [[gnu::always_inline]] void store_bytes(std::int8_t* p) const {
    unroll<kParts>([&](auto i) __attribute__((always_inline)) {
      S::store_bytes(p + i * kLanes, S::round(part[i]));
    });
  }
  [[gnu::always_inline]] void store_first(float* p, int n) const {
    float all[16];
    store(all);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }

  [[gnu::always_inline]] friend Vec16 operator+(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return S::add(a.part[i], b.part[i]); });
  }
  [[gnu::always_inline]] friend Vec16 operator*(const Vec16& a, const Vec16& b) {
    return of([&](int i)
                  __attribute__((always_inline)) { return S::multiply(a.part[i], b.part[i]); });
  }
  [[gnu::always_inline]] friend Vec16 operator/(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] / b.part[i]; });
  }
  [[gnu::always_inline]] friend Vec16 operator-(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] - b.part[i]; });
  }
  /// a * b + c
  [[gnu::always_inline]] friend Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return of([&](int i) __attribute__((always_inline)) {
      return S::fma(a.part[i], b.part[i], c.part[i]);
    });
  }
  /// c - a * b
  [[gnu::always_inline]] friend Vec16 fnma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return of([&](int i) __attribute__((always_inline)) {
      return S::fnma(a.part[i], b.part[i], c.part[i]);
    });
  }
  /// a > b ? a : b by lanes, so b where a is NaN
  [[gnu::always_inline]] friend Vec16 max(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) {
      return a.part[i] > b.part[i] ? a.part[i] : b.part[i];
    });
  }
  /// x < limit ? below : otherwise, by lanes; `otherwise` where x is NaN
  [[gnu::always_inline]] friend Vec16 where_less(const Vec16& x, const Vec16& limit,
                                                 const Vec16& below, const Vec16& otherwise) {
    return of([&](int i) __attribute__((always_inline)) {
      return x.part[i] < limit.part[i] ? below.part[i] : otherwise.part[i];
    });
  }

  /// x * 2^n for the integer n nearest to `exponent`; n in [-126, 127].
  [[gnu::always_inline]] friend Vec16 scale_by_power(const Vec16& x, const Vec16& exponent) {
    return of([&](int i) __attribute__((always_inline)) {
      const I biased = S::add(S::round(exponent.part[i]), S::broadcast(std::int32_t{127}));
      return S::multiply(x.part[i], reinterpret_cast<F>(S::template shift_left<23>(biased)));
    });
  }
  /// To the nearest integer; |x| below 2^22.
  [[gnu::always_inline]] friend Vec16 round(const Vec16& x) {
    return of([&](int i)
                  __attribute__((always_inline)) { return S::to_float(S::round(x.part[i])); });
  }

  /// Sum of the lanes: those at distance 8, 4, 2, 1 in turn, one order on every instruction set.
  [[gnu::always_inline]] float sum() const {
    return fold([](const F& a, const F& b) __attribute__((always_inline)) { return S::add(a, b); });
  }
  /// Greatest lane. A NaN may be passed over.
  [[gnu::always_inline]] float greatest() const {
    return fold([](const F& a, const F& b)
                    __attribute__((always_inline)) { return a > b ? a : b; });
  }

 private:
  template <typename Combine>
  [[gnu::always_inline]] float fold(Combine&& combine) const {
    F v = part[0];
    if constexpr (kParts == 2) v = combine(part[0], part[1]);
    if constexpr (kParts == 4) v = combine(combine(part[0], part[2]), combine(part[1], part[3]));
    if constexpr (kLanes >= 16)
      v = combine(v, partners<8>(v, std::make_integer_sequence<int, kLanes>{}));
    if constexpr (kLanes >= 8)
      v = combine(v, partners<4>(v, std::make_integer_sequence<int, kLanes>{}));
    v = combine(v, partners<2>(v, std::make_integer_sequence<int, kLanes>{}));
    v = combine(v, partners<1>(v, std::make_integer_sequence<int, kLanes>{}));
    return v[0];
  }
  /// Every lane's neighbour at a distance.
  template <int distance, int... lane>
  [[gnu::always_inline]] static F partners(F v, std::integer_sequence<int, lane...>) {
#ifdef __CUDACC__  // nvcc cannot read the other, and compiles what others run
    F exchanged = v;
    ((exchanged[lane] = v[lane ^ distance]), ...);
    return exchanged;
#else
    return __builtin_shufflevector(v, v, (lane ^ distance)...);
#endif
  }
};

/// e^x by lanes: 0 below -87.3, infinity above 88, NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7, whose remainder
/// is below 2^-26 there. ln 2 is split so that n * high is exact (Cody and Waite 1980).
/// @units relative error below 2e-7
template <class Arch>
[[gnu::always_inline]] inline Vec16<Arch> exp(const Vec16<Arch>& x) {
  using V = Vec16<Arch>;
  const V least = V::broadcast(-87.3f);
  const V greatest = V::broadcast(88.0f);
  // Clamped so that n stays within the exponents of normal numbers; what was clamped is replaced at
  // the end.
  const V clamped = where_less(x, least, least, where_less(greatest, x, greatest, x));
  const V n = round(clamped * V::broadcast(1.44269504f));
  V r = fnma(n, V::broadcast(0.693359375f), clamped);
  r = fnma(n, V::broadcast(-2.12194440e-4f), r);
  V p = V::broadcast(1.0f / 5040);
  p = fma(p, r, V::broadcast(1.0f / 720));
  p = fma(p, r, V::broadcast(1.0f / 120));
  p = fma(p, r, V::broadcast(1.0f / 24));
  p = fma(p, r, V::broadcast(1.0f / 6));
  p = fma(p, r, V::broadcast(0.5f));
  p = fma(p, r, V::broadcast(1.0f));
  p = fma(p, r, V::broadcast(1.0f));
  const V result = scale_by_power(p, n);
  const V infinity = V::broadcast(__builtin_inff());
  return where_less(x, least, V::zero(), where_less(greatest, x, infinity, result));
}

}  // namespace foredraft::inline v0::cpu
