#include <foredraft/constraint/json_grammar.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

TEST_CASE("plain JSON") {
  Texts texts(fd::json_grammar());
  for (const char* text :
       {"null", "-0.5e+10", "[]", "[ ]", "{\"a\": [1, true, \"\\u00e9\\n\"],\n  \"b\":{}}",
        "\"\xC3\xA9\\ud83d\\ude00\"", "[[[[1]]]]", "{ }"}) {
    INFO(text);
    CHECK(texts.accepts(text));
  }
  for (const char* text : {"01", "[1,]", "{\"a\"}", "{a:1}", "\"\\x\"", "\"\n\"", "'a'", "1.", ".5",
                           "\"\\ud800\"", "[1}", "nul", "\"\xFF\"", ""}) {
    INFO(text);
    CHECK_FALSE(texts.accepts(text));
  }
  CHECK_FALSE(texts.begins("[" + std::string(3, ' ')));  // blanks come to an end
  CHECK_FALSE(texts.begins(std::string(20, '1')));
}

TEST_CASE("an object, and nothing else") {
  Texts texts(fd::json_grammar(true));
  CHECK(texts.accepts("{\"a\": 1}"));
  CHECK_FALSE(texts.begins("["));
}

TEST_CASE("strings count characters, not bytes") {
  fd::Grammar g;
  fd::JsonGrammar json(g);
  g.set_root(g.rule("s", json.string(2, 3)));
  Texts texts(g);
  CHECK(texts.accepts("\"\xC3\xA9\xC3\xA9\""));
  CHECK(texts.accepts("\"\\n\\ud83d\\ude00\\u0041\""));
  CHECK_FALSE(texts.accepts("\"a\""));
  CHECK_FALSE(texts.accepts("\"abcd\""));
}
