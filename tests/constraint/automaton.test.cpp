#include <foredraft/constraint/automaton.hpp>

#include <string>
#include <vector>

#include <foredraft/constraint/regex.hpp>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {
std::string message_of(const fd::Grammar& g) {
  try {
    fd::Automaton{g};
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
    return error.what();
  }
  return {};
}
bool mentions(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}
}  // namespace

TEST_CASE(
    "a rule that begins with itself is refused by name, hidden behind what may be empty too") {
  fd::Grammar g;
  const auto list = g.declare("list");
  g.define(list, g.either({g.sequence({g.call(list), g.text("a")}), g.text("a")}));
  g.set_root(list);
  CHECK(mentions(message_of(g), "list"));

  fd::Grammar hidden;
  const auto a = hidden.declare("a");
  const auto b = hidden.declare("b");
  const auto space = hidden.rule("space", hidden.repeat(hidden.text(" "), 0));
  hidden.define(a, hidden.sequence({hidden.call(space), hidden.call(b), hidden.text("x")}));
  hidden.define(b, hidden.either({hidden.call(a), hidden.text("y")}));
  hidden.set_root(a);
  CHECK(mentions(message_of(hidden), "begins with itself"));
}

TEST_CASE("a grammar without a text is refused, one with a rule without a text is not") {
  fd::Grammar g;
  const auto endless = g.declare("endless");
  g.define(endless, g.sequence({g.text("("), g.call(endless)}));
  g.set_root(endless);
  CHECK(mentions(message_of(g), "no text can satisfy"));
  g.set_root(g.rule("either", g.either({g.call(endless), g.text("x")})));
  CHECK(message_of(g).empty());
  Texts texts(g);
  CHECK(texts.accepts("x"));
  CHECK_FALSE(texts.begins("("));  // it could never come to an end
  g.set_root(g.rule("never", g.either({})));
  CHECK(mentions(message_of(g), "no text can satisfy"));
  g.set_root(g.rule("no byte", g.bytes({})));
  CHECK(mentions(message_of(g), "no text can satisfy"));
}

TEST_CASE("a rule that is not defined, and repetitions without bounds for memory, are refused") {
  fd::Grammar g;
  g.set_root(g.declare("nowhere"));
  CHECK(mentions(message_of(g), "nowhere"));
  fd::Grammar large;
  large.set_root(large.rule("r", large.repeat(large.text("a"), 0, 1 << 30)));
  CHECK(mentions(message_of(large), "more than"));
}

TEST_CASE("repetitions of repetitions take the sum of states, not the product") {
  fd::Grammar g;
  auto part = g.text("ab");
  for (int i = 0; i < 5; ++i) part = g.repeat(part, 0, 1000);
  g.set_root(g.rule("r", g.sequence({part, g.text("!")})));
  CHECK(message_of(g).empty());
}

TEST_CASE("bytes that nothing tells apart are of one class") {
  fd::Grammar g;
  fd::ByteSet low;
  for (int byte = 0; byte < 128; ++byte) low.set(fd::idx(byte));
  g.set_root(g.rule("r", g.sequence({g.bytes(low), g.text("a")})));
  const fd::Automaton automaton(g);
  CHECK(automaton.classes() == 3);
  CHECK(automaton.class_of('b') == automaton.class_of(0));
  CHECK(automaton.class_of('a') != automaton.class_of('b'));
  CHECK(automaton.members(automaton.class_of('a')) == 1);
  CHECK(automaton.first_member(automaton.class_of('a')) == 'a');
  CHECK(automaton.members(automaton.class_of(200)) == 128);
}

TEST_CASE("kinds of characters that are counted, if they are many") {
  const auto counted = [](const char* pattern) {
    return fd::Automaton(fd::regex_grammar(pattern)).counted();
  };
  const auto letters = counted("[a-z]{2,40}-[a-z]{8}");
  REQUIRE(letters.size() == 1);
  CHECK(letters[0].ascii.count() == 26);
  CHECK_FALSE(letters[0].beyond);
  const auto most = counted("[^x]{0,9}");
  REQUIRE(most.size() == 1);
  CHECK(most[0].beyond);
  CHECK(counted("[a-z]{3}[0-9]{40}[a-z]+").empty());
}
