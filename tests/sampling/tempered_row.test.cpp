#include <foredraft/sampling/tempered_row.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <foredraft/core/reduce.hpp>
#include <foredraft/sampling/greatest_logit.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Row {
  explicit Row(std::vector<float> row) : logits(std::move(row)) {
    fd::maxima_of_runs(logits, maxima);
    greatest = fd::greatest_logit(logits);
  }
  std::vector<float> logits;
  std::vector<float> maxima;
  float greatest = 0;
};

}  // namespace

TEST_CASE("runs hold the weights of the whole row, to the bit") {
  std::mt19937 random(8);
  std::normal_distribution<float> normal(-3.0f, 4.0f);
  fd::TemperedRow lazy;  // buffers of other rows must not show
  for (const std::size_t n : {1u, 127u, 128u, 129u, 1000u, 300u}) {
    for (const double temperature : {0.01, 0.7, 1.0, 30.0}) {
      std::vector<float> logits(n);
      for (float& x : logits) x = normal(random);
      if (n > 2) logits[n / 2] = -std::numeric_limits<float>::infinity();
      const Row row(logits);
      std::vector<double> all(n);
      fd::exponentiate(row.logits, row.greatest, temperature, all.data());
      lazy.look_at(row.logits, row.maxima, row.greatest, temperature);
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

TEST_CASE("bounds hold for runs of equal logits, and are 0 where nothing is possible") {
  fd::TemperedRow lazy;
  for (const float x : {0.0f, -1.2345678f, -300.0f}) {
    std::vector<float> logits(256, x);
    logits.resize(384, -std::numeric_limits<float>::infinity());
    logits[0] = 0.0f;
    const Row row(logits);
    lazy.look_at(row.logits, row.maxima, row.greatest, 0.9);
    CHECK(fd::sum(lazy.run(1)) <= lazy.bounds()[1]);
    CHECK(lazy.bounds()[1] < fd::sum(lazy.run(1)) * 1.000001);
    CHECK(lazy.bounds()[2] == 0);
  }
}
