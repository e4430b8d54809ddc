#include <foredraft/constraint/regex.hpp>

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

namespace {

bool matches(const std::string& pattern, const std::string& text) {
  return Texts(fd::regex_grammar(pattern)).accepts(text);
}
std::string refusal(const std::string& pattern) {
  try {
    fd::regex_grammar(pattern);
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
    return error.what();
  }
  return "accepted";
}

/// A pattern of letters, classes, groups and quantifiers.
std::string arbitrary(std::mt19937& random, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  static const char* kAtoms[] = {"a", "b", "c", ".", "[ab]", "[^a]", "[b-c]", "\\w", "\\d", "1"};
  static const char* kCounts[] = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"};
  std::string pattern;
  for (int i = 0; i <= below(3); ++i) {
    std::string atom = kAtoms[below(10)];
    if (depth > 0 && below(3) == 0) {
      atom = (below(2) == 0 ? "(" : "(?:") + arbitrary(random, depth - 1) + ")";
    }
    pattern += atom + kCounts[below(10)];
  }
  if (below(4) == 0) pattern += "|" + arbitrary(random, 0);
  return pattern;
}

}  // namespace

TEST_CASE("patterns take the texts that std::regex takes") {
  std::mt19937 random(11);
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = arbitrary(random, 2);
    INFO(pattern);
    const std::regex expected(pattern);
    Texts texts(fd::regex_grammar(pattern));
    for (int j = 0; j < 30; ++j) {
      std::string text;
      for (auto n = random() % 6; n > 0; --n) text += "abc1"[random() % 4];
      const bool match = std::regex_match(text, expected);
      taken += match;
      CHECK(texts.accepts(text) == match);
    }
  }
  CHECK(taken > 1000);
}

TEST_CASE("characters and escapes") {
  CHECK(matches("h\xC3\xA9llo", "h\xC3\xA9llo"));
  CHECK(matches("[\xC3\xA0-\xC3\xBF]", "\xC3\xA9"));
  CHECK_FALSE(matches("[\xC3\xA0-\xC3\xBF]", "\xC3\x81"));
  CHECK(matches("\\x41\\u00e9\\u{1F600}", "A\xC3\xA9\xF0\x9F\x98\x80"));
  CHECK(matches("\\.\\*\\\\\\/\\-", ".*\\/-"));
  CHECK(matches("[\\]\\-a]+", "]-a"));
  CHECK(matches("[a-]+", "a-"));
  CHECK(matches("[\\w.]+@\\S+", "a.b@c"));
  CHECK(matches("\\t\\n\\r", "\t\n\r"));
  CHECK(matches("(?<year>\\d{4})-(?P<month>\\d\\d)", "2024-05"));
  CHECK(matches("^a|b$", "b"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches(".", "\n"));
  CHECK(matches("[^]", "a"));
}

TEST_CASE("a search takes more on both sides where there is no anchor") {
  const auto found = [](const std::string& pattern, const std::string& text) {
    fd::Grammar g;
    const fd::CharacterWriter utf8 = fd::utf8_character;
    g.set_root(
        g.rule("p", fd::RegexReader::read(g, pattern, fd::RegexReader::Scope::kSearch, utf8)));
    return Texts(g).accepts(text);
  };
  CHECK(found("b", "abc"));
  CHECK_FALSE(found("^b", "abc"));
  CHECK_FALSE(found("b$", "abc"));
  CHECK(found("^a|z$", "abc"));
  CHECK(found("^a|z$", "xz"));
  CHECK_FALSE(found("^a|z$", "xa"));
}

TEST_CASE("what is not supported is refused by name") {
  const std::pair<const char*, const char*> cases[] = {{"(a)\\1", "back-reference"},
                                                       {"(?<n>a)\\k<n>", "back-reference"},
                                                       {"a(?=b)", "look-around"},
                                                       {"(?<!a)b", "look-around"},
                                                       {"\\bword", "word boundary"},
                                                       {"\\p{L}", "Unicode class"},
                                                       {"(?i)a", "flags"},
                                                       {"a++", "possessive"},
                                                       {"a^b", "inside"},
                                                       {"(a$)", "inside"},
                                                       {"*a", "behind nothing"},
                                                       {"a**", "behind another"},
                                                       {"a{2,1}", "wrong way round"},
                                                       {"a{", "without a number"},
                                                       {"(a", "group without"},
                                                       {"a)", "closes nothing"},
                                                       {"[a", "class without"},
                                                       {"[b-a]", "range"},
                                                       {"\\y", "escape"},
                                                       {"a\\", "end"},
                                                       {"\xFF", "UTF-8"},
                                                       {"\\u{110000}", "beyond"}};
  for (const auto& [pattern, word] : cases) {
    INFO(pattern << ": " << refusal(pattern));
    CHECK(refusal(pattern).find(word) != std::string::npos);
  }
  CHECK(refusal(std::string(200, '(') + std::string(200, ')')).find("nested") != std::string::npos);
}
