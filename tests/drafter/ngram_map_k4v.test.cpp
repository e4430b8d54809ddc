#include <foredraft/drafter/ngram_map_k4v.hpp>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

using Settings = fd::NgramMapK4V::Settings;
const Tokens kKey{1, 2, 3};

/// A text in which the key is followed by ten tokens from each of `values` on, and then ends with
/// the key.
Tokens followed_by(const std::vector<fd::TokenId>& values) {
  Tokens text;
  for (const fd::TokenId value : values) text = joined({text, kKey, ascending(value, 10)});
  return joined({text, kKey});
}

Tokens proposed_by(const Settings& settings, const std::vector<fd::TokenId>& values,
                   int depth = 8) {
  fd::NgramMapK4V drafter(settings);
  return proposed(drafter, followed_by(values), depth);
}

constexpr Settings kShort{.size_n = 3};

}  // namespace

TEST_CASE("the continuation of the majority is proposed, even if the newest is another one") {
  CHECK(proposed_by(kShort, {100, 100, 200}) == ascending(100, 8));
  CHECK(proposed_by(kShort, {100, 200, 100}) == ascending(100, 8));
  CHECK(proposed_by(kShort, {200, 100, 100}) == ascending(100, 8));
}

TEST_CASE("two thirds of the occurrences are needed, each of which counts once") {
  CHECK(proposed_by(kShort, {100}) == ascending(100, 8));
  CHECK(proposed_by(kShort, {100, 200}).empty());
  CHECK(proposed_by(kShort, {100, 100, 200, 300}).empty());
  CHECK(proposed_by(kShort, {100, 100, 100, 200, 200}).empty());
  CHECK(proposed_by(kShort, {100, 100, 100, 100, 200, 200}) == ascending(100, 8));
  // However often the same occurrences are looked at.
  fd::NgramMapK4V drafter(kShort);
  Tokens text = followed_by({100, 200});
  for (int i = 0; i < 5; ++i) CHECK(proposed(drafter, text, 8).empty());
  text = followed_by({100, 100, 200, 200});
  for (int i = 0; i < 5; ++i) CHECK(proposed(drafter, text, 8).empty());
}

TEST_CASE("a fifth continuation counts among the others") {
  CHECK(proposed_by(kShort, {100, 100, 100, 100, 100, 100, 200, 300, 400}).size() == 8);
  CHECK(proposed_by(kShort, {100, 100, 100, 100, 100, 100, 200, 300, 400, 500}).empty());
  CHECK(proposed_by(kShort, {500, 200, 300, 400, 100, 100, 100, 100, 100, 100}).empty());
}

TEST_CASE("continuations are alike if the tokens to be drafted are") {
  const Tokens text = joined({kKey, {7, 8, 50, 51}, kKey, {7, 8, 60, 61}, kKey});
  fd::NgramMapK4V drafter(kShort);
  CHECK(proposed(drafter, text, 2) == Tokens{7, 8});
  CHECK(proposed(drafter, text, 3).empty());
}

TEST_CASE("a majority makes surer the greater it is") {
  fd::NgramMapK4V drafter(kShort);
  const float all = draft_of(drafter, followed_by({100, 100, 100, 100}), 4).confidence(1);
  drafter.reset();
  const float most = draft_of(drafter, followed_by({200, 100, 100, 100}), 4).confidence(1);
  CHECK(most == Approx(0.75f * all).epsilon(0.02));  // the match is a bit shorter, too
}

TEST_CASE("hits and places are bounded") {
  CHECK(proposed_by({.size_n = 3, .min_hits = 3}, {100, 100}).empty());
  CHECK(proposed_by({.size_n = 3, .min_hits = 3}, {100, 100, 100}).size() == 8);
  CHECK(proposed_by({.size_n = 3, .max_places = 2}, {200, 200, 100, 100}) == ascending(100, 8));
  CHECK(proposed_by({.size_n = 3, .size_m = 4}, {100}) == ascending(100, 4));
  for (const Settings& settings :
       {Settings{.size_n = 0}, Settings{.size_m = 64}, Settings{.min_hits = 0},
        Settings{.min_hits = 3, .max_places = 2}}) {
    CHECK_THROWS_AS(fd::NgramMapK4V(settings), fd::Error);
  }
}

TEST_CASE("a continuation proposes no more than what was right of it, and is not muted for good") {
  fd::NgramMapK4V drafter(kShort);
  Tokens text = followed_by({100, 100});
  CHECK(proposed(drafter, text, 8).size() == 8);
  commit(drafter, text, {900});
  text = joined({text, kKey});
  CHECK(proposed(drafter, text, 8).empty());  // 2 of 3 for it, but it was wrong
  commit(drafter, text, {100, 101, 902});
  text = joined({text, kKey, ascending(100, 10), kKey, ascending(100, 10), kKey});
  CHECK(proposed(drafter, text, 8) == Tokens{100, 101});  // 4 of 6
}

TEST_CASE("k4v map: cuts, snapshots and resets") {
  fd::NgramMapK4V drafter(kShort);
  Tokens text = followed_by({100, 100});
  const Tokens before = text;
  proposed(drafter, text, 8);
  commit(drafter, text, {100, 901});
  text = joined({text, kKey});
  CHECK(proposed(drafter, text, 2) == Tokens{100});
  const auto snapshot = drafter.snapshot();
  drafter.truncate(static_cast<int>(before.size()));
  CHECK(proposed(drafter, before, 8).size() == 8);
  drafter.restore(snapshot);
  CHECK(proposed(drafter, text, 2) == Tokens{100});
  drafter.reset();
  CHECK(proposed(drafter, followed_by({300}), 2) == Tokens{300, 301});
}

TEST_CASE("k4v map: a million tokens take no more memory than is said") {
  fd::NgramMapK4V drafter;
  const Tokens text = joined({ascending(0, 1'000'000), ascending(500, 12)});
  CHECK(proposed(drafter, text, 3) == Tokens{512, 513, 514});
  CHECK(drafter.bytes() <= 16 * text.size() + (std::size_t{48} << 10));
}
