#include <foredraft/acceptance/greedy.hpp>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

/// A row whose best of four tokens is `best`.
std::vector<float> best_is(std::size_t best) {
  std::vector<float> row(4, 0.0f);
  row[best] = 1.0f;
  return row;
}

std::vector<fd::NodeIndex> path_of(const fd::Verdict& verdict) {
  return {verdict.path.begin(), verdict.path.begin() + verdict.path_size};
}

}  // namespace

TEST_CASE("a chain is accepted up to its first token that is not the best") {
  fd::DraftTree draft;
  draft.reset(0);
  for (const fd::TokenId token : {1, 2, 3}) draft.extend(token);
  ScriptedRng rng({}, {});  // greedy never draws
  const auto verify = [&](const std::vector<std::size_t>& best) {
    std::vector<std::vector<float>> logits;
    for (const std::size_t token : best) logits.push_back(best_is(token));
    const Rows rows(draft, logits, {});
    return fd::Greedy{}.verify(draft, rows.sampler, rng);
  };
  CHECK(path_of(verify({1, 2, 3, 0})) == std::vector<fd::NodeIndex>{0, 1, 2, 3});
  CHECK(verify({1, 2, 3, 0}).last == 0);
  CHECK(path_of(verify({1, 0, 3, 0})) ==
        std::vector<fd::NodeIndex>{0, 1});  // what follows does not count
  CHECK(verify({1, 0, 3, 0}).last == 0);
  CHECK(path_of(verify({2, 2, 3, 0})) == std::vector<fd::NodeIndex>{0});
  CHECK(verify({2, 2, 3, 0}).last == 2);
}

TEST_CASE("in a tree the branch with the best tokens wins, in any order of siblings") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.add(0, 1);
  draft.add(0, 2);
  draft.add(1, 3);
  draft.add(2, 0);
  draft.add(2, 3);
  ScriptedRng rng({}, {});
  const Rows rows(draft, {best_is(2), best_is(3), best_is(3), best_is(0), best_is(0), best_is(1)},
                  {});
  const fd::Verdict verdict = fd::Greedy{}.verify(draft, rows.sampler, rng);
  CHECK(path_of(verdict) == std::vector<fd::NodeIndex>{0, 2, 5});
  CHECK(verdict.last == 1);
}

TEST_CASE("a temperature is refused, not ignored") {
  CHECK(fd::Greedy{}.needs({}) == fd::RowNeed::kArgmax);
  CHECK_THROWS_AS(fd::Greedy{}.needs({.temperature = 0.5f}), fd::Error);
}

TEST_CASE("penalties take the whole row, because they may make another token the best") {
  CHECK(fd::Greedy{}.needs({.repeat_penalty = 1.1f}) == fd::RowNeed::kLogits);
}
