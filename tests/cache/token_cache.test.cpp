#include <foredraft/cache/token_cache.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("the cache keeps the path and what is staged below it") {
  fd::TokenCache cache(8, 8);
  cache.stage(std::vector<fd::Node>{{5, fd::kCommitted}, {6, 0}, {7, 0}, {8, 2}});
  cache.commit(std::vector<fd::NodeIndex>{0, 2});
  CHECK(cache.size() == 2);
  CHECK(cache.staged() == 1);
  CHECK(cache.text_of(0) == std::vector<fd::TokenId>{5, 7, 8});
  cache.discard();
  CHECK(cache.staged() == 0);
}

TEST_CASE("what cannot be staged is refused") {
  fd::TokenCache cache(8, 2);
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, 3}}), fd::Error);
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {1, 0}, {1, 1}}),
                  fd::Error);
}

TEST_CASE("any number of nodes may be staged, and a copy has room of its own") {
  fd::TokenCache cache(2048, 1024);
  std::vector<fd::Node> nodes{{1, fd::kCommitted}};
  while (nodes.size() < 1000) nodes.push_back({1, static_cast<int>(nodes.size()) - 1});
  cache.stage(nodes);
  fd::TokenCache copy = cache;
  const fd::TokenId* before = copy.tokens().data();
  copy.commit(std::vector<fd::NodeIndex>{0, 1, 2});
  CHECK(copy.staged() == 997);
  CHECK(copy.tokens().data() == before);  // committing allocates nothing
}

TEST_CASE("tokens are cut off and brought back") {
  fd::TokenCache cache(8, 8);
  cache.stage(std::vector<fd::Node>{{5, fd::kCommitted}, {6, 0}, {7, 1}});
  CHECK(cache.position(2) == 2);
  cache.commit(std::vector<fd::NodeIndex>{0, 1, 2});
  const auto snapshot = cache.snapshot();
  cache.truncate(1);
  cache.truncate(3);  // more than there is
  CHECK(cache.tokens().size() == 1);
  cache.restore(snapshot);
  CHECK(std::ranges::equal(cache.tokens(), std::vector<fd::TokenId>{5, 6, 7}));
  fd::TokenCache small(2);
  CHECK_THROWS_AS(small.restore(snapshot), fd::Error);
  cache.restore({});
  CHECK(cache.size() == 0);
}
