#include <foredraft/testing/toy_target.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

TEST_CASE("logits depend on as many tokens as the order says") {
  const ft::HashTarget two(5, 2);
  CHECK(two.logits_after(std::vector<fd::TokenId>{1, 2, 3}) ==
        two.logits_after(std::vector<fd::TokenId>{4, 2, 3}));
  const ft::HashTarget all(5, 0);
  CHECK(all.logits_after(std::vector<fd::TokenId>{1, 2, 3}) !=
        all.logits_after(std::vector<fd::TokenId>{4, 2, 3}));
}

TEST_CASE("the cache keeps the path and what is staged below it") {
  ft::TokenCache cache(8, 8);
  cache.stage(std::vector<fd::Node>{{5, fd::kCommitted}, {6, 0}, {7, 0}, {8, 2}});
  cache.commit(std::vector<fd::NodeIndex>{0, 2});
  CHECK(cache.size() == 2);
  CHECK(cache.staged() == 1);
  CHECK(cache.prefix_of(0) == std::vector<fd::TokenId>{5, 7, 8});
  cache.discard();
  CHECK(cache.staged() == 0);
}

TEST_CASE("a broken contract is a logic error") {
  ft::TokenCache cache(8, 2);
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, 3}}), std::logic_error);
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {1, 0}, {1, 1}}),
                  std::logic_error);
}

TEST_CASE("any number of nodes may be staged, and a copy has room of its own") {
  ft::TokenCache cache(2048, 1024);
  std::vector<fd::Node> nodes{{1, fd::kCommitted}};
  while (nodes.size() < 1000) nodes.push_back({1, static_cast<int>(nodes.size()) - 1});
  cache.stage(nodes);
  ft::TokenCache copy = cache;
  const fd::TokenId* before = copy.tokens().data();
  copy.commit(std::vector<fd::NodeIndex>{0, 1, 2});
  CHECK(copy.staged() == 997);
  CHECK(copy.tokens().data() == before);  // committing allocates nothing
}
