#include <foredraft/constraint/plain_tokens.hpp>

#include <algorithm>
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

/// Tokens whose bytes behind `characters` of the kind `text` begins with.
Tokens behind(const fd::PlainTokens& plain, int characters, const std::string& text) {
  Tokens tokens;
  plain.behind(characters)
      .walk(
          0,
          [&](int at, std::uint8_t byte) {
            const auto i = static_cast<std::size_t>(at);
            return i < text.size() && static_cast<std::uint8_t>(text[i]) == byte ? at + 1 : -1;
          },
          [&](fd::TokenId token) { tokens.push_back(token); });
  std::sort(tokens.begin(), tokens.end());
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
  for (char c = 'a'; c <= 'z'; ++c) letters.ascii.set(static_cast<std::size_t>(c));
  const auto plain = trie_of(pieces)->plain(letters);
  CHECK(plain.kind() == letters);
  CHECK(up_to(plain, fd::PlainTokens::kMost) == Tokens{4});
  CHECK(behind(plain, 0, "-") == Tokens{2});
  CHECK(behind(plain, 0, "\xC3\xA9") == Tokens{6});
  CHECK(behind(plain, 1, "-r") == Tokens{3});
  CHECK(behind(plain, 1, "B") == Tokens{5});
  CHECK(behind(plain, 1, "\xC3\xA9") == Tokens{8});
  CHECK(behind(plain, 2, "-") == Tokens{0, 1});
  CHECK(behind(plain, fd::PlainTokens::kMost, "a") == Tokens{7});
}
