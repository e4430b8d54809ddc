#include <foredraft/sampling/exponentials.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Those that this machine runs; the widest is what exponentiate() calls.
std::vector<fd::detail::Exponentiate> variants() {
  std::vector<fd::detail::Exponentiate> found{&fd::detail::exponentiate_portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found.push_back(&fd::detail::exponentiate_avx2);
#endif
  found.push_back(fd::detail::widest_exponentiate());
  return found;
}

}  // namespace

TEST_CASE("exponentials are exact to the last digits, over their whole range") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> logit(-700.0, 0.0);
  for (const auto exponentiate : variants()) {
    for (const double temperature : {1.0, 0.3, 7.0}) {
      std::vector<double> x(80000);
      for (double& v : x) v = logit(random) * temperature + 5.0;
      std::vector<double> weights = x;
      exponentiate(weights.data(), weights.size(), 5.0, temperature);
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = std::exp((x[i] - 5.0) / temperature);
        worst = std::fmax(worst, std::abs(weights[i] - expected) / expected);
      }
      CHECK(worst < 1e-15);
    }
  }
}

TEST_CASE("the greatest weighs 1, what is impossible 0") {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  for (const auto exponentiate : variants()) {
    std::vector<double> x{3.0, kLeast, -1e9, -3e38, 3.0, 2.0, -710.0, 3.0};
    exponentiate(x.data(), x.size(), 3.0, 0.5);
    CHECK(x[0] == 1.0);
    CHECK(x[1] == 0.0);
    CHECK(x[2] == 0.0);
    CHECK(x[3] == 0.0);
    CHECK(x[4] == 1.0);
    CHECK(x[5] == Approx(std::exp(-2.0)).epsilon(1e-15));
    CHECK(x[6] == 0.0);
    // A temperature that makes everything but the greatest impossible
    std::vector<double> cold{-3e38, 3e38, 0.0, 3e38, 1.0, 2.0, 3.0, 4.0};
    exponentiate(cold.data(), cold.size(), 3e38, 1e-45);
    CHECK(cold == std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0});
  }
}

TEST_CASE("equal values have equal weights wherever they stand") {
  std::vector<double> x(64, -1.2345678);
  fd::exponentiate(x, 0.75, 0.9);
  for (const double weight : x) CHECK(weight == x[0]);
}
