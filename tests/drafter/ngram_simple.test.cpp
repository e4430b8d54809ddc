#include <foredraft/drafter/ngram_simple.hpp>

#include <random>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

TEST_CASE("what followed the newest occurrence of n tokens is proposed") {
  fd::NgramSimple drafter({.size_n = 3, .size_m = 5});
  const Tokens text{1, 2, 3, 40, 41, 1, 2, 3, 50, 51, 52, 53, 54, 55, 1, 2, 3};
  CHECK(proposed(drafter, text, 8) == Tokens{50, 51, 52, 53, 54});
  CHECK(proposed(drafter, text, 2) == Tokens{50, 51});
  CHECK(proposed(drafter, text, 0).empty());
  CHECK(drafter.max_depth() == 5);
}

TEST_CASE("fewer than n equal tokens are no match") {
  fd::NgramSimple drafter({.size_n = 3});
  CHECK(proposed(drafter, {9, 2, 3, 4, 8, 2, 3}, 4).empty());
  CHECK(proposed(drafter, {2, 3}, 4).empty());
}

TEST_CASE("an occurrence at the very beginning counts") {
  fd::NgramSimple drafter({.size_n = 3});
  CHECK(proposed(drafter, {1, 2, 3, 4, 5, 1, 2, 3}, 2) == Tokens{4, 5});
}

TEST_CASE("a repetition shorter than n is drafted, to any length") {
  fd::NgramSimple drafter;  // 12 tokens
  Tokens text;
  for (int i = 0; i < 20; ++i) text.push_back(i % 3);
  CHECK(proposed(drafter, text, 6) == Tokens{2, 0, 1, 2, 0, 1});
}

TEST_CASE("a longer match makes surer") {
  const Tokens words = ascending(100, 30);
  fd::NgramSimple drafter({.size_n = 2});
  const auto confidence = [&](int match) {
    drafter.reset();
    return draft_of(drafter,
                    joined({words, {1}, Tokens(words.end() - 12, words.end() - 12 + match)}), 2)
        .confidence(1);
  };
  CHECK(confidence(3) > confidence(2));
  CHECK(confidence(8) > confidence(3));
}

TEST_CASE("n-gram simple: what was cut off is not proposed, whatever comes in its place") {
  fd::NgramSimple drafter({.size_n = 2});
  CHECK(proposed(drafter, {1, 2, 3, 4, 5, 6, 1, 2}, 2) == Tokens{3, 4});
  drafter.truncate(2);
  CHECK(proposed(drafter, {1, 2, 9, 9, 7, 1, 2}, 2) == Tokens{9, 9});
  const auto snapshot = drafter.snapshot();
  CHECK(proposed(drafter, {1, 2, 9, 9, 7, 1, 2, 8, 8, 1, 2}, 1) == Tokens{8});
  drafter.restore(snapshot);
  CHECK(proposed(drafter, {5, 6, 7, 5, 6}, 1) == Tokens{7});
  drafter.reset();
  CHECK(proposed(drafter, {1, 2, 4, 4, 1, 2}, 2) == Tokens{4, 4});
}

TEST_CASE("n-gram simple: settings out of range are refused") {
  for (const fd::NgramSettings& settings :
       {fd::NgramSettings{.size_n = 0}, fd::NgramSettings{.size_n = 1025},
        fd::NgramSettings{.size_m = 0}, fd::NgramSettings{.size_m = 64}}) {
    CHECK_THROWS_AS(fd::NgramSimple(settings), fd::Error);
  }
}

TEST_CASE("n-gram simple: a million tokens take no more memory than is said") {
  fd::NgramSimple drafter;
  const Tokens text = joined({ascending(0, 1'000'000), ascending(500, 12)});
  CHECK(proposed(drafter, text, 3) == Tokens{512, 513, 514});
  CHECK(drafter.bytes() <= 16 * text.size());
}
