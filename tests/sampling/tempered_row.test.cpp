#include <foredraft/sampling/tempered_row.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/core/reduce.hpp>
#include <foredraft/sampling/greatest_logit.hpp>

#include "support/catch.hpp"
#include "support/runs.hpp"

namespace fd = foredraft;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_row(std::mt19937& random, std::size_t n) {
  std::normal_distribution<float> normal(-3.0f, 4.0f);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  if (n > 2) logits[n / 2] = -kInfinity;
  return logits;
}

}  // namespace

TEST_CASE("runs hold the weights of the whole row, to the bit") {
  std::mt19937 random(8);
  fd::TemperedRow lazy;  // buffers of other rows must not show
  for (const std::size_t n : {1u, 127u, 128u, 129u, 1000u, 300u}) {
    for (const float temperature : {0.01f, 0.7f, 1.0f, 30.0f}) {
      const std::vector<float> logits = random_row(random, n);
      const float greatest = fd::greatest_logit(logits);
      const RunsOf row(logits, temperature);
      std::vector<double> all(n);
      fd::exponentiate(logits, greatest, temperature, all.data());
      for (const fd::Runs& runs : {row.maxima(), row.all()}) {
        lazy.look_at({logits, runs, greatest}, temperature);
        std::vector<double> in_runs;
        bool bounded = true;
        for (std::size_t i = 0; i < lazy.bounds().size(); ++i) {
          const auto run = lazy.run(i);
          in_runs.insert(in_runs.end(), run.begin(), run.end());
          bounded &= fd::sum(run) <= lazy.bounds()[i];
        }
        CAPTURE(n, temperature);
        CHECK(in_runs == all);
        CHECK(bounded);
      }
    }
  }
}

TEST_CASE("bounds hold for runs of equal logits, and are 0 where nothing is possible") {
  fd::TemperedRow lazy;
  for (const float x : {0.0f, -1.2345678f, -300.0f}) {
    std::vector<float> logits(256, x);
    logits.resize(384, -kInfinity);
    logits[0] = 0.0f;
    const RunsOf row(logits, 0.9f);
    for (const fd::Runs& runs : {row.maxima(), row.all()}) {
      lazy.look_at({logits, runs, 0.0f}, 0.9f);
      CHECK(fd::sum(lazy.run(1)) <= lazy.bounds()[1]);
      CHECK(lazy.bounds()[1] < fd::sum(lazy.run(1)) * 1.000001);
      CHECK(lazy.bounds()[2] == 0);
    }
  }
}

TEST_CASE("what an engine says of a run of nothing makes no difference") {
  std::vector<float> logits(256, 0.0f);
  logits.resize(384, -kInfinity);
  const std::vector<float> maxima{0.0f, 0.0f, -kInfinity};
  const std::vector<double> sums{128.0, 128.0, std::nan("")};  // exp(-inf - -inf)
  fd::TemperedRow lazy;
  lazy.look_at({logits, {maxima, sums, 1.0f}, 0.0f}, 1.0f);
  CHECK(lazy.total() == 256.0);
  CHECK(lazy(3) == 1.0 / 256);
  CHECK(lazy(300) == 0.0);
  CHECK(lazy.bounds()[2] == 0);
}

TEST_CASE("a probability is the softmax, to the bit the same with sums and without") {
  std::mt19937 random(9);
  fd::TemperedRow with;
  fd::TemperedRow without;
  fd::TemperedRow at_another_temperature;
  for (const std::size_t n : {1u, 127u, 128u, 129u, 5000u}) {
    for (const float temperature : {0.05f, 0.7f, 1.0f, 30.0f}) {
      std::vector<float> logits = random_row(random, n);
      if (n > 300) std::fill_n(logits.begin() + 128, 128, -kInfinity);  // a run of nothing
      const float greatest = fd::greatest_logit(logits);
      long double total = 0;
      for (const float x : logits)
        total += std::exp((static_cast<long double>(x) - greatest) / temperature);
      const RunsOf row(logits, temperature);
      const RunsOf other(logits, temperature * 2);
      with.look_at({logits, row.all(), greatest}, temperature);
      without.look_at({logits, row.maxima(), greatest}, temperature);
      at_another_temperature.look_at({logits, other.all(), greatest}, temperature);
      double worst = 0;
      bool same = true;
      for (std::size_t id = 0; id < n; ++id) {
        const auto token = static_cast<fd::TokenId>(id);
        const long double weight =
            std::exp((static_cast<long double>(logits[id]) - greatest) / temperature);
        const double p = with(token);
        worst = std::max(worst, std::abs(static_cast<double>(p - weight / total)));
        same &= p == without(token) && p == at_another_temperature(token);
      }
      CAPTURE(n, temperature);
      CHECK(worst < 1e-14);
      CHECK(same);
      CHECK(with(static_cast<fd::TokenId>(n)) == 0.0);
    }
  }
}
