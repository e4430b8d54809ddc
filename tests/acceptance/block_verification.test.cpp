#include <foredraft/acceptance/block_verification.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::SamplingOptions kSampled{.temperature = 1.0f};

std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

// The example of the paper: a context-free target of 1/3, 2/3 and a draft of 2/3, 1/3.
const std::vector<float> kTarget = logits_of({1.0 / 3, 2.0 / 3});
const fd::Law kDraft{{0, 1}, {2.0 / 3, 1.0 / 3}};

fd::DraftTree drawn(const std::vector<fd::TokenId>& tokens) {
  fd::DraftTree draft;
  draft.reset(0);
  for (const fd::TokenId token : tokens) {
    draft.drawn_from(draft.size() - 1) = kDraft;
    draft.extend(token);
  }
  return draft;
}

ScriptedRng verify(const fd::DraftTree& draft, std::deque<bool> accepts, fd::TokenId last,
                   fd::Verdict* verdict = nullptr) {
  const Rows rows(draft, std::vector<std::vector<float>>(fd::idx(draft.size()), kTarget), kSampled,
                  20);
  ScriptedRng rng(std::move(accepts), {last});
  const fd::Verdict found = fd::BlockVerification{}.verify(draft, rows.sampler, rng);
  if (verdict != nullptr) *verdict = found;
  return rng;
}

}  // namespace

TEST_CASE("prefixes are tested from the longest down, each with its own key") {
  fd::Verdict verdict;
  const ScriptedRng rng = verify(drawn({0, 1}), {false, true}, 1, &verdict);
  REQUIRE(rng.questions.size() == 3);
  // R_1 = (1/3) / (2/3) = 1/2, R_2 = min(1, 1/2 * 2) = 1: the likely second token makes good for
  // the unlikely first one.
  CHECK(rng.questions[0].key == fd::RngKey{fd::Purpose::kAccept, 20, 2});
  CHECK(rng.questions[0].probability == Approx(1.0));
  // S_1 = max(1/2 * 2/3 - 1/3, 0) = 0, so a prefix of one is never the longest.
  CHECK(rng.questions[1].key == fd::RngKey{fd::Purpose::kAccept, 20, 1});
  CHECK(rng.questions[1].probability == Approx(0.0).margin(1e-6));
  CHECK(rng.questions[2].key == fd::RngKey{fd::Purpose::kResidual, 20, 1});
  CHECK(verdict.accepted() == 1);
}

TEST_CASE("a block is accepted as often as the paper says") {
  // Expected tokens of the draft: 10/9 for the token-wise rule and 11/9 for the block.
  double expected = 0;
  for (const std::vector<fd::TokenId>& tokens :
       {std::vector<fd::TokenId>{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    const double weight = kDraft(tokens[0]) * kDraft(tokens[1]);
    const ScriptedRng rng = verify(drawn(tokens), {false, false}, 1);
    const double both = std::min(1.0, rng.questions[0].probability);
    const double one = std::min(1.0, rng.questions[1].probability);
    expected += weight * (2 * both + (1 - both) * one);
  }
  CHECK(expected == Approx(11.0 / 9));
}

TEST_CASE("behind the whole draft comes p, behind none of it the residual of one token") {
  const ScriptedRng all = verify(drawn({1, 1}), {true}, 0);
  CHECK(all.questions[1].key == fd::RngKey{fd::Purpose::kResidual, 20, 2});
  CHECK(all.questions[1].ids == std::vector<fd::TokenId>{0, 1});
  const ScriptedRng none = verify(drawn({0, 0}), {false, false}, 1);
  CHECK(none.questions[2].key == fd::RngKey{fd::Purpose::kResidual, 20, 0});
  CHECK(none.questions[2].ids == std::vector<fd::TokenId>{1});  // max(p - q, 0)
}

TEST_CASE("a draft of one token is tested like any rule would") {
  CHECK(verify(drawn({0}), {false}, 1).questions[0].probability == Approx(0.5));
  CHECK(verify(drawn({1}), {true}, 1).questions[0].probability == Approx(1.0));
}

TEST_CASE("found tokens take part with the probability that p gives them") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.extend(0);
  draft.extend(1);
  const ScriptedRng rng = verify(draft, {false, false}, 1);
  // R_1 = 1/3, R_2 = 1/3 * 2/3; S_1 = 1/3 - R_2 = 1/9, which passes 1/9 / (1/9 + 2/3) = 1/7.
  CHECK(rng.questions[0].probability == Approx(2.0 / 9));
  CHECK(rng.questions[1].probability == Approx(1.0 / 7));
  CHECK(rng.questions[2].ids == std::vector<fd::TokenId>{1});
  // The same at nodes where an earlier round has drawn, whose q is still in the tree's memory.
  fd::DraftTree again = drawn({0, 1});
  again.reset(0);
  again.extend(0);
  again.extend(1);
  CHECK(verify(again, {false, false}, 1).questions[0].probability == Approx(2.0 / 9));
}

TEST_CASE("without a draft the token is drawn from p") {
  CHECK(verify(drawn({}), {}, 1).questions[0].ids == std::vector<fd::TokenId>{0, 1});
}

TEST_CASE("block verification: a q that the token cannot have been drawn from is refused") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.drawn_from(0) = {{1}, {1.0}};
  draft.extend(0);
  CHECK_THROWS_AS(verify(draft, {true}, 0), fd::Error);
}

TEST_CASE("where p equals q everything is accepted") {
  fd::DraftTree draft;
  draft.reset(0);
  for (const fd::TokenId token : {0, 1, 1}) {
    draft.drawn_from(draft.size() - 1) = {{0, 1}, {0.5, 0.5}};
    draft.extend(token);
  }
  const Rows rows(draft, std::vector<std::vector<float>>(4, {0.0f, 0.0f}), kSampled);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    fd::Philox rng(seed);
    CHECK(fd::BlockVerification{}.verify(draft, rows.sampler, rng).accepted() == 3);
  }
}

TEST_CASE("a prefix that is worth nothing stays so, whatever ratio follows") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.drawn_from(0) = {{0, 1}, {0.5, 0.5}};
  draft.extend(0);
  draft.drawn_from(1) = {{0, 1}, {1e-310, 1.0}};
  draft.extend(0);
  const Rows rows(draft, {{-INFINITY, 0}, {0, 0}, {0, 0}}, kSampled);  // the first is impossible
  ScriptedRng rng({false, false}, {1});
  fd::BlockVerification{}.verify(draft, rows.sampler, rng);
  CHECK(rng.questions[0].probability == 0.0);
}
