#include <foredraft/drafter/ngram_map_k.hpp>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

const Tokens kKey{1, 2, 3};

/// A text in which the key is followed by 10 11 12 ..., and which ends with the key.
Tokens text_with(const Tokens& key = kKey) { return joined({key, ascending(10, 30), key}); }

}  // namespace

TEST_CASE("what followed the newest occurrence is proposed, up to m tokens of it") {
  fd::NgramMapK drafter({.size_n = 3, .size_m = 20});
  CHECK(proposed(drafter, text_with(), 40) == ascending(10, 20));
  CHECK(proposed(drafter, text_with(), 4) == ascending(10, 4));
  CHECK(proposed(drafter, text_with(), 0).empty());
  CHECK(proposed(drafter, joined({text_with(), {50, 51, 52, 1, 2, 3}}), 4) ==
        Tokens{50, 51, 52, 1});
}

TEST_CASE("an n-gram proposes no more than what was right of it") {
  fd::NgramMapK drafter({.size_n = 3, .size_m = 20});
  Tokens text = text_with();
  CHECK(proposed(drafter, text, 8).size() == 8);
  commit(drafter, text, {10, 11, 70});
  proposed(drafter, text, 8);
  commit(drafter, text, joined({ascending(10, 5), kKey}));
  CHECK(proposed(drafter, text, 8) == Tokens{10, 11});
}

TEST_CASE("an n-gram whose continuation was wrong at once is not muted for good") {
  fd::NgramMapK drafter({.size_n = 3, .size_m = 20});
  Tokens text = text_with();
  CHECK(proposed(drafter, text, 8).size() == 8);
  commit(drafter, text, {70});  // wrong from the first token
  text.insert(text.end(), kKey.begin(), kKey.end());
  CHECK(proposed(drafter, text, 8).empty());
  commit(drafter, text, {70});  // it would have been right
  text.insert(text.end(), kKey.begin(), kKey.end());
  CHECK(proposed(drafter, text, 8) == Tokens{70, 1});
  commit(drafter, text, {70, 1, 2});
  text.push_back(3);
  CHECK(proposed(drafter, text, 8).size() == 6);
}

TEST_CASE("rounds without a draft teach, too") {
  fd::NgramMapK drafter({.size_n = 3, .size_m = 20});
  Tokens text = text_with();
  CHECK(proposed(drafter, text, 0).empty());
  commit(drafter, text, {10, 70});
  text.insert(text.end(), kKey.begin(), kKey.end());
  CHECK(proposed(drafter, text, 8).size() == 1);
}

TEST_CASE("k map: cuts, snapshots and resets") {
  fd::NgramMapK drafter({.size_n = 3, .size_m = 20});
  Tokens text = text_with();
  const Tokens before = text;
  proposed(drafter, text, 8);
  commit(drafter, text, {10, 70});
  CHECK(proposed(drafter, joined({text, kKey}), 8).size() == 1);
  const auto snapshot = drafter.snapshot();
  drafter.truncate(static_cast<int>(before.size()));  // the tokens that taught it are gone
  CHECK(proposed(drafter, before, 8).size() == 8);
  drafter.restore(snapshot);
  CHECK(proposed(drafter, joined({text, kKey}), 8).size() == 1);
  drafter.restore({});
  CHECK(proposed(drafter, joined({text, kKey}), 8).size() == 8);
  proposed(drafter, text, 8);
  drafter.reset();
  CHECK(proposed(drafter, text_with({4, 5, 6}), 8).size() == 8);
  CHECK_THROWS_AS(fd::NgramMapK({.size_n = 0}), fd::Error);
}

TEST_CASE("k map: a million tokens take no more memory than is said") {
  fd::NgramMapK drafter;
  const Tokens text = joined({ascending(0, 1'000'000), ascending(500, 12)});
  CHECK(proposed(drafter, text, 3) == Tokens{512, 513, 514});
  CHECK(drafter.bytes() <= 16 * text.size() + (std::size_t{48} << 10));
}
