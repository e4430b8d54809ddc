#include <foredraft/core/token_set.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a set of tokens knows what it holds, at the edges of its words too") {
  for (const int n_vocab : {1, 63, 64, 65, 130}) {
    fd::TokenSet set(n_vocab);
    CHECK(set.empty());
    set.add(n_vocab - 1);
    set.add(0);
    CHECK(set.contains(0));
    CHECK(set.contains(n_vocab - 1));
    CHECK(set.size() == (n_vocab == 1 ? 1 : 2));
    CHECK_FALSE(set.contains(n_vocab));
    CHECK_FALSE(set.contains(-1));
    set.remove(0);
    CHECK_FALSE(set.contains(0));
    set.add_all();
    CHECK(set.size() == n_vocab);
    CHECK_FALSE(set.contains(n_vocab));
  }
}

TEST_CASE("the tokens of a set come in order, each once") {
  fd::TokenSet set(200);
  const std::vector<fd::TokenId> tokens{0, 5, 63, 64, 127, 128, 199};
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) set.add(*token);
  std::vector<fd::TokenId> seen;
  set.for_each([&](fd::TokenId token) { seen.push_back(token); });
  CHECK(seen == tokens);
  CHECK(fd::TokenSet().empty());
}

TEST_CASE("one set is added to another") {
  fd::TokenSet a(130), b(130);
  a.add(3);
  b.add(3);
  b.add(129);
  a.add(b);
  CHECK(a == b);
}
