#include <foredraft/testing/drafts.hpp>

#include <set>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

namespace {

fd::DraftTree propose(const ft::TreeFunction& drafter, const ft::Tokens& tokens, fd::Limit limit,
                      std::uint64_t seed = 1) {
  fd::Philox rng(seed);
  fd::DraftTree draft;
  draft.reset(tokens.back());
  ft::TreeFunction copy = drafter;
  copy.propose({tokens, {}, {.temperature = 1.0f}, true, &rng}, limit, draft);
  return draft;
}

const ft::HashTarget kTarget(3, 0, 1.5, 5);

}  // namespace

TEST_CASE("the chains are chains and keep to the limit, the trees have siblings") {
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  const auto chains = ft::chains_for<fd::Shape::kTree>(kTarget, sampling);
  CHECK(chains.size() == 10);
  for (const auto& [name, drafter] : chains) {
    const fd::DraftTree draft = propose(drafter, {0, 1}, {3, 3});
    CAPTURE(name);
    CHECK(draft.is_chain());
    CHECK(draft.drafted() <= 3);
  }
  bool drawn = false, found = false;
  for (const auto& [name, drafter] : ft::trees_for(kTarget, sampling)) {
    const fd::DraftTree draft = propose(drafter, {0, 1}, {2, 15});
    CAPTURE(name);
    CHECK(!draft.is_chain());
    CHECK(draft.max_depth() <= 2);
    drawn |= draft.siblings(0) != fd::Siblings::kPointMass;
    found |= draft.siblings(0) == fd::Siblings::kPointMass;
  }
  CHECK((drawn && found));
}

TEST_CASE("siblings without replacement differ, independent ones need not") {
  const auto q = [](const ft::Tokens&) { return fd::Law{{0, 1, 2}, {0.6, 0.3, 0.1}}; };
  bool twice = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto siblings = [&](fd::Siblings made) {
      const auto brood = [made](const ft::Tokens&) { return ft::Brood{made, 3}; };
      const fd::DraftTree draft =
          propose(ft::drafting<fd::Shape::kTree>(3, brood, q), {0}, {1, 8}, seed);
      std::set<fd::TokenId> tokens;
      for (fd::NodeIndex node = 1; node < draft.size(); ++node) tokens.insert(draft.token(node));
      CHECK(draft.drafted() == 3);
      return tokens.size();
    };
    CHECK(siblings(fd::Siblings::kWithoutReplacement) == 3);
    twice |= siblings(fd::Siblings::kIndependent) < 3;
  }
  CHECK(twice);
}

TEST_CASE("the text at a node is what a row of it sees") {
  fd::DraftTree draft;
  draft.reset(4);
  const fd::NodeIndex a = draft.add(0, 5);
  draft.add(0, 6);
  const fd::NodeIndex b = draft.add(a, 7);
  const ft::Tokens tokens{3, 4};
  const fd::Context context{tokens, {}, {}, true, nullptr};
  CHECK(ft::text_at(context, draft, 0) == ft::Tokens{3, 4});
  CHECK(ft::text_at(context, draft, b) == ft::Tokens{3, 4, 5, 7});
}
