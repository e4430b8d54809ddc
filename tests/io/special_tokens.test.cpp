#include <foredraft/io/special_tokens.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

struct Fixture {
  fd::VocabularyData data = toy::byte_level({});
  fd::TokenId start = toy::add(data, "<|a|>", fd::TokenKind::kControl);
  fd::TokenId tag = toy::add(data, "<b>", fd::TokenKind::kUserDefined);
  fd::TokenId two = toy::add(data, "\n\n", fd::TokenKind::kUserDefined);
  fd::TokenId four = toy::add(data, "\n\n\n\n", fd::TokenKind::kUserDefined);
  fd::TokenId unknown = toy::add(data, "<unk>", fd::TokenKind::kUnknown);
  fd::TokenId unused = toy::add(data, "[PAD]", fd::TokenKind::kUnused);
  fd::TokenId empty = toy::add(data, "", fd::TokenKind::kControl);
  fd::TokenId again = toy::add(data, "<b>", fd::TokenKind::kUserDefined);
  fd::Vocabulary vocabulary{data};
  fd::SpecialTokens user_defined{vocabulary, false}, all{vocabulary, true};
};

using Found = std::vector<std::pair<std::size_t, fd::TokenId>>;  // where, and what

Found in(const fd::SpecialTokens& tokens, const fd::Vocabulary& vocabulary,
         const std::string& text) {
  std::vector<fd::SpecialTokens::Found> all;
  tokens.find(text, all);
  Found found;
  for (const auto& one : all) {
    CHECK(text.substr(one.begin, one.length) == vocabulary.text(one.id));
    found.emplace_back(one.begin, one.id);
  }
  return found;
}

/// By definition: at each place the longest, and on behind it.
Found expected(const fd::Vocabulary& vocabulary, const std::vector<fd::TokenId>& ids,
               const std::string& text) {
  Found found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0;
    fd::TokenId best = -1;
    for (const fd::TokenId id : ids) {
      const auto token = vocabulary.text(id);
      if (token.size() < std::max<std::size_t>(longest, 1)) continue;
      if (text.compare(at, token.size(), token) != 0) continue;
      longest = token.size();
      best = id;  // of equal ones the last
    }
    if (longest > 0) found.emplace_back(at, best);
    at += std::max<std::size_t>(longest, 1);
  }
  return found;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "user-defined tokens are always found, names on request") {
  CHECK(in(user_defined, vocabulary, "x<|a|><unk>").empty());
  CHECK(in(all, vocabulary, "x<|a|><unk>") == Found{{1, start}, {6, unknown}});
  CHECK(in(all, vocabulary, "<|a<b>") == Found{{3, again}});
}

TEST_CASE_METHOD(Fixture, "the longest at the leftmost place is taken") {
  CHECK(in(user_defined, vocabulary, "\n\n\n") == Found{{0, two}});
  CHECK(in(user_defined, vocabulary, "\n\n\n\n\n") == Found{{0, four}});
  CHECK(in(user_defined, vocabulary, "\n\n\n\n\n\n\n") == Found{{0, four}, {4, two}});
  CHECK(in(user_defined, vocabulary, "\n<b>\n\n\n\n") == Found{{1, again}, {4, four}});
  CHECK(in(user_defined, vocabulary, "\n").empty());
}

TEST_CASE_METHOD(Fixture, "unused and empty tokens are never found") {
  for (const std::string text : {"[PAD]", "", "<b", "b>"}) {
    CHECK(in(all, vocabulary, text).empty());
  }
}

TEST_CASE("a vocabulary without special tokens has none to find") {
  const fd::Vocabulary vocabulary(toy::byte_level({}));
  CHECK(in(fd::SpecialTokens(vocabulary, true), vocabulary, "<s>").empty());
}

TEST_CASE("random tokens are found in random texts as the definition says") {
  std::mt19937 random(3);
  const auto word = [&](std::size_t longest) {
    std::string text(random() % (longest + 1), ' ');
    for (char& c : text) c = "ab\xff"[random() % 3];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    fd::VocabularyData data = toy::byte_level({});
    std::vector<fd::TokenId> ids;
    for (std::size_t n = 1 + random() % 8; ids.size() < n;) {
      ids.push_back(toy::add(data, word(6), fd::TokenKind::kUserDefined));
    }
    const fd::Vocabulary vocabulary(data);
    const fd::SpecialTokens tokens(vocabulary, false);
    const std::string text = word(60);
    CHECK(in(tokens, vocabulary, text) == expected(vocabulary, ids, text));
  }
}

TEST_CASE("a text is read once, whatever the tokens are") {
  constexpr std::size_t kBytes = 100'000;
  const auto steps = [](const std::vector<std::string>& names, const std::string& text) {
    fd::VocabularyData data = toy::byte_level({});
    for (const auto& name : names) toy::add(data, name, fd::TokenKind::kUserDefined);
    const fd::Vocabulary vocabulary(data);
    std::vector<fd::SpecialTokens::Found> found;
    return fd::SpecialTokens(vocabulary, false).find(text, found);
  };
  const std::string a(kBytes, 'a');
  CHECK(steps({a + "b"}, a) <= 2 * kBytes);
  CHECK(steps({"b" + a}, a) <= 2 * kBytes);
  CHECK(steps({a + "b", "a", "b" + a, "aa"}, a + "c" + a) <= 4 * kBytes + 2);
  std::string ab;
  while (ab.size() < kBytes) ab += "ab";
  CHECK(steps({ab + "c", "c" + ab, "b", ab + "b"}, ab) <= 2 * kBytes);
}
