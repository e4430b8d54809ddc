// The exponentials of sampling: those of this unit's set, and xsimd's. In a unit of its own, because
// they leave functions behind in both ways: sampling chooses its set at run time, within one unit.
#include <foredraft/detail/exponentials.hpp>

#include "unit.hpp"

namespace detail = foredraft::detail;

double exponentiate_by_hand(const float* x, std::size_t n, double greatest, double temperature,
                            double* out) {
#if defined(__AVX512F__)
  return detail::exponentiate_avx512(x, n, greatest, temperature, out).sum;
#elif defined(__AVX2__)
  return detail::exponentiate_avx2(x, n, greatest, temperature, out).sum;
#else  // what machines without AVX2 would have without xsimd
  return detail::exponentiate_by<2, true>(x, n, greatest, temperature, out).sum;
#endif
}

double exponentiate_of_xsimd(const float* x, std::size_t n, double greatest, double temperature,
                             double* out) {
  return detail::exponentiate_portable(x, n, greatest, temperature, out).sum;
}
