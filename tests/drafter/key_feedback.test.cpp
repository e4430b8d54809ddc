#include <foredraft/drafter/key_feedback.hpp>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

constexpr std::uint64_t kKey = 0x1234567800000007u;

/// A key that stood for 1 2 3 4 5 ..., behind which `next` came.
void teach(fd::KeyFeedback& feedback, const Tokens& next, std::uint64_t key = kKey,
           int n_before = 10) {
  const Tokens text = ascending(1, 40);
  feedback.expect(key, n_before - 1, fd::CopiedRun(text, 0));
  Tokens before(fd::idx(n_before), 0);
  commit(feedback, before, next);
}

}  // namespace

TEST_CASE("a key proposes what was right of it the last time") {
  fd::KeyFeedback feedback(30);
  CHECK(feedback.length(kKey) == 30);
  teach(feedback, {1, 2, 3, 9});
  CHECK(feedback.length(kKey) == 3);
  CHECK(feedback.length(kKey + 1) == 30);             // another slot
  CHECK(feedback.length(kKey ^ (1ull << 60)) == 30);  // the same slot
}

TEST_CASE("a key that was wrong from its first token speaks again once it would have been right") {
  fd::KeyFeedback feedback(30);
  teach(feedback, {9});
  CHECK(feedback.length(kKey) == 0);
  teach(feedback, {8});
  CHECK(feedback.length(kKey) == 0);
  teach(feedback, {1});
  CHECK(feedback.length(kKey) == 2);
}

TEST_CASE("a key that is right to the end of a round proposes more, up to its longest") {
  fd::KeyFeedback feedback(20);
  teach(feedback, {1, 2, 9});
  CHECK(feedback.length(kKey) == 2);
  teach(feedback, {1, 2, 3});  // two drafted, and the target's own
  CHECK(feedback.length(kKey) == 6);
  teach(feedback, ascending(1, 7));
  CHECK(feedback.length(kKey) == 14);
  teach(feedback, ascending(1, 15));
  CHECK(feedback.length(kKey) == 20);
  teach(feedback, {1, 2});  // a short round says nothing against it
  CHECK(feedback.length(kKey) == 20);
  teach(feedback, joined({ascending(1, 20), {99}}));  // beyond the longest
  CHECK(feedback.length(kKey) == 20);
}

TEST_CASE("a round that was not asked about teaches nothing") {
  fd::KeyFeedback feedback(20);
  Tokens text(5, 0);
  commit(feedback, text, {9});
  const Tokens run = ascending(1, 40);
  feedback.expect(kKey, 77, fd::CopiedRun(run, 0));
  commit(feedback, text, {9});  // of another position
  commit(feedback, text, Tokens{9});
  feedback.expect(kKey, 7, fd::CopiedRun(run, 0));
  feedback.expect_nothing();
  commit(feedback, text, {9});
  CHECK(feedback.length(kKey) == 20);
}

TEST_CASE("a cut forgets what tokens behind it taught, and a snapshot brings back what was known") {
  fd::KeyFeedback feedback(20);
  teach(feedback, {1, 9}, kKey, 10);  // tokens 10 and 11
  teach(feedback, {1, 2, 9}, kKey + 1, 20);
  const auto slots = feedback.slots();
  feedback.truncate(12);
  CHECK(feedback.length(kKey) == 1);
  CHECK(feedback.length(kKey + 1) == 20);
  feedback.truncate(11);
  CHECK(feedback.length(kKey) == 20);
  feedback.restore(slots);
  CHECK(feedback.length(kKey) == 1);
  CHECK(feedback.length(kKey + 1) == 2);
  feedback.restore({});
  CHECK(feedback.length(kKey) == 20);
}

TEST_CASE("any number of keys fit into the table") {
  fd::KeyFeedback feedback(20);
  const std::size_t bytes = feedback.bytes();
  for (std::uint64_t key = 0; key < 20000; ++key)
    teach(feedback, {1, 9}, key * 0x9E3779B97F4A7C15u);
  CHECK(feedback.bytes() == bytes);
  CHECK(bytes == 4096 * 12);
}
