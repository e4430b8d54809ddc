#include <foredraft/control/acceptance_estimate.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {
constexpr float kSure = 0.95f;
constexpr float kGuess = 0.2f;

/// Every n-th is accepted.
void feed(fd::AcceptanceEstimate& estimate, float confidence, int depth, int n, int trials) {
  for (int i = 0; i < trials; ++i) {
    estimate.learn(confidence, depth, i % n == 0);
    if (confidence == kSure) estimate.learn_level(depth, i % n == 0);
  }
}
}  // namespace

TEST_CASE("nothing learned, the prior holds everywhere") {
  const fd::AcceptanceEstimate estimate(0.7);
  for (const float confidence : {fd::DraftTree::kUnknown, 0.0f, 0.5f, 1.0f}) {
    CHECK(estimate.rate(confidence, 1) == Approx(0.7));
    CHECK(estimate.rate(confidence, 60) == Approx(0.7));
  }
  CHECK(estimate.rate_at(3) > 0.7);  // what may be hoped for
  CHECK(estimate.trials() == 0);
}
TEST_CASE("what a confidence is worth is learned, by depth where there is enough to learn from") {
  fd::AcceptanceEstimate estimate;
  for (int i = 0; i < 300; ++i) {
    estimate.learn(kSure, 1, true);
    estimate.learn(kGuess, 1, i % 5 == 0);
    estimate.learn(kGuess, 2, i % 2 == 0);
  }
  CHECK(estimate.rate(kSure, 1) > 0.9);
  CHECK(estimate.rate(kGuess, 1) == Approx(0.2).margin(0.06));
  CHECK(estimate.rate(kGuess, 2) == Approx(0.5).margin(0.08));
  CHECK(estimate.rate(kSure, 30) > 0.85);  // as its class
  CHECK(estimate.rate(kGuess, 30) < 0.5);
  CHECK(estimate.rate(0.5f, 1) > estimate.rate(kGuess, 1));  // as the drafter
  CHECK(estimate.trials() > 400);
}
TEST_CASE("what was never tried is taken for the drafter's mean, unknown confidence too") {
  fd::AcceptanceEstimate right;
  feed(right, kSure, 1, 1, 500);
  CHECK(right.rate(0.5f, 1) > 0.85);
  fd::AcceptanceEstimate both;
  for (int i = 0; i < 300; ++i) {
    both.learn(kSure, 1, true);
    both.learn(0.05f, 1, false);
  }
  CHECK(both.rate(0.05f, 1) < 0.1);
  CHECK(both.rate(fd::DraftTree::kUnknown, 1) == Approx(0.5).margin(0.1));
}
TEST_CASE("a change is seen within twenty tokens, and in all classes") {
  fd::AcceptanceEstimate estimate;
  feed(estimate, kSure, 1, 1, 500);
  CHECK(estimate.rate(kSure, 1) > 0.95);
  const double other = estimate.rate(kGuess, 1);
  feed(estimate, kSure, 1, 1000, 20);
  CHECK(estimate.rate(kSure, 1) < 0.4);
  CHECK(estimate.rate(kGuess, 1) < other);
  feed(estimate, kSure, 1, 1, 20);
  CHECK(estimate.rate(kSure, 1) > 0.7);
}
TEST_CASE("a drafter that is left alone is believed again what it was worth") {
  fd::AcceptanceEstimate estimate;
  feed(estimate, kSure, 1, 1, 500);
  feed(estimate, kSure, 1, 1000, 20);
  const double before = estimate.rate_at(1);
  for (int i = 0; i < 100; ++i) estimate.relax();
  CHECK(estimate.rate_at(1) > before + 0.3);
}
TEST_CASE("a row of luck raises expectations by little") {
  fd::AcceptanceEstimate estimate;
  feed(estimate, kGuess, 1, 2, 500);
  const double before = estimate.rate(kGuess, 1);
  feed(estimate, kGuess, 1, 1, 6);
  CHECK(estimate.rate(kGuess, 1) < before + 0.08);
}
TEST_CASE("never quite certain") {
  fd::AcceptanceEstimate estimate;
  feed(estimate, kSure, 1, 1, 5000);
  CHECK(estimate.rate(kSure, 1) < 1);
  fd::AcceptanceEstimate other;
  feed(other, kSure, 1, 10000, 5000);
  CHECK(other.rate(kSure, 1) > 0);
}
