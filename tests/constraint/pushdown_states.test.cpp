#include <foredraft/constraint/pushdown_states.hpp>

#include <memory>
#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {
/// Brackets in brackets.
fd::Grammar nested() {
  fd::Grammar g;
  const auto pair = g.declare("pair");
  g.define(pair, g.sequence({g.text("("), g.repeat(g.call(pair), 0), g.text(")")}));
  g.set_root(pair);
  return g;
}
}  // namespace

TEST_CASE("depth is bounded, and what is within the bound can always be closed") {
  Texts texts(nested());
  const auto depth = fd::idx(fd::Automaton::kMaxDepth);
  std::string open;
  while (texts.begins(open + "(")) open += "(";
  CHECK(open.size() > depth / 2);
  CHECK(open.size() <= depth + 2);
  CHECK(texts.accepts(open + std::string(open.size(), ')')));
}

TEST_CASE("a rule that ends with another one takes no depth") {
  fd::Grammar g;
  const auto list = g.declare("list");
  g.define(list, g.either({g.sequence({g.text("a"), g.call(list)}), g.text(".")}));
  g.set_root(list);
  Texts texts(g);
  CHECK(texts.accepts(std::string(10000, 'a') + "."));
  fd::PushdownStates states(std::make_shared<const fd::Automaton>(g));
  int state = states.start();
  for (int i = 0; i < 1000; ++i) state = states.step(state, 'a');
  CHECK(states.size() < 10);
}

TEST_CASE("equal places are one state, however they were reached") {
  fd::PushdownStates states(std::make_shared<const fd::Automaton>(nested()));
  const int open = states.step(states.start(), '(');
  const int closed = states.step(states.step(open, '('), ')');
  CHECK(states.step(closed, '(') == states.step(open, '('));
  CHECK(states.step(open, 'x') == fd::PushdownStates::kDead);
  const int end = states.step(open, ')');
  CHECK(states.may_end(end));
  CHECK(states.finished(end));
  CHECK_FALSE(states.may_end(open));
}

TEST_CASE("a state goes on alike among other states") {
  fd::PushdownStates states(std::make_shared<const fd::Automaton>(nested()));
  fd::PushdownStates fresh(std::make_shared<const fd::Automaton>(nested()));
  int state = states.start();
  for (int i = 0; i < 5; ++i) state = states.step(state, '(');
  int copy = states.copy_to(fresh, state);
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(fresh.may_end(copy));
    copy = fresh.step(copy, ')');
  }
  CHECK(fresh.finished(copy));
}

TEST_CASE("the only byte is known where there is one") {
  fd::PushdownStates states(
      std::make_shared<const fd::Automaton>(fd::choice_grammar({"abc", "abd", "ab"})));
  const int a = states.step(states.start(), 'a');
  CHECK(states.only_byte(states.start()) == 'a');
  CHECK(states.only_byte(a) == 'b');
  CHECK(states.only_byte(states.step(a, 'b')) == -1);  // c, d, or the end
}

TEST_CASE("a text that is read in thousands of ways is refused, not worked on for ever") {
  fd::Grammar g;
  const auto a = g.declare("a");
  // Catalan many ways to read a run of x.
  g.define(a, g.either({g.text("x"), g.sequence({g.text("x"), g.call(a), g.call(a)}),
                        g.sequence({g.text("x"), g.call(a), g.text("x")})}));
  g.set_root(a);
  fd::PushdownStates states(std::make_shared<const fd::Automaton>(g));
  CHECK(code_of([&] {
          int state = states.start();
          for (int i = 0; i < 400; ++i) state = states.step(state, 'x');
        }) == fd::ErrorCode::kInvalidConstraint);
}
