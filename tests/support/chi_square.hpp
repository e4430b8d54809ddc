#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

/// Goodness of fit with a false-alarm rate that can be stated.
namespace statistics {

/// P(chi-square with `freedom` degrees > x), the regularised upper incomplete gamma function
/// Q(freedom / 2, x / 2): its series below the mean, its continued fraction (Lentz) above.
inline double chi_square_tail(double x, double freedom) {
  const double a = freedom / 2;
  const double z = x / 2;
  if (z <= 0) return 1.0;
  const double scale = std::exp(a * std::log(z) - z - std::lgamma(a));
  if (z < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (int n = 1; term > sum * 1e-16; ++n) sum += term *= z / (a + n);
    return 1 - scale * sum;
  }
  double b = z + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double fraction = d;
  for (int n = 1; n < 10000; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return scale * fraction;
}

/// p-value of the G-test (log-likelihood ratio) of counts against their expectations. Cells
/// expected less than five times are added up, so that the chi-square law is a good one; a count
/// where nothing can be gives 0.
inline double g_test(const std::vector<double>& seen, const std::vector<double>& expected) {
  double g = 0;
  int cells = 0;
  double rare_seen = 0;
  double rare_expected = 0;
  const auto add = [&](double n, double e) {
    if (n > 0) g += 2 * n * std::log(n / e);
    ++cells;
  };
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (expected[i] == 0 && seen[i] > 0) return 0.0;
    if (expected[i] >= 5) {
      add(seen[i], expected[i]);
    } else {
      rare_seen += seen[i];
      rare_expected += expected[i];
    }
  }
  if (rare_expected >= 5) {
    add(rare_seen, rare_expected);
  } else if (rare_expected > 0) {  // too rare for a cell of its own: it counts, but frees no degree
    g += rare_seen > 0 ? 2 * rare_seen * std::log(rare_seen / rare_expected) : 0.0;
  }
  return cells < 2 ? 1.0 : chi_square_tail(g, cells - 1);
}

}  // namespace statistics
