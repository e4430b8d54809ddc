#include <foredraft/acceptance/sample_and_match.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::SamplingOptions kSampled{.temperature = 1.0f};

}  // namespace

TEST_CASE("the sample is drawn from p, keyed by its own position alone") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.add(0, 1);
  draft.add(0, 2);
  draft.add(2, 0);
  const std::vector<float> even{0, 0, 0};
  const Rows rows(draft, {even, even, {-INFINITY, 0, 0}, even}, kSampled, 20);
  ScriptedRng rng({}, {2, 1});
  const fd::Verdict verdict = fd::SampleAndMatch{}.verify(draft, rows.sampler, rng);
  CHECK(verdict.accepted() == 1);
  CHECK(verdict.end() == 2);
  CHECK(verdict.last == 1);
  REQUIRE(rng.questions.size() == 2);
  // The key of the token at 22 is the same whichever branch it is behind, and in any other round.
  CHECK(rng.questions[0].key == fd::RngKey{fd::Purpose::kTargetSample, 21, 0});
  CHECK(rng.questions[1].key == fd::RngKey{fd::Purpose::kTargetSample, 22, 0});
  CHECK(rng.questions[1].ids == std::vector<fd::TokenId>{1, 2});
  CHECK(rng.questions[1].weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("after full acceptance the bonus is one more sample") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.extend(1);
  const Rows rows(draft, {{0, 0, 0}, {0, 0, 0}}, kSampled);
  ScriptedRng rng({}, {1, 1});
  const fd::Verdict verdict = fd::SampleAndMatch{}.verify(draft, rows.sampler, rng);
  CHECK(verdict.accepted() == 1);
  CHECK(verdict.last == 1);
}

TEST_CASE("at temperature 0 it draws nothing and asks for no logits") {
  CHECK(fd::SampleAndMatch{}.needs({}) == fd::RowNeed::kArgmax);
  CHECK(fd::SampleAndMatch{}.needs(kSampled) == fd::RowNeed::kLogits);
  fd::DraftTree draft;
  draft.reset(0);
  draft.extend(2);
  const Rows rows(draft, {{0, 0, 5}, {7, 0, 0}}, {});
  ScriptedRng rng({}, {});
  const fd::Verdict verdict = fd::SampleAndMatch{}.verify(draft, rows.sampler, rng);
  CHECK(verdict.accepted() == 1);
  CHECK(verdict.last == 0);
}

TEST_CASE("a row without law is an error") {
  fd::DraftTree draft;
  draft.reset(0);
  fd::Philox rng;
  const Rows rows(draft, {{0, NAN, 1}}, kSampled);
  CHECK_THROWS_AS(fd::SampleAndMatch{}.verify(draft, rows.sampler, rng), fd::Error);
}
