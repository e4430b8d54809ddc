#include <foredraft/constraint/token_tree.hpp>

#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

// Walks and spelling over vocabularies: piece_trie.test.cpp.
TEST_CASE("the longest token that a text begins with") {
  const std::string_view pieces[] = {"ab", "a", "abcd", "b", "ab"};
  const fd::TokenTree tree({0, 1, 2, 3, 4}, [&](fd::TokenId token) { return pieces[token]; });
  CHECK(tree.longest("abc") == 0);  // of equal ones the first
  CHECK(tree.longest("abcde") == 2);
  CHECK(tree.longest("ac") == 1);
  CHECK(tree.longest("c") == -1);
  CHECK(fd::TokenTree().longest("a") == -1);
}
