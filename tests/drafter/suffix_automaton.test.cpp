#include <foredraft/drafter/suffix_automaton.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::SuffixAutomaton::Settings;

Tokens proposed(fd::SuffixAutomaton& automaton, const Tokens& tokens, int depth) {
  fd::DraftTree draft;
  draft.reset(tokens.back());
  automaton.propose({tokens, {}, {}}, {depth, depth}, draft);
  CHECK(draft.is_chain());
  Tokens drafted;
  for (const fd::Node& node : draft.nodes().subspan(1)) drafted.push_back(node.token);
  return drafted;
}
Tokens proposed(const Settings& settings, const Tokens& tokens, int depth) {
  fd::SuffixAutomaton automaton(settings);
  return proposed(automaton, tokens, depth);
}

/// By looking at every earlier place, newest first.
fd::SuffixAutomatonIndex::Match longest(const Tokens& text) {
  const auto last = static_cast<int>(text.size()) - 1;
  const auto at = [&](int i) { return text[fd::idx(i)]; };
  fd::SuffixAutomatonIndex::Match best;
  for (int end = last - 1; end >= 0; --end) {
    int length = 0;
    while (length <= end && at(end - length) == at(last - length)) ++length;
    if (length > best.length) best = {length, end};
  }
  return best;
}

void grow(Tokens& text, std::mt19937& random, int n_vocab) {
  const bool copy = text.size() > 20 && random() % 2 == 0;
  std::size_t from = text.empty() ? 0 : random() % text.size();
  for (std::size_t n = 1 + random() % 6; n > 0; --n) {
    text.push_back(copy ? text[from++]
                        : static_cast<fd::TokenId>(random() % static_cast<unsigned>(n_vocab)));
  }
}

}  // namespace

TEST_CASE("the longest match of every place is found, and the newest of them") {
  std::mt19937 random(3);
  for (const int n_vocab : {2, 3, 10, 60}) {
    fd::SuffixAutomatonIndex index;
    Tokens text;
    int wrong = 0;
    for (std::size_t appended = 0; appended < 1500; ++appended) {
      if (appended == text.size()) grow(text, random, n_vocab);
      index.append(text[appended]);
      const auto match =
          longest(Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(appended) + 1));
      wrong += index.match().length != match.length;
      wrong += match.length > 0 && index.match().end != match.end;
      wrong += index.states() > 2 * index.size() || index.edges() > 3 * index.size();
    }
    CAPTURE(n_vocab);
    CHECK(wrong == 0);
    CHECK(index.size() == 1500);
  }
}

TEST_CASE("a text of one token has the greatest matches there are") {
  fd::SuffixAutomatonIndex index;
  for (int i = 0; i < 500; ++i) {
    index.append(7);
    CHECK(index.match().length == i);
    if (i > 0) CHECK(index.match().end == i - 1);
  }
}

TEST_CASE("what followed the newest of the longest matches is proposed") {
  // 1 2 3 is found twice, 9 1 2 3 once and further back.
  CHECK(proposed({}, {9, 1, 2, 3, 50, 0, 1, 2, 3, 60, 9, 1, 2, 3}, 1) == Tokens{50});
  CHECK(proposed({}, {9, 1, 2, 3, 50, 9, 1, 2, 3, 60, 9, 1, 2, 3}, 1) == Tokens{60});
  const Tokens text{1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3};
  CHECK(proposed({.tokens_per_match = 2.0}, text, 16) == Tokens{4, 5, 6, 7});
  CHECK(proposed({.tokens_per_match = 0.5}, text, 16) == Tokens{4});
  CHECK(proposed({.min_match = 3}, text, 16).empty());
  CHECK(proposed({}, text, 0).empty());
  CHECK(proposed({}, {1, 2, 3, 1, 2, 3, 1}, 8) == Tokens{2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(proposed({}, {7, 7, 7, 7}, 6) == Tokens(6, 7));
}

TEST_CASE("a longer match is a surer one") {
  fd::SuffixAutomaton automaton;
  const Tokens text{1, 2, 3, 4, 9, 2, 3};
  fd::DraftTree draft;
  draft.reset(3);
  automaton.propose({text, {}, {}}, {2, 2}, draft);
  CHECK(draft.confidence(1) == Approx(2.0 / 3));
  CHECK(draft.confidence(2) == Approx(3.0 / 4));
}

TEST_CASE("suffix automaton: a long text is searched back to its newest half at least") {
  std::mt19937 random(6);
  fd::SuffixAutomaton automaton({.min_match = 1, .max_history = 64});
  Tokens text;
  for (int i = 0; i < 2000; ++i) {
    text.push_back(static_cast<fd::TokenId>(random() % 6));
    const Tokens draft = proposed(automaton, text, 3);
    CHECK(automaton.index().size() <= 64);
    const auto held = fd::idx(automaton.index().size());
    if (text.size() > 64) CHECK(held > 32);
    const Tokens known(text.end() - static_cast<std::ptrdiff_t>(held), text.end());
    const auto match = longest(known);
    Tokens copied = known;
    Tokens expected;
    for (int n = 0; match.length > 0 && n < std::min(3, 2 * match.length); ++n) {
      expected.push_back(copied[fd::idx(match.end + 1 + n)]);
      copied.push_back(expected.back());
    }
    CHECK(draft == expected);
  }
}

TEST_CASE("suffix automaton: what was cut off is not proposed, whatever comes in its place") {
  fd::SuffixAutomaton automaton;
  CHECK(proposed(automaton, {1, 2, 3, 4, 5, 6, 1, 2}, 2) == Tokens{3, 4});
  automaton.truncate(2);
  CHECK(proposed(automaton, {1, 2, 9, 9, 7, 1, 2}, 2) == Tokens{9, 9});
  automaton.truncate(7);
  CHECK(proposed(automaton, {1, 2, 9, 9, 7, 1, 2, 9}, 1) == Tokens{9});
  automaton.restore(automaton.snapshot());
  CHECK(proposed(automaton, {5, 6, 5, 6}, 2) == Tokens{5, 6});
  automaton.reset();
  CHECK(proposed(automaton, {1, 2, 8, 1, 2}, 1) == Tokens{8});
}

TEST_CASE("settings of a suffix automaton out of range are refused") {
  for (const Settings& settings : {Settings{.min_match = 0}, Settings{.tokens_per_match = 0.0},
                                   Settings{.tokens_per_match = std::nan("")},
                                   Settings{.max_history = 1}, Settings{.max_history = 1 << 29}}) {
    CHECK_THROWS_AS(fd::SuffixAutomaton(settings), fd::Error);
  }
}
