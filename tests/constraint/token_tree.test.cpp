#include <foredraft/constraint/token_tree.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

// Walks and spelling over vocabularies: piece_trie.test.cpp.
TEST_CASE("the longest token that a text begins with") {
  const fd::TokenTree tree({{"ab", 0}, {"a", 1}, {"abcd", 2}, {"b", 3}, {"ab", 4}});
  CHECK(tree.longest("abc") == 0);  // of equal ones the first
  CHECK(tree.longest("abcde") == 2);
  CHECK(tree.longest("ac") == 1);
  CHECK(tree.longest("c") == -1);
  CHECK(fd::TokenTree().longest("a") == -1);
}
