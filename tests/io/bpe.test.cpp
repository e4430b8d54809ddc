#include <foredraft/io/bpe.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

Tokens encode(const fd::Vocabulary& vocabulary, std::string_view word) {
  fd::BytePairEncoder::Workspace work;
  Tokens out;
  fd::BytePairEncoder(vocabulary).encode(word, work, out);
  return out;
}

/// The definition, read aloud: find the lowest rank, merge its leftmost place, begin again.
Tokens by_definition(const fd::Vocabulary& vocabulary, std::string_view word) {
  Tokens tokens;
  for (const char c : word) tokens.push_back(*vocabulary.byte_token(static_cast<unsigned char>(c)));
  while (true) {
    const fd::Merge* best = nullptr;
    std::size_t place = 0;
    for (const fd::Merge& merge : vocabulary.merges()) {
      for (std::size_t i = 0; i + 1 < tokens.size() && best == nullptr; ++i) {
        if (tokens[i] == merge.left && tokens[i + 1] == merge.right) {
          best = &merge;
          place = i;
        }
      }
    }
    if (best == nullptr) return tokens;
    tokens[place] = best->result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace

TEST_CASE("the lowest rank merges first") {
  // 256 bc, 257 ab, 258 abc, 259 abcd
  const fd::Vocabulary vocabulary(toy::byte_level({"b c", "a b", "ab c", "abc d"}));
  CHECK(encode(vocabulary, "abc") == Tokens{'a', 256});
  CHECK(encode(vocabulary, "ab") == Tokens{257});
  CHECK(encode(vocabulary, "abab") == Tokens{257, 257});
  CHECK(encode(vocabulary, "") == Tokens{});
  CHECK(encode(vocabulary, "\xFFz") == Tokens{0xFF, 'z'});
}

TEST_CASE("of equal ranks the leftmost merges first") {
  const fd::Vocabulary vocabulary(toy::byte_level({"a a", "aa aa"}));  // 256, 257
  CHECK(encode(vocabulary, "aaa") == Tokens{256, 'a'});
  CHECK(encode(vocabulary, "aaaaa") == Tokens{257, 'a'});
  CHECK(encode(vocabulary, "aaaaaaa") == Tokens{257, 256, 'a'});
}

TEST_CASE("of two rules for one pair the first stands") {
  auto data = toy::byte_level({"a b", "c d"});
  data.merges.push_back("a b");
  CHECK(encode(fd::Vocabulary(data), "abcd") == Tokens{256, 257});
}

TEST_CASE("bytes without a token are left out") {
  auto data = toy::byte_level({"a b"});
  data.texts[0xC0] = "gone";
  const fd::Vocabulary vocabulary(data);
  CHECK(encode(vocabulary,
               "a\xC0"
               "b\xC0") == Tokens{256});
  CHECK(encode(vocabulary, "\xC0") == Tokens{});
}

TEST_CASE("any word over any merges comes out as the definition says") {
  std::uint32_t state = 7;
  const auto random = [&state](std::size_t n) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % n;
  };
  for (int round = 0; round < 200; ++round) {
    // Random rules over parts that exist: letters, and results of earlier rules.
    std::vector<std::string> parts = {"a", "b", "c"}, merges;
    std::map<std::string, bool> made;
    while (merges.size() < 12) {
      const std::string left = parts[random(parts.size())], right = parts[random(parts.size())];
      if (left.size() + right.size() > 8 || made[left + right]) continue;
      made[left + right] = true;
      parts.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    const fd::Vocabulary vocabulary(toy::byte_level(merges));
    std::string word;
    for (std::size_t i = random(30); i > 0; --i) word += static_cast<char>('a' + random(3));
    INFO(word);
    CHECK(encode(vocabulary, word) == by_definition(vocabulary, word));
  }
}

TEST_CASE("a word of a million bytes is merged") {
  const fd::Vocabulary vocabulary(toy::byte_level({"a a", "aa aa", "aaaa aaaa"}));
  CHECK(encode(vocabulary, std::string(1 << 20, 'a')) == Tokens(1 << 17, 258));
}
