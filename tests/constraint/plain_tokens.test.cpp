#include <foredraft/constraint/plain_tokens.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

namespace {

Tokens up_to(const fd::PlainTokens& plain, int n) {
  Tokens tokens;
  plain.up_to(n).for_each([&](fd::TokenId token) { tokens.push_back(token); });
  CHECK(plain.size(n) == static_cast<int>(tokens.size()));
  return tokens;
}

}  // namespace

TEST_CASE("plain tokens are whole characters of the kind, by their number") {
  const std::string long_one(fd::PlainTokens::kMost + 1, 'a');
  const std::vector<std::string> pieces{
      "a", " b",  "\xC3\xA9\xE4\xB8\xAD", "\"", "a\"", "\\n", "\xC3", "a\n", "abc", long_one,
      "",  "\x7F"};
  const auto trie = trie_of(pieces);
  const fd::PlainTokens& plain = trie->plain_in_json();
  CHECK(up_to(plain, 0).empty());
  CHECK(up_to(plain, 1) == Tokens{0, 11});
  CHECK(up_to(plain, 2) == Tokens{0, 1, 2, 11});
  CHECK(up_to(plain, fd::PlainTokens::kMost) == Tokens{0, 1, 2, 8, 11});
}

TEST_CASE("the others stand by what follows their characters of the kind") {
  const std::string long_one(fd::PlainTokens::kMost + 1, 'a');
  const std::vector<std::string> pieces{"ab-", "xy-",      "-",      "q-r",      "abc",
                                        "aB",  "\xC3\xA9", long_one, "z\xC3\xA9"};
  fd::CharacterKind letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.ascii.set(fd::idx(c));
  const auto plain = trie_of(pieces)->plain(letters);
  CHECK(plain.kind() == letters);
  CHECK(up_to(plain, fd::PlainTokens::kMost) == Tokens{4});
  CHECK(walked(plain.behind(0), "-") == Tokens{2});
  CHECK(walked(plain.behind(0), "\xC3\xA9") == Tokens{6});
  CHECK(walked(plain.behind(1), "-r") == Tokens{3});
  CHECK(walked(plain.behind(1), "B") == Tokens{5});
  CHECK(walked(plain.behind(1), "\xC3\xA9") == Tokens{8});
  CHECK(walked(plain.behind(2), "-") == Tokens{0, 1});
  CHECK(walked(plain.behind(fd::PlainTokens::kMost), "a") == Tokens{7});
}
