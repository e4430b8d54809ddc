#include <foredraft/control/merged_draft.hpp>

#include <foredraft/testing/toy_target.hpp>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Learns to accept what is confident by 0.9, the rest by 0.3.
fd::AcceptanceEstimate estimate() {
  fd::AcceptanceEstimate estimate;
  for (int i = 0; i < 2000; ++i) {
    estimate.learn(0.99f, 1 + i % 8, i % 10 != 3);
    estimate.learn(0.01f, 1 + i % 8, i % 10 < 3);
  }
  return estimate;
}
fd::DraftTree chain(const std::vector<fd::TokenId>& tokens, float confidence) {
  fd::DraftTree draft;
  draft.reset(7);
  for (const fd::TokenId token : tokens) draft.set_confidence(draft.extend(token), confidence);
  return draft;
}
std::vector<fd::TokenId> tokens_of(const fd::DraftTree& draft) {
  std::vector<fd::TokenId> tokens;
  for (fd::NodeIndex node = 1; node < draft.size(); ++node) tokens.push_back(draft.token(node));
  return tokens;
}
fd::Prices price_of(double row) {
  fd::Prices prices{};
  for (std::size_t rows = 2; rows < prices.size(); ++rows)
    prices[rows] = row * static_cast<double>(rows - 1);
  return prices;
}
constexpr fd::Limit kWide{.depth = 63, .nodes = 63};

struct Choice {
  double value;
  fd::DraftTree draft;
};
Choice choose(fd::MergedDraft& merged, fd::Limit limit, fd::Shape shape, double row) {
  Choice choice;
  choice.value = merged.choose(limit, shape, price_of(row));
  choice.draft.reset(7);
  merged.write(choice.draft);
  CHECK(choice.draft.drafted() == merged.chosen());
  return choice;
}

}  // namespace

TEST_CASE("a chain is cut where its next token is worth less than its row") {
  fd::MergedDraft merged;
  merged.clear();
  merged.add(chain({1, 2, 3, 4, 5, 6, 7, 8}, 0.99f), 0, estimate());
  CHECK(choose(merged, kWide, fd::Shape::kChain, 0.0).draft.drafted() == 8);
  const fd::Limit two{.depth = 63, .nodes = 2};
  CHECK(choose(merged, two, fd::Shape::kChain, 0.0).draft.drafted() == 2);
  const Choice some = choose(merged, kWide, fd::Shape::kChain, 0.7);
  CHECK(some.draft.drafted() >= 2);
  CHECK(some.draft.drafted() <= 4);  // .9 ^ n falls below .7
  CHECK(choose(merged, kWide, fd::Shape::kTree, 0.7).draft.drafted() == some.draft.drafted());
  const Choice none = choose(merged, kWide, fd::Shape::kChain, 1.0);
  CHECK(none.draft.drafted() == 0);
  CHECK(none.value == 0);
}
TEST_CASE("of two chains the better one, and what continues it") {
  fd::MergedDraft merged;
  merged.clear();
  merged.add(chain({1, 2, 3, 4, 5}, 0.01f), 0, estimate());
  merged.add(chain({1, 9}, 0.99f), 1, estimate());
  const Choice best = choose(merged, kWide, fd::Shape::kChain, 0.05);
  CHECK(tokens_of(best.draft) == std::vector<fd::TokenId>{1, 9});
  CHECK(best.draft.origin(1) == 1);  // of two who agree, the one who is more likely right
  merged.clear();
  merged.add(chain({1, 2, 3, 4}, 0.01f), 0, estimate());
  merged.add(chain({1, 2}, 0.99f), 1, estimate());
  const Choice longer = choose(merged, kWide, fd::Shape::kChain, 0.05);
  CHECK(tokens_of(longer.draft) == std::vector<fd::TokenId>{1, 2, 3, 4});
  CHECK(longer.draft.origin(2) == 1);
  CHECK(longer.draft.origin(3) == 0);
}
TEST_CASE("a tree holds both, the most probable nodes under its budget") {
  fd::MergedDraft merged;
  merged.clear();
  merged.add(chain({1, 2, 3}, 0.99f), 0, estimate());
  merged.add(chain({4, 5, 6}, 0.01f), 1, estimate());
  const Choice all = choose(merged, kWide, fd::Shape::kTree, 0.0);
  CHECK(all.draft.drafted() == 6);
  CHECK(all.draft.first_child(0) == 1);
  const Choice four = choose(merged, {.depth = 63, .nodes = 4}, fd::Shape::kTree, 0.0);
  CHECK(tokens_of(four.draft) == std::vector<fd::TokenId>{1, 2, 3, 4});
  const Choice flat = choose(merged, {.depth = 1, .nodes = 63}, fd::Shape::kTree, 0.0);
  CHECK(tokens_of(flat.draft) == std::vector<fd::TokenId>{1, 4});
}
TEST_CASE("a token behind two parents is two nodes") {
  fd::MergedDraft merged;
  merged.clear();
  merged.add(chain({3}, 0.99f), 0, estimate());
  merged.add(chain({1, 2}, 0.99f), 0, estimate());
  merged.add(chain({3, 2}, 0.99f), 1, estimate());
  const Choice all = choose(merged, kWide, fd::Shape::kTree, 0.0);
  CHECK(all.draft.drafted() == 4);
  CHECK(all.draft.child_with(all.draft.child_with(0, 1), 2) > 0);
  CHECK(all.draft.child_with(all.draft.child_with(0, 3), 2) > 0);
}
TEST_CASE("the value is what is expected less what it costs") {
  fd::MergedDraft merged;
  merged.clear();
  const fd::AcceptanceEstimate even(0.5);
  merged.add(chain({1, 2}, fd::DraftTree::kUnknown), 0, even);
  CHECK(choose(merged, kWide, fd::Shape::kChain, 0.1).value == Approx(0.5 + 0.25 - 0.2));
  merged.add(chain({3}, fd::DraftTree::kUnknown), 1, even);
  CHECK(choose(merged, kWide, fd::Shape::kTree, 0.1).value == Approx(1.0 + 0.25 - 0.3));
  // Three claim more than there is: they share it.
  merged.add(chain({4}, fd::DraftTree::kUnknown), 2, even);
  merged.add(chain({5}, fd::DraftTree::kUnknown), 3, even);
  CHECK(choose(merged, kWide, fd::Shape::kTree, 0.1).value == Approx(1.0 + 0.125 - 0.5));
}
TEST_CASE("more drafts than there is room for are left out") {
  fd::MergedDraft merged;
  merged.clear();
  for (int i = 0; i < 10; ++i) {
    std::vector<fd::TokenId> tokens;
    for (int k = 0; k < 63; ++k) tokens.push_back(100 * i + k);
    merged.add(chain(tokens, 0.99f), static_cast<std::uint8_t>(i), estimate());
  }
  const Choice choice = choose(merged, kWide, fd::Shape::kTree, 0.0);
  CHECK(choice.draft.drafted() == 63);
}
