#include <foredraft/constraint/piece_trie.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

TEST_CASE("a walk meets every token whose bytes have states, and no other") {
  const std::vector<std::string> pieces{"b", "abc", "", "a", "ab", "abd", "a", "\xFF", "abcd"};
  CHECK(walked(trie_of(pieces)->all(), "abcd") ==
        Tokens{1, 3, 4, 6, 8});  // two tokens of equal bytes
  CHECK(walked(trie_of(pieces)->all(), "abd") == Tokens{3, 4, 5, 6});
  CHECK(walked(trie_of(pieces)->all(), "\xFF") == Tokens{7});
  CHECK(walked(trie_of(pieces)->all(), "x").empty());
  CHECK(walked(trie_of({"", ""})->all(), "a").empty());
  CHECK(walked(trie_of({})->all(), "a").empty());
}

TEST_CASE("a text is spelled in the longest tokens") {
  const std::vector<std::string> pieces{"a", "b", "ab", "abab", "c"};
  const auto trie = trie_of(pieces);
  CHECK(trie->spell("ababac", 9) == Tokens{3, 0, 4});
  CHECK(trie->spell("ababac", 2) == Tokens{3, 0});
  CHECK(trie->spell("abxa", 9) == Tokens{2});  // no token has an x
  CHECK(trie->spell("", 9).empty());
  CHECK(trie->bytes(3) == "abab");
}
