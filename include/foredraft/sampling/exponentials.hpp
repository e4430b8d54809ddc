#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>

#include <xsimd/xsimd.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// out = exp(y), y = (x - greatest) / temperature, `kLanes` at a time; 0 below 2^-1021.
///
/// y = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 13, whose remainder
/// is below 2^-57 there. ln 2 is split so that n * high is exact (Cody and Waite 1980). Adding
/// `shifter` rounds to an integer and leaves it in the low bits.
/// @tparam kDivide  false where the temperature is 1, which spares a slow instruction
template <std::size_t kLanes, bool kDivide>
[[gnu::always_inline]] inline void exponentiate_by(const float* x, std::size_t n, double greatest,
                                                   double temperature, double* out) {
  using V [[gnu::vector_size(8 * kLanes)]] = double;
  using I [[gnu::vector_size(8 * kLanes)]] = std::int64_t;
  constexpr double shifter = 0x1.8p52;
  constexpr double kInverseFactorials[] = {1.0 / 6227020800,
                                           1.0 / 479001600,
                                           1.0 / 39916800,
                                           1.0 / 3628800,
                                           1.0 / 362880,
                                           1.0 / 40320,
                                           1.0 / 5040,
                                           1.0 / 720,
                                           1.0 / 120,
                                           1.0 / 24,
                                           1.0 / 6,
                                           0.5,
                                           1.0,
                                           1.0};
  for (std::size_t i = 0; i < n; i += kLanes) {
    double wide[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) wide[lane] = x[i + lane];
    V y;
    std::memcpy(&y, wide, sizeof y);
    y -= greatest;
    if constexpr (kDivide) y /= temperature;
    const V shifted = y * 0x1.71547652b82fep0 + shifter;
    const V integer = shifted - shifter;
    V r = y - integer * 0x1.62e42fefa0000p-1;
    r -= integer * 0x1.cf79abc9e3b3ap-40;
    V p = r * kInverseFactorials[0] + kInverseFactorials[1];
    for (std::size_t k = 2; k < std::size(kInverseFactorials); ++k)
      p = p * r + kInverseFactorials[k];
    I exponent;
    std::memcpy(&exponent, &shifted, sizeof exponent);
    exponent = (exponent + 1023) << 52;  // the shifter's own low bits are zero
    V power;
    std::memcpy(&power, &exponent, sizeof power);
    const V result = y > -707.0 ? p * power : V{};
    std::memcpy(out + i, &result, sizeof result);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512dq")]] inline void exponentiate_avx512(const float* x, std::size_t n,
                                                                    double greatest,
                                                                    double temperature,
                                                                    double* out) {
  if (temperature == 1.0) {
    exponentiate_by<8, false>(x, n, greatest, temperature, out);
  } else {
    exponentiate_by<8, true>(x, n, greatest, temperature, out);
  }
}
[[gnu::target("avx2,fma")]] inline void exponentiate_avx2(const float* x, std::size_t n,
                                                          double greatest, double temperature,
                                                          double* out) {
  if (temperature == 1.0) {
    exponentiate_by<4, false>(x, n, greatest, temperature, out);
  } else {
    exponentiate_by<4, true>(x, n, greatest, temperature, out);
  }
}
#endif

inline void exponentiate_portable(const float* x, std::size_t n, double greatest,
                                  double temperature, double* out) {
  using Batch = xsimd::batch<double>;
  for (std::size_t i = 0; i < n; i += Batch::size) {
    for (std::size_t lane = 0; lane < Batch::size; ++lane) out[i + lane] = x[i + lane];
    const Batch y = Batch::load_unaligned(out + i) - Batch(greatest);
    xsimd::exp(y / Batch(temperature)).store_unaligned(out + i);
  }
}

using Exponentiate = void (*)(const float*, std::size_t, double, double, double*);

/// The widest that this machine runs, whatever the program was compiled for: a vocabulary of
/// exponentials is most of what a sampled row costs.
inline Exponentiate widest_exponentiate() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return &exponentiate_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &exponentiate_avx2;
#endif
  return &exponentiate_portable;
}

}  // namespace detail

/// Logits become weights relative to the greatest: exp((x - greatest) / temperature), 0 for -inf
/// and for what would be below 1e-307. The greatest is taken off before the division: tiny
/// temperatures must not overflow. Equal values have equal weights wherever they stand.
/// @param x  no NaN, nothing above `greatest`
/// @shape x [n], out [n]
/// @units relative error below 1e-15
inline void exponentiate(std::span<const float> x, float greatest, double temperature,
                         double* out) noexcept {
  static const detail::Exponentiate widest = detail::widest_exponentiate();
  constexpr std::size_t kLanes = 8;  // of the widest
  const std::size_t whole = x.size() / kLanes * kLanes;
  widest(x.data(), whole, greatest, temperature, out);
  float rest[kLanes];
  double weights[kLanes];
  std::fill_n(rest, kLanes, greatest);
  std::copy(x.begin() + static_cast<std::ptrdiff_t>(whole), x.end(), rest);
  widest(rest, kLanes, greatest, temperature, weights);
  std::copy_n(weights, x.size() - whole, out + whole);
}

}  // namespace foredraft::inline v0
