#include <foredraft/drafter/lookahead_pool.hpp>

#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

Tokens found(fd::LookaheadPool& pool, fd::TokenId token) {
  const auto tokens = pool.find(token);
  return {tokens.begin(), tokens.end()};
}

}  // namespace

TEST_CASE("continuations come newest first, each once") {
  fd::LookaheadPool pool(16, 3, 2);
  CHECK(found(pool, 7).empty());
  pool.insert(7, Tokens{1, 2});
  pool.insert(7, Tokens{1, 3});
  CHECK(found(pool, 7) == Tokens{1, 3, 1, 2});
  pool.insert(7, Tokens{1, 2});
  CHECK(found(pool, 7) == Tokens{1, 2, 1, 3});
  pool.insert(7, Tokens{4, 5});
  pool.insert(7, Tokens{1, 2});
  CHECK(found(pool, 7) == Tokens{1, 2, 4, 5, 1, 3});
  pool.insert(7, Tokens{6, 6});
  CHECK(found(pool, 7) == Tokens{6, 6, 1, 2, 4, 5});  // the oldest went
  CHECK(found(pool, 9).empty());
  CHECK(pool.size() == 3);
  pool.forget();
  CHECK(pool.size() == 0);
  CHECK(found(pool, 7).empty());
}

TEST_CASE("token 0 is a token like any other") {
  fd::LookaheadPool pool(8, 2, 1);
  CHECK(found(pool, 0).empty());
  pool.insert(5, Tokens{1});
  CHECK(found(pool, 0).empty());
  pool.insert(0, Tokens{2});
  CHECK(found(pool, 0) == Tokens{2});
  CHECK(found(pool, 5) == Tokens{1});
}

TEST_CASE("the token that was used longest ago makes room") {
  fd::LookaheadPool pool(8, 2, 1);
  for (fd::TokenId token = 0; token < 8; ++token) pool.insert(token, Tokens{token + 100});
  CHECK(found(pool, 0) == Tokens{100});  // used again, and now 1 is the oldest
  pool.insert(2, Tokens{200});
  pool.insert(50, Tokens{150});
  CHECK(found(pool, 1).empty());
  CHECK(found(pool, 50) == Tokens{150});  // with nothing of 1's
  CHECK(found(pool, 2) == Tokens{200, 102});
  pool.insert(51, Tokens{151});
  CHECK(found(pool, 3).empty());
  CHECK(found(pool, 0) == Tokens{100});
}

TEST_CASE("memory is taken once, whatever is inserted") {
  fd::LookaheadPool pool(64, 4, 3);
  const std::size_t bytes = pool.bytes();
  CHECK(bytes == 64 * (16 + 4 * 4 * 3));
  std::mt19937 random(1);
  Tokens tokens(3);
  const std::int64_t before = memory::allocations;
  for (int i = 0; i < 100000; ++i) {
    for (fd::TokenId& token : tokens) token = static_cast<fd::TokenId>(random() % 3);
    pool.insert(static_cast<fd::TokenId>(random() % 1000), tokens);
  }
  CHECK(memory::allocations == before);
  CHECK(pool.bytes() == bytes);
  CHECK(pool.size() <= 64 * 4);
  CHECK(pool.size() > 64);
}
