#include <foredraft/constraint/gbnf.hpp>

#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

namespace {
std::string refusal(const std::string& grammar) {
  try {
    fd::gbnf_grammar(grammar);
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
    return error.what();
  }
  return "accepted";
}
}  // namespace

TEST_CASE("a grammar of sums, with comments and rules over several lines") {
  Texts texts(fd::gbnf_grammar(R"x(
# sums in brackets
root  ::= sum "\n"
sum   ::= term ( # a group goes on
            [+-] term
          )*
term  ::= number |
          "(" sum ")"   # or a bracket
number ::= [1-9] [0-9]{0,3} | "0"
)x"));
  for (const char* text : {"1+2\n", "(1-(20+3))\n", "0\n", "9999\n"}) CHECK(texts.accepts(text));
  for (const char* text : {"1+2", "01\n", "1++2\n", "10000\n", "(1\n"})
    CHECK_FALSE(texts.accepts(text));
}

TEST_CASE("characters, classes and escapes") {
  Texts texts(
      fd::gbnf_grammar("root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\" [^\\n\\]]+ \"\\t\" "
                       "[\\u3040-\\u309F] . [a-]\r\n"));
  CHECK(
      texts.accepts("A\xC3\xA9\xF0\x9F\x98\x80\"\\"
                    "xyz\t\xE3\x81\x82\xC3\xA9-"));
  CHECK_FALSE(
      texts.accepts("A\xC3\xA9\xF0\x9F\x98\x80\"\\"
                    "x]z\t\xE3\x81\x82\xC3\xA9-"));
}

TEST_CASE("repetitions, an empty alternative and recursion") {
  Texts texts(
      fd::gbnf_grammar("root ::= \"a\"? \"b\"{2} \"c\"{ 1, } (\"d\" | ) list\n"
                       "list ::= \"[\" (list (\",\" list)*)? \"]\" ws\n"
                       "ws ::= ([ \\t] ws)?"));
  CHECK(texts.accepts("bbc[]"));
  CHECK(texts.accepts("abbcccd[[],[[]] ]  "));
  CHECK_FALSE(texts.accepts("abc[]"));
  CHECK_FALSE(texts.accepts("bb[]"));
}

TEST_CASE("what is wrong or not supported is refused with its place") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "without a rule `root`"},
      {"root ::= other", "uses the rule `other`"},
      {"item ::= \"a\"", "without a rule `root`"},
      {"root ::= \"a\"\nroot ::= \"b\"", "second rule"},
      {"root = \"a\"", "`=`"},
      {"root ::= \"a", "without an end"},
      {"root ::= [a", "without an end"},
      {"root ::= (\"a\"", "its end"},
      {"root ::= \"a\")", "`)`"},
      {"root ::= \"\\q\"", "escape"},
      {"root ::= \"a\"{2,1}", "wrong way round"},
      {"root ::= \"a\"{x}", "without a number"},
      {"root ::= <think>", "a token"},
      {"root ::= !<[5]>", "a token"},
      {"root ::= \"\xFF\"", "UTF-8"},
      {"root ::= \"a\"\n\n::=", "line 3"},
      {"root ::= [z-a]", "range"},
  };
  for (const auto& [grammar, word] : cases) {
    INFO(grammar << ": " << refusal(grammar));
    CHECK(refusal(grammar).find(word) != std::string::npos);
  }
  CHECK(refusal("root ::= " + std::string(300, '(')).find("nested") != std::string::npos);
}
