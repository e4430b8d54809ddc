#include <foredraft/core/round.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a verdict's path begins with the anchor and takes a whole draft") {
  fd::Verdict verdict;
  verdict.start();
  CHECK(verdict.end() == 0);
  CHECK(verdict.accepted() == 0);
  for (int node = 1; node < fd::DraftTree::kMaxNodes; ++node) verdict.accept(node);
  CHECK(verdict.accepted() == fd::DraftTree::kMaxNodes - 1);
  CHECK(verdict.end() == fd::DraftTree::kMaxNodes - 1);
  verdict.start();
  CHECK(verdict.accepted() == 0);
  CHECK(verdict.path[0] == 0);
}

TEST_CASE("the anchor is the last final token") {
  const std::vector<fd::TokenId> tokens{4, 7, 9};
  const std::vector<fd::TokenId> guessed{1, 2};
  const fd::Context context{tokens, guessed, {}};
  CHECK(context.anchor() == 9);
  CHECK(context.anchor_position() == 2);  // guessed tokens do not move it
}
