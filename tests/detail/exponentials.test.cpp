#include <foredraft/detail/exponentials.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/core/reduce.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Those that this machine runs; the widest is what exponentiate() and Transforms call.
std::vector<fd::detail::RowLoops> variants() {
  using namespace fd::detail;
  std::vector<RowLoops> found{{&exponentiate_portable, &scale_portable}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found.push_back({&exponentiate_avx2, &scale_avx2});
#endif
  found.push_back(row_loops());
  return found;
}

}  // namespace

TEST_CASE("exponentials are exact to the last digits, over their whole range") {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> logit(-700.0f, 0.0f);
  for (const auto& [exponentiate, scale] : variants()) {
    for (const float temperature : {1.0f, 0.3f, 7.0f}) {
      std::vector<float> x(80000);
      for (float& v : x) v = std::fmin(logit(random) * temperature + 5.0f, 5.0f);
      std::vector<double> weights(x.size());
      exponentiate(x.data(), x.size(), 5.0, temperature, weights.data());
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
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  for (const auto& [exponentiate, scale] : variants()) {
    const std::vector<float> x{3.0f, kLeast, -1e9f, -3e38f, 3.0f, 2.0f, -710.0f, 3.0f};
    std::vector<double> weights(x.size());
    exponentiate(x.data(), x.size(), 3.0, 0.5, weights.data());
    CHECK(weights[0] == 1.0);
    CHECK(weights[1] == 0.0);
    CHECK(weights[2] == 0.0);
    CHECK(weights[3] == 0.0);
    CHECK(weights[4] == 1.0);
    CHECK(weights[5] == Approx(std::exp(-2.0)).epsilon(1e-15));
    CHECK(weights[6] == 0.0);
    // A temperature that makes everything but the greatest impossible
    const std::vector<float> cold{-3e38f, 3e38f, 0.0f, 3e38f, 1.0f, 2.0f, 3.0f, 4.0f};
    exponentiate(cold.data(), cold.size(), 3e38f, 1e-45, weights.data());
    CHECK(weights == std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0});
  }
}

TEST_CASE("equal values have equal weights wherever they stand") {
  for (const double temperature : {0.9, 1.0}) {
    for (const std::size_t n : {1u, 7u, 8u, 64u, 69u}) {
      const std::vector<float> x(n, -1.2345678f);
      std::vector<double> weights(n, -1.0);
      fd::exponentiate(x, 0.75f, temperature, weights.data());
      for (const double weight : weights) CHECK(weight == weights[0]);
      CHECK(weights[0] == Approx(std::exp((x[0] - 0.75) / temperature)).epsilon(1e-15));
    }
  }
}

TEST_CASE("totals are those of the weights, whether these are stored or not") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> logit(-30.0f, 2.0f);
  for (const std::size_t n : {0u, 1u, 7u, 8u, 64u, 69u, 1003u}) {
    std::vector<float> x(n);
    for (float& v : x) v = logit(random);
    if (n > 9) x[9] = -std::numeric_limits<float>::infinity();
    std::vector<double> weights(n);
    const fd::WeightTotals totals = fd::exponentiate(x, 2.0f, 0.7, weights.data());
    CHECK(totals.sum == Approx(fd::sum(weights)).epsilon(1e-14));
    double smallest = std::numeric_limits<double>::infinity();
    for (const double weight : weights) smallest = std::min(smallest, weight);
    CHECK(totals.smallest == smallest);
    const fd::WeightTotals alone = fd::exponentiate(x, 2.0f, 0.7, nullptr);
    CHECK(alone.sum == totals.sum);
    CHECK(alone.smallest == totals.smallest);
  }
  for (const auto& [exponentiate, scale] : variants()) {
    const std::vector<float> x{0.0f, -1.0f, -2.0f, -3.0f, -4.0f, -3.0f, -2.0f, -5.0f};
    std::vector<double> weights(x.size());
    const fd::WeightTotals totals = exponentiate(x.data(), x.size(), 0.0, 1.0, weights.data());
    CHECK(totals.sum == Approx(fd::sum(weights)).epsilon(1e-14));
    CHECK(totals.smallest == weights.back());
  }
}

TEST_CASE("scaled values are products") {
  for (const auto& [exponentiate, scale] : variants()) {
    for (const std::size_t n : {0u, 1u, 7u, 8u, 69u}) {
      std::vector<double> values(n, 3.0);
      scale(values.data(), n, 0.7);
      CHECK(values == std::vector<double>(n, 3.0 * 0.7));
    }
  }
}
