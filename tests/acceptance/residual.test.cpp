#include <foredraft/acceptance/residual.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::Law kP{{1, 3, 4}, {0.5, 0.3, 0.2}};
const fd::Law kQ{{0, 1, 4}, {0.2, 0.2, 0.6}};

/// Counts the runs that somebody looks at.
class Counted final : public fd::LazyWeights {
 public:
  explicit Counted(fd::LazyWeights& of) : of_(of) {}
  std::span<const double> bounds() const noexcept override { return of_.bounds(); }
  std::span<const double> run(std::size_t i) noexcept override {
    ++runs;
    return of_.run(i);
  }
  int runs = 0;

 private:
  fd::LazyWeights& of_;
};

}  // namespace

TEST_CASE("the residual is what p has above q, renormalised") {
  CHECK(fd::residual_mass(1.0, kP, kQ) == Approx(0.6));
  const fd::Law rest = fd::residual(1.0, kP, kQ);
  CHECK(rest.ids == std::vector<fd::TokenId>{1, 3});
  CHECK(rest.p[0] == Approx(0.5));
  CHECK(rest.p[1] == Approx(0.5));
}

TEST_CASE("the residual keeps its place among tokens that only one of the laws has") {
  const fd::Law p{{1, 4, 7}, {0.2, 0.3, 0.5}};
  const fd::Law q{{0, 2, 3, 5, 6, 7}, {0.1, 0.2, 0.3, 0.2, 0.1, 0.1}};
  CHECK(fd::residual_mass(1.0, p, q) == Approx(0.9));
  CHECK(fd::residual(1.0, p, q)(7) == Approx(0.4 / 0.9));
  // A token of which q has as much as p is no part of it.
  CHECK(fd::residual(1.0, {{1, 2}, {0.5, 0.5}}, {{1, 3}, {0.5, 0.5}}).ids ==
        std::vector<fd::TokenId>{2});
}

TEST_CASE("a scaled residual takes part of p") {
  CHECK(fd::residual_mass(0.5, kP, kQ) == Approx(0.05 + 0.15));
  const fd::Law rest = fd::residual(0.5, kP, kQ);
  CHECK(rest.ids == std::vector<fd::TokenId>{1, 3});
  CHECK(rest.p[0] == Approx(0.25));
  CHECK(rest.p[1] == Approx(0.75));
}

TEST_CASE("a residual without mass is p") {
  CHECK(fd::residual_mass(1.0, kP, kP) == 0.0);
  CHECK(fd::residual(1.0, kP, kP).p == kP.p);
  CHECK(fd::residual(0.0, kP, kQ).ids == kP.ids);
}

TEST_CASE("with nothing drafted the residual is p") {
  CHECK(fd::residual_mass(1.0, kP, {}) == Approx(1.0));
  CHECK(fd::residual(1.0, kP, {}).ids == kP.ids);
}

TEST_CASE("the ratio is p over q, and a token that q excludes is refused") {
  CHECK(fd::likelihood_ratio(kP(1), kQ, 1) == Approx(2.5));
  CHECK(fd::likelihood_ratio(kP(0), kQ, 0) == 0.0);  // p excludes it
  CHECK(fd::likelihood_ratio(kP(3), fd::point_mass(3), 3) == Approx(0.3));
  CHECK_THROWS_AS(fd::likelihood_ratio(kP(3), kQ, 3), fd::Error);
  CHECK_THROWS_AS(fd::likelihood_ratio(kP(1), fd::Law{{1}, {std::nan("")}}, 1), fd::Error);
  // No overflow: a q at the edge of the range makes the ratio large, not undefined.
  CHECK(fd::likelihood_ratio(kP(1), fd::Law{{1}, {1e-310}}, 1) > 1e300);
}

TEST_CASE("a token of the residual, drawn with few weights or with all of them") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  fd::Philox rng(4);
  fd::DraftTree draft;
  draft.reset(0);
  fd::Transforms transforms;
  int different = 0;
  int outside = 0;
  for (int i = 0; i < 600; ++i) {
    std::vector<std::vector<float>> rows(2, std::vector<float>(700));
    for (auto& row : rows)
      for (float& x : row) x = normal(random);
    fd::Law q;  // of a model that knows more or fewer tokens, with cuts and without; a found token
    rows[1].resize(i % 2 == 0 ? 650 : 750, -1.0f);
    transforms.apply({.temperature = 1.0f, .top_k = i % 3 == 0 ? 40 : 0}, rows[1], {}, q);
    if (i % 5 == 0) q = fd::point_mass(static_cast<fd::TokenId>(random() % 700));
    rows.pop_back();
    Rows target(draft, rows, {.temperature = 1.0f});
    if (i < 300) target.hand_over_runs();
    const fd::RngKey key{fd::Purpose::kResidual, i, 0};
    const fd::TokenId token = fd::draw_residual(target.sampler, 0, q, key, rng);
    const fd::Law rest = fd::residual(1.0, target.sampler.law(0), q);
    different += token != rest.ids[rng.categorical(key, rest.ids, rest.p)];
    outside += !(rest(token) > 0);
  }
  CHECK(different == 0);
  CHECK(outside == 0);
}

TEST_CASE("where q is p, what little is left is drawn from p") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  fd::Philox rng(6);
  fd::DraftTree draft;
  draft.reset(0);
  std::vector<float> logits(700);
  for (float& x : logits) x = normal(random);
  const Rows target(draft, {logits}, {.temperature = 1.0f});
  const fd::Law p = target.sampler.law(0);
  // A q above p everywhere, by a rounding: no token has more.
  fd::Law q = p;
  for (double& x : q.p) x *= 1 + 1e-12;
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const fd::RngKey key{fd::Purpose::kResidual, i, 0};
    const fd::TokenId token = fd::draw_residual(target.sampler, 0, q, key, rng);
    different += token != p.ids[rng.categorical(key, p.ids, p.p)];
  }
  CHECK(different == 0);
}

TEST_CASE("to draw from the residual few weights are worked out") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(64 * fd::Scores::kRun);
  for (float& x : logits) x = normal(random);
  const RunsOf runs(logits, 1.0f);
  fd::TemperedRow p;
  p.look_at({logits, runs.all(), fd::greatest_logit(logits)}, 1.0f);
  const fd::Law q = fd::point_mass(5);
  fd::ResidualWeights rest(p, q);
  Counted counted(rest);
  fd::Philox rng(8);
  for (int i = 0; i < 100; ++i) (void)rng.pick({fd::Purpose::kResidual, i, 0}, counted);
  CHECK(counted.runs < 100 * 10);  // the harmonic number of 64 is 4.7; and the winner twice
}

TEST_CASE("without a token the others share its mass") {
  const fd::Law rest = fd::without(kQ, 4);
  CHECK(rest.ids == std::vector<fd::TokenId>{0, 1});
  CHECK(rest.p == std::vector<double>{0.5, 0.5});
  CHECK(fd::without(fd::point_mass(7), 7).size() == 0);
  CHECK(fd::without(kQ, 2).ids == kQ.ids);
}

namespace {

/// A law by the logarithms of its probabilities.
struct LogLaw {
  std::vector<long double> log_p;  // by id

  fd::Law law() const {
    fd::Law law;
    for (std::size_t id = 0; id < log_p.size(); ++id) {
      const auto p = static_cast<double>(std::exp(log_p[id]));
      if (p == 0.0) continue;
      law.ids.push_back(static_cast<fd::TokenId>(id));
      law.p.push_back(p);
    }
    return law;
  }
};

LogLaw random_law(std::mt19937& random, std::size_t n, long double span) {
  LogLaw law;
  long double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    law.log_p.push_back(
        i == random() % n ? 0.0L : -span * static_cast<long double>(random() % 1000) / 1000);
    sum += std::exp(law.log_p.back());
  }
  for (long double& x : law.log_p) x -= std::log(sum);
  return law;
}

/// log(max(exp(a) - exp(b), 0)), without leaving logarithms.
long double log_excess(long double a, long double b) {
  return b < a ? a + std::log1p(-std::exp(b - a)) : -std::numeric_limits<long double>::infinity();
}

}  // namespace

TEST_CASE("laws that span 700 nats: the same as in logarithms") {
  std::mt19937 random(8);
  for (const long double span : {1.0L, 30.0L, 300.0L, 700.0L}) {
    for (int i = 0; i < 200; ++i) {
      const std::size_t n = 2 + random() % 12;
      const LogLaw log_p = random_law(random, n, span);
      const LogLaw log_q = i % 3 == 0 ? log_p : random_law(random, n, span);
      const fd::Law p = log_p.law();
      const fd::Law q = log_q.law();
      const double scale = i % 2 == 0 ? 1.0 : 0.25;
      long double mass = 0;
      for (std::size_t id = 0; id < n; ++id) {
        mass += std::exp(log_excess(std::log(static_cast<long double>(scale)) + log_p.log_p[id],
                                    log_q.log_p[id]));
        const auto token = static_cast<fd::TokenId>(id);
        if (q(token) == 0.0) continue;
        const long double ratio = std::exp(log_p.log_p[id] - log_q.log_p[id]);
        const double accepted = std::min(1.0, fd::likelihood_ratio(p(token), q, token));
        CHECK(std::abs(accepted - std::min(1.0L, ratio)) < 1e-12);
      }
      CHECK(std::abs(fd::residual_mass(scale, p, q) - mass) < 1e-14);
      if (mass < 1e-9) continue;  // what is left is rounding, in either way of computing
      const fd::Law rest = fd::residual(scale, p, q);
      for (std::size_t id = 0; id < n; ++id) {
        const long double expected =
            std::exp(log_excess(std::log(static_cast<long double>(scale)) + log_p.log_p[id],
                                log_q.log_p[id])) /
            mass;
        // As exact as the mass is large: together, as exact as the emitted law has to be.
        CHECK(std::abs(rest(static_cast<fd::TokenId>(id)) - expected) * mass < 1e-14);
      }
    }
  }
}
