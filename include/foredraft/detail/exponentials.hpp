#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <xsimd/xsimd.hpp>

namespace foredraft::inline v0 {

/// What is known of a row of weights once they have been worked out.
struct WeightTotals {
  double sum = 0;
  double smallest = std::numeric_limits<double>::infinity();
};

namespace detail {

// exp(y), y = (x - greatest) / temperature: y = n ln 2 + r, or n ln 2 / 16 + r, with e^r by its
// Taylor polynomial. ln 2 is split so that n * high is exact (Cody and Waite 1980). Adding kShifter
// rounds to an integer and leaves it in the low bits.
inline constexpr double kShifter = 0x1.8p52;
inline constexpr double kLog2E = 0x1.71547652b82fep0;
inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
inline constexpr double kLeastExponent = -707.0;  // below about -708 exp(y) is no normal double
inline constexpr double kInverseFactorials[] = {1.0,
                                                1.0,
                                                0.5,
                                                1.0 / 6,
                                                1.0 / 24,
                                                1.0 / 120,
                                                1.0 / 720,
                                                1.0 / 5040,
                                                1.0 / 40320,
                                                1.0 / 362880,
                                                1.0 / 3628800,
                                                1.0 / 39916800,
                                                1.0 / 479001600,
                                                1.0 / 6227020800};

/// Totals of the lanes. @param sum, smallest  kLanes doubles each
template <std::size_t kLanes>
[[gnu::always_inline]] inline WeightTotals totals_of(const void* sum, const void* smallest) {
  double sums[kLanes];
  double minima[kLanes];
  std::memcpy(sums, sum, sizeof sums);
  std::memcpy(minima, smallest, sizeof minima);
  return {std::accumulate(sums, sums + kLanes, 0.0), *std::min_element(minima, minima + kLanes)};
}

/// Weights of `n` logits, a multiple of `kLanes`; `out` may be null.
/// |r| <= ln 2 / 2, for which the remainder of degree 13 is below 2^-57.
/// @tparam kDivide  false where the temperature is 1, which spares a slow instruction
template <std::size_t kLanes, bool kDivide>
[[gnu::always_inline]] inline WeightTotals exponentiate_by(const float* x, std::size_t n,
                                                           double greatest, double temperature,
                                                           double* out) {
  using V [[gnu::vector_size(8 * kLanes)]] = double;
  using I [[gnu::vector_size(8 * kLanes)]] = std::int64_t;
  V sum{};
  V smallest = V{} + std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; i += kLanes) {
    double wide[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) wide[lane] = x[i + lane];
    V y;
    std::memcpy(&y, wide, sizeof y);
    y -= greatest;
    if constexpr (kDivide) y /= temperature;
    const V shifted = y * kLog2E + kShifter;
    const V integer = shifted - kShifter;
    const V r = y - integer * kLn2High - integer * kLn2Low;
    V p = V{} + kInverseFactorials[13];
    for (int k = 13; k-- > 0;) p = p * r + kInverseFactorials[k];
    I exponent;
    std::memcpy(&exponent, &shifted, sizeof exponent);
    exponent = (exponent + 1023) << 52;  // the shifter's own low bits are zero
    V power;
    std::memcpy(&power, &exponent, sizeof power);
    const V weight = y > kLeastExponent ? p * power : V{};
    sum += weight;
    smallest = weight < smallest ? weight : smallest;
    if (out != nullptr) std::memcpy(out + i, &weight, sizeof weight);
  }
  return totals_of<kLanes>(&sum, &smallest);
}

#if defined(__x86_64__)
/// The bits of 2^(j / 16), less j at the place to which the shift below brings it.
inline constexpr auto kSixteenthPowers = [] {
  constexpr double kPowers[] = {
      0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
      0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
      0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
      0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
  std::array<std::uint64_t, 16> bits{};
  for (std::uint64_t j = 0; j < 16; ++j)
    bits[j] = std::bit_cast<std::uint64_t>(kPowers[j]) - (j << 48);
  return bits;
}();

/// A table of sixteen fits two vectors, from which one instruction picks eight entries. With it
/// |r| <= ln 2 / 32, and degree 6 leaves 2^-51.
template <bool kDivide>
[[gnu::target("avx512f")]] inline WeightTotals exponentiate_with_table(
    const float* x, std::size_t n, double greatest, double temperature, double* out) {
  const __m512i low = _mm512_loadu_si512(kSixteenthPowers.data());
  const __m512i high = _mm512_loadu_si512(kSixteenthPowers.data() + 8);
  __m512d sum = _mm512_setzero_pd();
  __m512d smallest = sum + std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; i += 8) {
    // With a mask of all lanes: g++ 12 warns of the intrinsic that has none.
    __m512d y = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x + i)) - greatest;
    if constexpr (kDivide) y /= temperature;
    const __m512d shifted = y * (16 * kLog2E) + kShifter;
    const __m512d integer = shifted - kShifter;
    const __m512d r = y - integer * (kLn2High / 16) - integer * (kLn2Low / 16);
    __m512d p = __m512d{} + kInverseFactorials[6];
    for (int k = 6; k-- > 0;) p = p * r + kInverseFactorials[k];
    // 16 n + j: the table sees j alone, and the shift makes n an exponent.
    const __m512i bits = _mm512_castpd_si512(shifted);
    const __m512i power = _mm512_add_epi64(_mm512_permutex2var_epi64(low, bits, high),
                                           _mm512_maskz_slli_epi64(0xff, bits, 48));
    const __m512d weight = y > kLeastExponent ? p * _mm512_castsi512_pd(power) : __m512d{};
    sum += weight;
    smallest = weight < smallest ? weight : smallest;
    if (out != nullptr) _mm512_storeu_pd(out + i, weight);
  }
  return totals_of<8>(&sum, &smallest);
}

[[gnu::target("avx512f")]] inline WeightTotals exponentiate_avx512(const float* x, std::size_t n,
                                                                   double greatest,
                                                                   double temperature,
                                                                   double* out) {
  return temperature == 1.0 ? exponentiate_with_table<false>(x, n, greatest, temperature, out)
                            : exponentiate_with_table<true>(x, n, greatest, temperature, out);
}
[[gnu::target("avx2,fma")]] inline WeightTotals exponentiate_avx2(const float* x, std::size_t n,
                                                                  double greatest,
                                                                  double temperature, double* out) {
  return temperature == 1.0 ? exponentiate_by<4, false>(x, n, greatest, temperature, out)
                            : exponentiate_by<4, true>(x, n, greatest, temperature, out);
}
#endif

inline WeightTotals exponentiate_portable(const float* x, std::size_t n, double greatest,
                                          double temperature, double* out) {
  using Batch = xsimd::batch<double>;
  const Batch least(kLeastExponent);
  Batch sum(0.0);
  Batch smallest(std::numeric_limits<double>::infinity());
  double wide[Batch::size];
  for (std::size_t i = 0; i < n; i += Batch::size) {
    std::copy_n(x + i, Batch::size, wide);
    const Batch y = (Batch::load_unaligned(wide) - Batch(greatest)) / Batch(temperature);
    const Batch weight = xsimd::select(y > least, xsimd::exp(xsimd::max(y, least)), Batch(0.0));
    sum += weight;
    smallest = xsimd::min(smallest, weight);
    if (out != nullptr) weight.store_unaligned(out + i);
  }
  double sums[Batch::size];
  sum.store_unaligned(sums);
  smallest.store_unaligned(wide);
  return totals_of<Batch::size>(sums, wide);
}

[[gnu::always_inline]] inline void scale_by(double* values, std::size_t n, double factor) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}
#if defined(__x86_64__)
[[gnu::target("avx512f")]] inline void scale_avx512(double* values, std::size_t n, double factor) {
  scale_by(values, n, factor);
}
[[gnu::target("avx2")]] inline void scale_avx2(double* values, std::size_t n, double factor) {
  scale_by(values, n, factor);
}
#endif
inline void scale_portable(double* values, std::size_t n, double factor) {
  scale_by(values, n, factor);
}

/// What a sampled row of a whole vocabulary spends its time on, for one instruction set.
struct RowLoops {
  WeightTotals (*exponentiate)(const float*, std::size_t, double, double, double*);
  void (*scale)(double*, std::size_t, double);
};

/// The widest that this machine runs, whatever the program was compiled for.
inline const RowLoops& row_loops() noexcept {
  static const RowLoops widest = []() -> RowLoops {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return {&exponentiate_avx512, &scale_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return {&exponentiate_avx2, &scale_avx2};
#endif
    return {&exponentiate_portable, &scale_portable};
  }();
  return widest;
}

}  // namespace detail

/// Logits become weights relative to the greatest: exp((x - greatest) / temperature), 0 for -inf
/// and for what would be below 1e-307. The greatest is taken off before the division: tiny
/// temperatures must not overflow. Equal values have equal weights wherever they stand.
/// @param x  no NaN, nothing above `greatest`
/// @param out  null where the totals are enough
/// @return totals of the weights, added in an order that depends on the machine and n alone
/// @shape x [n], out [n]
/// @units relative error below 1e-15, beside that of the quotient, which is rounded. Machines with
/// other instruction sets differ by as much
inline WeightTotals exponentiate(std::span<const float> x, float greatest, double temperature,
                                 double* out) noexcept {
  const auto widest = detail::row_loops().exponentiate;
  constexpr std::size_t kLanes = 8;  // of the widest
  const std::size_t whole = x.size() / kLanes * kLanes;
  WeightTotals totals = widest(x.data(), whole, greatest, temperature, out);
  if (whole == x.size()) return totals;
  float rest[kLanes];
  double weights[kLanes];
  std::fill_n(rest, kLanes, greatest);
  std::copy(x.begin() + static_cast<std::ptrdiff_t>(whole), x.end(), rest);
  (void)widest(rest, kLanes, greatest, temperature, weights);
  for (std::size_t i = whole; i < x.size(); ++i) {
    const double weight = weights[i - whole];
    totals.sum += weight;
    totals.smallest = std::min(totals.smallest, weight);
    if (out != nullptr) out[i] = weight;
  }
  return totals;
}

/// The sum of the weights of a run of logits, relative to its own `greatest`; 0 of a run in which
/// nothing is possible. Whoever adds up a row does it by these, so that all get the same sum.
inline double sum_of_weights(std::span<const float> run, float greatest,
                             double temperature) noexcept {
  if (greatest == -std::numeric_limits<float>::infinity()) return 0.0;
  return exponentiate(run, greatest, temperature, nullptr).sum;
}

}  // namespace foredraft::inline v0
