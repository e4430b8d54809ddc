#include <foredraft/core/token_trie.hpp>

#include <map>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

TEST_CASE("the deepest value is that of most tokens with which a text begins") {
  fd::TokenTrie<int> trie;
  CHECK(trie.deepest(Tokens{1, 2}) == nullptr);
  trie.put(Tokens{1, 2, 3, 4}, 4);
  trie.put(Tokens{1, 2}, 2);
  trie.put(Tokens{1, 2, 3, 9}, 9);
  CHECK(trie.size() == 3);
  CHECK(trie.deepest(Tokens{1}) == nullptr);
  CHECK(*trie.deepest(Tokens{1, 2}) == 2);
  CHECK(*trie.deepest(Tokens{1, 2, 3}) == 2);  // a branch is no value
  CHECK(*trie.deepest(Tokens{1, 2, 3, 4, 5}) == 4);
  CHECK(*trie.deepest(Tokens{1, 2, 3, 9}) == 9);
  CHECK(*trie.deepest(Tokens{1, 2, 4}) == 2);
  CHECK(trie.deepest(Tokens{2, 2}) == nullptr);
  trie.put(Tokens{1, 2}, 20);
  CHECK(trie.size() == 3);
  CHECK(*trie.deepest(Tokens{1, 2, 3}) == 20);
  trie.put(Tokens{}, 0);
  CHECK(*trie.deepest(Tokens{7}) == 0);
}

TEST_CASE("only what lies under exactly these tokens is erased") {
  fd::TokenTrie<int> trie;
  trie.put(Tokens{1, 2, 3, 4}, 4);
  trie.put(Tokens{1, 2}, 2);
  for (const Tokens& other :
       {Tokens{}, Tokens{1}, Tokens{1, 2, 3}, Tokens{1, 2, 3, 4, 5}, Tokens{5}})
    CHECK_FALSE(trie.erase(other));
  CHECK(trie.erase(Tokens{1, 2}));
  CHECK_FALSE(trie.erase(Tokens{1, 2}));
  CHECK(*trie.deepest(Tokens{1, 2, 3, 4}) == 4);
  CHECK(trie.erase(Tokens{1, 2, 3, 4}));
  CHECK(trie.size() == 0);
  CHECK(trie.deepest(Tokens{1, 2, 3, 4}) == nullptr);
}

TEST_CASE("random puts, erasures and searches agree with a plain list") {
  std::mt19937 random(3);
  const auto some_tokens = [&] {
    Tokens tokens(random() % 7);
    for (auto& token : tokens) token = static_cast<fd::TokenId>(random() % 2);
    return tokens;
  };
  fd::TokenTrie<int> trie;
  std::map<Tokens, int> list;
  for (int step = 0; step < 20000; ++step) {
    const Tokens tokens = some_tokens();
    if (random() % 2 == 0) {
      trie.put(tokens, step);
      list[tokens] = step;
    } else {
      CHECK(trie.erase(tokens) == (list.erase(tokens) == 1));
    }
    const Tokens text = some_tokens();
    const int* expected = nullptr;
    for (std::size_t n = 0; n <= text.size(); ++n) {
      const auto found = list.find(Tokens(text.begin(), text.begin() + static_cast<int>(n)));
      if (found != list.end()) expected = &found->second;
    }
    const int* const found = trie.deepest(text);
    REQUIRE((found == nullptr) == (expected == nullptr));
    if (found != nullptr) REQUIRE(*found == *expected);
    REQUIRE(trie.size() == list.size());
  }
}
