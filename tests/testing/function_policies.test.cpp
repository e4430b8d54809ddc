#include <foredraft/testing/function_policies.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

TEST_CASE("a rule made of another needs what that one needs") {
  const auto greedy = ft::TreeRule::of(fd::Greedy{});
  CHECK(greedy.needs({}) == fd::RowNeed::kArgmax);
  CHECK_THROWS_AS(greedy.needs({.temperature = 1.0f}), fd::Error);
  CHECK(ft::TreeRule::of(fd::lossy::RelaxedAcceptance{}).needs({}) == fd::RowNeed::kLogits);
  CHECK(ft::ChainRule{}.needs({.temperature = 1.0f}) == fd::RowNeed::kLogits);
}

TEST_CASE("a drafter without a function proposes nothing") {
  fd::DraftTree draft;
  draft.reset(1);
  ft::ChainFunction{}.propose({}, {3, 3}, draft);
  CHECK(draft.drafted() == 0);
}
