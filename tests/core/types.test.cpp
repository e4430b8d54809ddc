#include <foredraft/core/types.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

// Caches and trees rely on this: an index cannot be mistaken for "follows the committed rows", and
// a node that says nothing else is a root.
static_assert(fd::kCommitted < 0);
static_assert(fd::Node{7}.parent == fd::kCommitted);

TEST_CASE("nodes differ by token and by parent") {
  CHECK(fd::Node{1, 2} == fd::Node{1, 2});
  CHECK_FALSE(fd::Node{1, 2} == fd::Node{2, 2});
  CHECK_FALSE(fd::Node{1, 2} == fd::Node{1, 1});
}

TEST_CASE("tokens as a chain of nodes, and the path through it") {
  const std::vector<fd::TokenId> tokens{7, 8, 9};
  const auto nodes = fd::chain_of(tokens, 1, 2);
  CHECK(nodes == std::vector<fd::Node>{{8, fd::kCommitted}, {9, 0}});
  CHECK(fd::chain_of(tokens, 3, 0).empty());
  CHECK(fd::first_nodes(3) == std::vector<fd::NodeIndex>{0, 1, 2});
}
