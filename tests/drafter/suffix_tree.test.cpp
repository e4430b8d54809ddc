#include <foredraft/drafter/suffix_tree.hpp>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Locus = fd::SuffixTree::Locus;

/// Every string of up to `depth` tokens in some texts, counted one by one.
struct Counted {
  struct Count {
    int count = 0;
    int newest = 0;     // where its last occurrence ends
    int followers = 0;  // strings longer by one
  };
  Counted(const std::deque<Tokens>& texts, int depth) {
    int place = 0;
    for (const Tokens& text : texts) {
      for (std::size_t end = 1; end <= text.size(); ++end, ++place) {
        for (std::size_t n = 1; n <= std::min(end, fd::idx(depth)); ++n) {
          Tokens string(text.begin() + static_cast<std::ptrdiff_t>(end - n),
                        text.begin() + static_cast<std::ptrdiff_t>(end));
          Count& count = of[string];
          string.pop_back();
          if (count.count == 0 && n > 1) ++of[string].followers;
          ++count.count;
          count.newest = place;
        }
      }
    }
  }
  std::map<Tokens, Count> of;
};

Tokens last(const Tokens& text, int n) { return Tokens(text.end() - n, text.end()); }

/// What the tree says of a string, and what follows it.
int disagreements(const fd::SuffixTree& tree, const Counted& truth, const Tokens& string, Locus at,
                  bool by_age) {
  int wrong = tree.count(at) != truth.of.at(string).count;
  Tokens longer = string;
  longer.push_back(0);
  int found = 0;
  std::pair before{1 << 30, 0};
  tree.continuations(at, [&](fd::TokenId token, Locus next, int count) {
    longer.back() = token;
    const auto place = truth.of.find(longer);
    wrong += place == truth.of.end() || place->second.count != count || tree.count(next) != count;
    if (place != truth.of.end()) {
      const std::pair now{count, by_age ? place->second.newest : 0};
      wrong += now > before;
      before = now;
    }
    ++found;
    return true;
  });
  return wrong + (found != truth.of.at(string).followers);
}

/// All strings, searched from the root.
int disagreements(const fd::SuffixTree& tree, const Counted& truth, bool by_age) {
  int wrong = 0;
  for (const auto& [string, count] : truth.of) {
    Locus at;
    for (const fd::TokenId token : string) wrong += !tree.follow(at, token);
    if (wrong > 0) return wrong;
    wrong += disagreements(tree, truth, string, at, by_age);
  }
  return wrong;
}

/// A text that sometimes repeats itself.
void grow(Tokens& text, std::mt19937& random, int n_vocab) {
  const bool copy = text.size() > 8 && random() % 2 == 0;
  std::size_t from = text.empty() ? 0 : random() % text.size();
  for (std::size_t n = 1 + random() % 8; n > 0; --n) {
    text.push_back(copy ? text[from++]
                        : static_cast<fd::TokenId>(random() % static_cast<unsigned>(n_vocab)));
  }
}

}  // namespace

TEST_CASE("a growing text: matches, counts and continuations are those of all its strings") {
  std::mt19937 random(3);
  for (const int n_vocab : {1, 2, 5, 40}) {
    for (const int depth : {2, 5, 24, 64}) {
      CAPTURE(n_vocab, depth);
      fd::SuffixTree tree(depth, 1000);
      Tokens text;
      int wrong = 0;
      int matches = 0;
      for (std::size_t appended = 0; appended < 80; ++appended) {
        if (appended == text.size()) grow(text, random, n_vocab);
        tree.append(text[appended]);
        const Tokens now(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(appended + 1));
        const Counted truth({now}, depth);
        int longest = 0;
        for (int n = 1; n < std::min(depth, static_cast<int>(now.size()) + 1); ++n) {
          if (truth.of.at(last(now, n)).count > 1) longest = n;
        }
        wrong += tree.longest_match() != longest;
        for (int n = 1; n <= tree.longest_match(); ++n) {
          wrong += disagreements(tree, truth, last(now, n), tree.match(n), true);
          ++matches;
        }
        if (appended % 40 == 0) wrong += disagreements(tree, truth, true);
        CHECK(tree.nodes() <= 2 * tree.size() + 1);
      }
      CHECK(wrong == 0);
      CHECK(matches > 20);
    }
  }
}

TEST_CASE("texts that come and go leave the strings of those that are there") {
  std::mt19937 random(5);
  for (const int n_vocab : {2, 6, 30}) {
    for (const int depth : {2, 6, 30}) {
      CAPTURE(n_vocab, depth);
      fd::SuffixTree tree(depth, 400);  // a ring that is gone round often
      std::deque<Tokens> texts;
      std::deque<std::uint32_t> begins;
      Tokens source;
      int wrong = 0;
      for (int round = 0; round < 60; ++round) {
        grow(source, random, n_vocab);
        const std::size_t from = random() % source.size();
        Tokens text(source.begin() + static_cast<std::ptrdiff_t>(from), source.end());
        if (text.size() > 60) text.resize(1 + random() % 60);
        while (tree.size() + static_cast<int>(text.size()) > 400 || random() % 8 == 0) {
          if (texts.empty()) break;
          tree.remove(begins.front(), static_cast<int>(texts.front().size()));
          texts.pop_front();
          begins.pop_front();
          wrong += disagreements(tree, Counted(texts, depth), false);
        }
        for (const fd::TokenId token : text) tree.append(token);
        texts.push_back(text);
        begins.push_back(tree.close());
        wrong += disagreements(tree, Counted(texts, depth), false);
        CHECK(tree.nodes() <= 2 * tree.size() + 1);
      }
      CHECK(wrong == 0);
      while (!texts.empty()) {
        tree.remove(begins.front(), static_cast<int>(texts.front().size()));
        texts.pop_front();
        begins.pop_front();
      }
      CHECK(tree.nodes() == 1);  // the root
      CHECK(tree.size() == 0);
    }
  }
}

TEST_CASE("a tree that is full says so, and is as it was") {
  fd::SuffixTree tree(4, 3);
  for (const fd::TokenId token : {1, 2, 1}) tree.append(token);
  CHECK_THROWS_AS(tree.append(2), fd::Error);
  CHECK(tree.size() == 3);
  CHECK(tree.longest_match() == 1);
  CHECK(tree.count(tree.match(1)) == 2);
  tree.clear();
  CHECK(tree.longest_match() == 0);
  tree.append(7);
  CHECK(tree.size() == 1);
  for (const auto& [depth, capacity] : {std::pair{1, 5}, {65, 5}, {4, 0}, {4, 1 << 29}}) {
    CHECK_THROWS_AS(fd::SuffixTree(depth, capacity), fd::Error);
  }
}

TEST_CASE("memory is bounded by the tokens held") {
  fd::SuffixTree tree(24, 1 << 14);
  std::mt19937 random(1);
  for (int i = 0; i < 1 << 14; ++i) tree.append(static_cast<fd::TokenId>(random() % 500));
  CHECK(tree.bytes() <= 136 * fd::idx(tree.nodes()) + 8 * (1 << 14));
}
