#include <foredraft/drafter/prompt_lookup.hpp>

#include <random>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::PromptLookup::Settings;

Tokens proposed(fd::PromptLookup& lookup, const Tokens& tokens, int depth) {
  fd::DraftTree draft;
  draft.reset(tokens.back());
  lookup.propose({tokens, {}, {}}, {depth, depth}, draft);
  CHECK(draft.is_chain());
  Tokens drafted;
  for (const fd::Node& node : draft.nodes().subspan(1)) drafted.push_back(node.token);
  return drafted;
}

Tokens proposed(const Settings& settings, const Tokens& tokens, int depth) {
  fd::PromptLookup lookup(settings);
  return proposed(lookup, tokens, depth);
}

/// The same by looking at every earlier place of the first `n_final` tokens.
Tokens by_brute_force(const Settings& settings, const Tokens& tokens, int depth, int n_final) {
  const auto last = static_cast<int>(tokens.size()) - 1;
  const auto at = [&](int i) { return tokens[fd::idx(i)]; };
  int longest = 0;
  int next = 0;
  for (int end = n_final - 2; end >= 0; --end) {  // newest first
    int length = 0;
    while (length < settings.max_match && length <= end && at(end - length) == at(last - length))
      ++length;
    if (length > longest) {
      longest = length;
      next = end + 1;
    }
  }
  if (longest < settings.min_match) return {};
  Tokens text = tokens;
  Tokens drafted;
  const int n = std::min(depth, static_cast<int>(longest * settings.tokens_per_match));
  for (int i = 0; i < n; ++i) {
    drafted.push_back(text[fd::idx(next + i)]);
    text.push_back(drafted.back());
  }
  return drafted;
}
Tokens by_brute_force(const Settings& settings, const Tokens& tokens, int depth) {
  return by_brute_force(settings, tokens, depth, static_cast<int>(tokens.size()));
}

}  // namespace

TEST_CASE("the longest match wins, and the newest of equally long ones") {
  // 1 2 3 is found twice, 9 1 2 3 once and further back.
  CHECK(proposed({}, {9, 1, 2, 3, 50, 0, 1, 2, 3, 60, 9, 1, 2, 3}, 1) == Tokens{50});
  CHECK(proposed({}, {9, 1, 2, 3, 50, 9, 1, 2, 3, 60, 9, 1, 2, 3}, 1) == Tokens{60});
}

TEST_CASE("behind tokens that are assumed it drafts as if they were the text's") {
  std::mt19937 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    Tokens text;
    for (int i = 0; i < 30; ++i) text.push_back(static_cast<fd::TokenId>(random() % 3));
    fd::PromptLookup lookup;
    for (std::size_t n = 1; n < text.size(); n += 7) {
      const Tokens final(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
      const Tokens assumed(text.begin() + static_cast<std::ptrdiff_t>(n), text.end());
      fd::DraftTree draft;
      draft.reset(assumed.back());
      lookup.propose({final, assumed, {}}, {9, 9}, draft);
      Tokens drafted;
      for (const fd::Node& node : draft.nodes().subspan(1)) drafted.push_back(node.token);
      CHECK(drafted == by_brute_force({}, text, 9, static_cast<int>(n)));
      // And nothing of it stays.
      CHECK(proposed(lookup, final, 9) == by_brute_force({}, final, 9));
    }
  }
  fd::PromptLookup lookup;
  const Tokens final{1, 2, 3, 4, 5, 6};
  const Tokens assumed{2, 3};
  fd::DraftTree draft;
  draft.reset(3);
  lookup.propose({final, assumed, {}}, {9, 9}, draft);
  REQUIRE(draft.drafted() == 4);
  for (fd::NodeIndex node = 1; node <= 3; ++node) CHECK(draft.token(node) == 3 + node);
  CHECK(draft.token(4) == 2);  // behind the final tokens come those that are assumed
  CHECK(draft.confidence(2) > draft.confidence(1));
}

TEST_CASE("a match shorter than min_match is none") {
  const Tokens text{1, 2, 7, 8, 5, 2};
  CHECK(proposed({.min_match = 2}, text, 4).empty());
  CHECK(proposed({.min_match = 1}, text, 4) == Tokens{7, 8});
  CHECK(proposed({.min_match = 1}, {4}, 4).empty());
  CHECK(proposed({.min_match = 3}, {4, 4}, 4).empty());
}

TEST_CASE("a repetition is drafted beyond the end of the text") {
  CHECK(proposed({}, {1, 2, 3, 1, 2, 3, 1}, 8) == Tokens{2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(proposed({}, {7, 7, 7, 7}, 6) == Tokens(6, 7));
}

TEST_CASE("a longer match carries a longer draft") {
  const Tokens text{1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3};
  CHECK(proposed({.tokens_per_match = 2.0}, text, 16) == Tokens{4, 5, 6, 7});
  CHECK(proposed({.tokens_per_match = 0.5}, text, 16) == Tokens{4});
  CHECK(proposed({.tokens_per_match = 1e300}, text, 5) == Tokens{4, 5, 6, 7, 8});
  CHECK(proposed({}, text, 3) == Tokens{4, 5, 6});
  CHECK(proposed({}, text, 0).empty());
}

TEST_CASE("histories of any kind: as if every place had been looked at") {
  std::mt19937 random(2);
  for (const int n_vocab : {2, 5, 40}) {
    for (const Settings& settings :
         {Settings{}, Settings{.min_match = 1, .max_match = 4, .max_candidates = 1 << 20},
          Settings{.min_match = 3, .max_match = 9, .max_candidates = 1 << 20}}) {
      Settings all = settings;
      all.max_candidates = 1 << 20;  // the oracle has no such limit
      fd::PromptLookup lookup(all);
      Tokens text{0};
      int found = 0;
      int wrong = 0;
      for (int i = 0; i < 400; ++i) {
        // A text that sometimes repeats itself, grows by several tokens and is cut back now and
        // then.
        const bool copy = text.size() > 20 && random() % 2 == 0;
        std::size_t from = random() % text.size();
        for (std::size_t n = 1 + random() % 6; n > 0; --n) {
          text.push_back(copy
                             ? text[from++]
                             : static_cast<fd::TokenId>(random() % static_cast<unsigned>(n_vocab)));
        }
        if (random() % 40 == 0) {
          text.resize(1 + random() % text.size());
          lookup.truncate(static_cast<int>(text.size()) - static_cast<int>(random() % 2));
        }
        const Tokens draft = proposed(lookup, text, 12);
        wrong += draft != by_brute_force(all, text, 12);
        found += !draft.empty();
      }
      CHECK(wrong == 0);
      CHECK(found > 20);
    }
  }
}

TEST_CASE("the newest candidates are looked at where there are too many") {
  // 200 places end in 1 2; only the oldest is preceded by 9.
  Tokens text{9, 1, 2, 70};
  for (int i = 0; i < 200; ++i) text.insert(text.end(), {8, 1, 2, 60});
  text.insert(text.end(), {9, 1, 2});
  CHECK(proposed({.max_candidates = 64}, text, 1) == Tokens{60});
  CHECK(proposed({.max_candidates = 1000}, text, 1) == Tokens{70});
}

TEST_CASE("a history longer than the table of hashes is searched to its beginning") {
  Tokens text{1, 2, 3, 4, 5};
  for (int i = 0; i < 70000; ++i) text.push_back(100 + i);  // no two tokens alike
  text.insert(text.end(), {2, 3, 4});
  CHECK(proposed({.max_candidates = 1000}, text, 4) == Tokens{5, 100, 101, 102});
}

TEST_CASE("prompt lookup: what was cut off is not proposed, whatever comes in its place") {
  fd::PromptLookup lookup;
  CHECK(proposed(lookup, {1, 2, 3, 4, 5, 6, 1, 2}, 2) == Tokens{3, 4});
  lookup.truncate(2);
  CHECK(proposed(lookup, {1, 2, 9, 9, 7, 1, 2}, 2) == Tokens{9, 9});
  const auto snapshot = lookup.snapshot();
  CHECK(proposed(lookup, {1, 2, 9, 9, 7, 1, 2, 8, 8, 2, 8}, 1) == Tokens{8});
  lookup.restore(snapshot);
  CHECK(proposed(lookup, {1, 2, 9, 9, 7, 1, 2, 4, 2}, 2).empty());
  lookup.reset();
  CHECK(proposed(lookup, {5, 6, 5, 6}, 2) == Tokens{5, 6});
}

TEST_CASE("prompt lookup: settings out of range are refused") {
  for (const Settings& settings :
       {Settings{.min_match = 0}, Settings{.min_match = 5, .max_match = 4},
        Settings{.max_match = 1025}, Settings{.min_match = 1'000'000, .max_match = 1'000'000},
        Settings{.max_candidates = 0}, Settings{.tokens_per_match = 0.0},
        Settings{.tokens_per_match = std::nan("")}}) {
    CHECK_THROWS_AS(fd::PromptLookup(settings), fd::Error);
  }
  CHECK(proposed({.min_match = 1024, .max_match = 1024}, Tokens(3000, 7), 2) == Tokens{7, 7});
}

TEST_CASE("a place that only shares a bucket with the text's end is no match") {
  // 20000 pairs before the same token fill most buckets.
  constexpr fd::TokenId kSame = 1 << 20;
  Tokens tokens;
  for (fd::TokenId i = 0; i < 20000; ++i) tokens.insert(tokens.end(), {i, kSame});
  for (fd::TokenId unknown = 20000; unknown < 20020; ++unknown) {
    tokens.insert(tokens.end(), {unknown, kSame});
    CHECK(proposed(Settings{}, tokens, 4).empty());
  }
}
