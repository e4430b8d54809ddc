#include <foredraft/acceptance/lossy.hpp>

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

template <typename A>
fd::Verdict verify(const A& rule, const fd::DraftTree& draft, const std::vector<double>& p,
                   const fd::SamplingOptions& sampling = kSampled) {
  const Rows rows(draft, std::vector<std::vector<float>>(fd::idx(draft.size()), logits_of(p)),
                  rule.needs(sampling) == fd::RowNeed::kLogits && sampling.greedy()
                      ? fd::SamplingOptions{.temperature = 1.0f}
                      : sampling);
  ScriptedRng rng({}, {});  // these rules never draw
  return rule.verify(draft, rows.sampler, rng);
}

fd::DraftTree chain(const std::vector<fd::TokenId>& tokens) {
  fd::DraftTree draft;
  draft.reset(0);
  for (const fd::TokenId token : tokens) draft.extend(token);
  return draft;
}

}  // namespace

TEST_CASE("typical acceptance takes what is not unlikely for this much uncertainty") {
  const fd::lossy::TypicalAcceptance rule;
  // A sure target: exp(-H) is near 1, so the threshold is epsilon = .09.
  const std::vector<double> sure{0.88, 0.1, 0.02};
  CHECK(verify(rule, chain({0, 1}), sure).accepted() == 2);
  CHECK(verify(rule, chain({0, 2, 0}), sure).accepted() == 1);
  CHECK(verify(rule, chain({0, 2, 0}), sure).last == 0);
  // An unsure one: 100 equal tokens have exp(-H) = .01, the threshold is .003.
  CHECK(verify(rule, chain({7, 93}), std::vector<double>(100, 0.01)).accepted() == 2);
}

TEST_CASE("relaxed acceptance takes the best few, near the best") {
  const std::vector<double> p{0.5, 0.3, 0.2};
  CHECK(verify(fd::lossy::RelaxedAcceptance{.top_k = 2, .delta = 0.6}, chain({1}), p).accepted() ==
        1);  // log .5 - log .3 = .51
  CHECK(verify(fd::lossy::RelaxedAcceptance{.top_k = 2, .delta = 0.5}, chain({1}), p).accepted() ==
        0);
  CHECK(verify(fd::lossy::RelaxedAcceptance{.top_k = 2, .delta = 9.0}, chain({2}), p).accepted() ==
        0);
  CHECK(
      verify(fd::lossy::RelaxedAcceptance{.top_k = 1, .delta = 9.0}, chain({0, 1}), p).accepted() ==
      1);
}

TEST_CASE("of a tree the deepest acceptable path is taken, of equally deep ones the likeliest") {
  fd::DraftTree draft;
  draft.reset(0);
  const fd::NodeIndex a = draft.add(0, 1);
  const fd::NodeIndex b = draft.add(0, 0);
  draft.add(0, 2);  // not acceptable
  const fd::NodeIndex c = draft.add(a, 1);
  const fd::NodeIndex d = draft.add(b, 1);
  const std::vector<double> p{0.6, 0.35, 0.05};
  const auto verdict = verify(fd::lossy::TypicalAcceptance{.epsilon = 0.1, .delta = 1}, draft, p);
  CHECK(verdict.accepted() == 2);
  CHECK(verdict.end() == d);
  CHECK(verdict.path[1] == b);
  CHECK(verdict.last == 0);
  draft.add(c, 0);
  CHECK(verify(fd::lossy::TypicalAcceptance{.epsilon = 0.1, .delta = 1}, draft, p).accepted() == 3);
}

TEST_CASE("of equally deep and equally likely paths the first is taken") {
  fd::DraftTree draft;
  draft.reset(0);
  const fd::NodeIndex likely = draft.add(0, 0);
  draft.add(0, 1);
  const fd::lossy::TypicalAcceptance all{.epsilon = 0.01, .delta = 1};
  CHECK(verify(all, draft, {0.6, 0.4}).end() == likely);
  CHECK(verify(all, draft, {0.5, 0.5}).end() == likely);
}

TEST_CASE("the token behind the path is the best one behind its end") {
  const fd::DraftTree draft = chain({1});
  const Rows rows(draft, {logits_of({0.5, 0.5, 0.01}), logits_of({0.1, 0.1, 0.8})}, kSampled);
  ScriptedRng rng({}, {});
  const auto verdict = fd::lossy::TypicalAcceptance{}.verify(draft, rows.sampler, rng);
  CHECK(verdict.accepted() == 1);
  CHECK(verdict.last == 2);
}

TEST_CASE("at the border: typical acceptance wants more than its bar, relaxed as much") {
  const std::vector<double> p{0.5, 0.5};
  CHECK(
      verify(fd::lossy::TypicalAcceptance{.epsilon = 0.5, .delta = 9}, chain({1}), p).accepted() ==
      0);
  CHECK(verify(fd::lossy::RelaxedAcceptance{.top_k = 2, .delta = 0}, chain({1}), p).accepted() ==
        1);
}

TEST_CASE("their types say that they are lossy") {
  CHECK(!fd::lossy::TypicalAcceptance::lossless);
  CHECK(!fd::lossy::RelaxedAcceptance::lossless);
}
