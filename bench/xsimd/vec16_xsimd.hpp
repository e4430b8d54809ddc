#pragma once

#include <xsimd/xsimd.hpp>

#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/norm.hpp>

/// The widest set of xsimd that the flags of a unit allow, as a tag that kernels take for theirs.
struct XsimdArch {
#if defined(__AVX512BW__)
  using Set = xsimd::avx512bw;
#elif defined(__AVX2__)
  using Set = xsimd::fma3<xsimd::avx2>;
#elif defined(__aarch64__)
  using Set = xsimd::neon64;
#else
  using Set = xsimd::sse2;
#endif
};

namespace foredraft::inline v0::cpu {

/// The same sixteen floats on xsimd's batches: norms, rotation, activations and the exponential are
/// templates over this type, so they come without a change.
template <>
struct Vec16<XsimdArch> {
  using F = xsimd::batch<float, XsimdArch::Set>;
  using I = xsimd::batch<std::int32_t, XsimdArch::Set>;
  static constexpr int kLanes = static_cast<int>(F::size);
  static constexpr int kParts = 16 / kLanes;

  F part[kParts];

  template <typename Make>
  [[gnu::always_inline]] static Vec16 of(Make&& make) {
    Vec16 v;
    unroll<kParts>([&](auto i) __attribute__((always_inline)) { v.part[i] = make(i); });
    return v;
  }
  [[gnu::always_inline]] static Vec16 broadcast(float x) {
    return of([&](int) __attribute__((always_inline)) { return F(x); });
  }
  [[gnu::always_inline]] static Vec16 zero() { return broadcast(0.0f); }
  [[gnu::always_inline]] static Vec16 load(const float* p) {
    return of([&](int i)
                  __attribute__((always_inline)) { return F::load_unaligned(p + i * kLanes); });
  }
  [[gnu::always_inline]] static Vec16 load_first(const float* p, int n, float rest) {
    float padded[16];
    for (int i = 0; i < 16; ++i) padded[i] = i < n ? p[i] : rest;
    return load(padded);
  }
  [[gnu::always_inline]] void store(float* p) const {
    for (int i = 0; i < kParts; ++i) part[i].store_unaligned(p + i * kLanes);
  }
  [[gnu::always_inline]] void store_first(float* p, int n) const {
    float all[16];
    store(all);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }

  [[gnu::always_inline]] friend Vec16 operator+(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] + b.part[i]; });
  }
  [[gnu::always_inline]] friend Vec16 operator-(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] - b.part[i]; });
  }
  [[gnu::always_inline]] friend Vec16 operator*(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] * b.part[i]; });
  }
  [[gnu::always_inline]] friend Vec16 operator/(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) { return a.part[i] / b.part[i]; });
  }
  [[gnu::always_inline]] friend Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return of([&](int i) __attribute__((always_inline)) {
      return xsimd::fma(a.part[i], b.part[i], c.part[i]);
    });
  }
  /// xsimd's fnma is a product and a difference on Arm, which rounds twice.
  [[gnu::always_inline]] friend Vec16 fnma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return of([&](int i) __attribute__((always_inline)) {
      return xsimd::fma(-a.part[i], b.part[i], c.part[i]);
    });
  }
  [[gnu::always_inline]] friend Vec16 max(const Vec16& a, const Vec16& b) {
    return of([&](int i) __attribute__((always_inline)) {
      return xsimd::select(a.part[i] > b.part[i], a.part[i], b.part[i]);
    });
  }
  [[gnu::always_inline]] friend Vec16 where_less(const Vec16& x, const Vec16& limit,
                                                 const Vec16& below, const Vec16& otherwise) {
    return of([&](int i) __attribute__((always_inline)) {
      return xsimd::select(x.part[i] < limit.part[i], below.part[i], otherwise.part[i]);
    });
  }
  [[gnu::always_inline]] friend Vec16 scale_by_power(const Vec16& x, const Vec16& exponent) {
    return of([&](int i) __attribute__((always_inline)) {
      const I biased = xsimd::nearbyint_as_int(exponent.part[i]) + I(127);
      return x.part[i] * xsimd::bitwise_cast<AsFloat>(biased << 23);
    });
  }
  [[gnu::always_inline]] friend Vec16 round(const Vec16& x) {
    return of([&](int i) __attribute__((always_inline)) {
      return xsimd::to_float(xsimd::nearbyint_as_int(x.part[i]));
    });
  }
  /// By distance 8, 4, 2, 1, as the kernels' own. xsimd 8.1 has no shuffle of lanes for this.
  [[gnu::always_inline]] float sum() const {
    return fold([](float a, float b) __attribute__((always_inline)) { return a + b; });
  }
  [[gnu::always_inline]] float greatest() const {
#if XSIMD_VERSION_MAJOR < 9
    return fold([](float a, float b) __attribute__((always_inline)) { return a > b ? a : b; });
#else
    F most = part[0];
    for (int i = 1; i < kParts; ++i) most = xsimd::max(most, part[i]);
    return xsimd::reduce_max(most);
#endif
  }

 private:
  template <typename Combine>
  [[gnu::always_inline]] float fold(Combine&& combine) const {
    float all[16];
    store(all);
    for (int distance = 8; distance > 0; distance /= 2) {
      for (int i = 0; i < distance; ++i) all[i] = combine(all[i], all[i + distance]);
    }
    return all[0];
  }

  // What a cast between equally wide lanes wants to be told: the batch, and later the value.
#if XSIMD_VERSION_MAJOR < 9
  using AsFloat = F;
#else
  using AsFloat = float;
#endif
};

}  // namespace foredraft::inline v0::cpu
