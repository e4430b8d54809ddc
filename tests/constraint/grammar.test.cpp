#include <foredraft/constraint/grammar.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

TEST_CASE("expressions are put together to texts") {
  fd::Grammar g;
  fd::ByteSet digits;
  for (unsigned char c = '0'; c <= '9'; ++c) digits.set(c);
  const auto list = g.declare("list");
  const auto item = g.rule("item", g.repeat(g.bytes(digits), 1, 3));
  g.define(list, g.sequence({g.text("["), g.call(item),
                             g.optional(g.sequence({g.text(", "), g.call(list)})), g.text("]")}));
  g.set_root(list);
  Texts texts(g);
  CHECK(texts.accepts("[1]"));
  CHECK(texts.accepts("[1, [23, [456]]]"));
  CHECK_FALSE(texts.accepts("[1234]"));
  CHECK_FALSE(texts.accepts("[]"));
  CHECK_FALSE(texts.accepts("[1, [2]"));
  CHECK(texts.begins("[1, [2]"));
  CHECK_FALSE(texts.begins("[1]]"));
}

TEST_CASE("repetitions count") {
  for (const auto& [min, max] : {std::pair{0, 0}, {0, 1}, {2, 2}, {1, 4}, {3, -1}, {0, -1}}) {
    fd::Grammar g;
    g.set_root(g.rule("r", g.sequence({g.repeat(g.text("ab"), min, max), g.text("!")})));
    Texts texts(g);
    for (int n = 0; n < 7; ++n) {
      std::string text;
      for (int i = 0; i < n; ++i) text += "ab";
      CHECK(texts.accepts(text + "!") == (n >= min && (max < 0 || n <= max)));
      CHECK_FALSE(texts.accepts(text + "a!"));
    }
  }
}

TEST_CASE("a choice takes its texts and no other") {
  Texts texts(fd::choice_grammar({"yes", "yesterday", "no", ""}));
  for (const char* text : {"yes", "yesterday", "no", ""}) CHECK(texts.accepts(text));
  for (const char* text : {"y", "yester", "noo", "No"}) CHECK_FALSE(texts.accepts(text));
  CHECK(code_of([] { fd::choice_grammar({}); }) == fd::ErrorCode::kInvalidConstraint);
}
