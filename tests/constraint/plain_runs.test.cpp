#include <foredraft/constraint/plain_runs.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include <foredraft/constraint/json_grammar.hpp>
#include <foredraft/constraint/regex.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

int run_behind(const fd::Grammar& grammar, const std::string& text,
               const fd::CharacterKind& kind = fd::CharacterKind::plain_in_json()) {
  const auto states =
      std::make_shared<fd::PushdownStates>(std::make_shared<const fd::Automaton>(grammar));
  int state = states->start();
  for (const char c : text) state = states->step(state, static_cast<unsigned char>(c));
  return fd::PlainRuns(states, kind).of(state);
}

fd::Grammar bounded_string(int most) {
  fd::Grammar g;
  fd::JsonGrammar json(g);
  g.set_root(g.rule("r", json.string(0, most)));
  return g;
}

}  // namespace

TEST_CASE("in a string so many plain characters may follow as there is room for") {
  constexpr int kMost = fd::PlainTokens::kMost;
  for (const int most : {0, 1, 5, kMost - 1, kMost, kMost + 9}) {
    CHECK(run_behind(bounded_string(most), "\"") == std::min(most, kMost));
  }
  CHECK(run_behind(bounded_string(5), "\"ab\xC3\xA9") == 2);
  CHECK(run_behind(bounded_string(5), "") == 0);                           // only a quote
  CHECK(run_behind(bounded_string(5), "\"\\") == fd::PlainRuns::kUnlike);  // in an escape
  CHECK(run_behind(bounded_string(5), "\"\xC3") == 0);                     // within a character
  CHECK(run_behind(fd::json_grammar(), "{\"a") == kMost);
}

TEST_CASE("where it matters which character comes it is not said how many may") {
  constexpr int kUnlike = fd::PlainRuns::kUnlike;
  CHECK(run_behind(fd::regex_grammar("[a-z]{3}"), "") == kUnlike);
  CHECK(run_behind(fd::regex_grammar(".{0,9}x"), "") == kUnlike);  // an x may be the last one
  CHECK(run_behind(fd::regex_grammar(".{3}"), "") == 3);
}

TEST_CASE("characters of another kind are counted where they are alike") {
  fd::CharacterKind letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.ascii.set(fd::idx(c));
  const auto run = [&](const char* pattern, const std::string& text) {
    return run_behind(fd::regex_grammar(pattern), text, letters);
  };
  CHECK(run("[a-z]{2,9}-", "") == 9);
  CHECK(run("[a-z]{2,9}-", "abc") == 6);
  CHECK(run("[a-z]{2,9}-", "abc-") == 0);
  CHECK(run("[a-z]+", "abc") == fd::PlainTokens::kMost);
  CHECK(run("[a-y]{2,9}z", "") == fd::PlainRuns::kUnlike);
  CHECK(run("[A-Za-z]{4}", "") == 4);
}
