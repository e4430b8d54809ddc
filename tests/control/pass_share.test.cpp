#include <foredraft/control/pass_share.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// A machine whose pass takes `fixed`, and `row` more for each row.
struct Machine {
  double fixed, row;
  double seconds(int rows) const { return fixed + row * rows; }
};

fd::PassShare known(const Machine& machine) {
  fd::PassShare share;
  for (int i = 0; i < 60; ++i) {
    const int rows = 1 + i * 7 % 20;
    share.learn(rows, machine.seconds(rows));
  }
  return share;
}

}  // namespace

TEST_CASE("nothing known: equal parts") {
  const fd::PassShare share;
  CHECK(share.of(1, 10, 2, 6.0) == Approx(3.0));
  CHECK(share.of(9, 10, 2, 6.0) == Approx(3.0));
  CHECK(!share.expected(3));
}

TEST_CASE("passes that are alike say nothing of rows") {
  fd::PassShare share;
  for (int i = 0; i < 100; ++i) share.learn(8, 0.1);
  CHECK(share.of(7, 8, 2, 0.1) == Approx(0.05));
  CHECK(*share.expected(3) == Approx(0.1));
}

TEST_CASE("what rows cost is paid by rows, the rest by texts") {
  const fd::PassShare share = known({.fixed = 1.0, .row = 0.1});
  // 1 + 0.1 * 10 of four texts: a quarter of 1 each, and 0.1 for each row.
  CHECK(share.of(1, 10, 4, 2.0) == Approx(0.35));
  CHECK(share.of(7, 10, 4, 2.0) == Approx(0.95));
  CHECK(share.of(1, 10, 4, 2.0) * 3 + share.of(7, 10, 4, 2.0) == Approx(2.0));
  CHECK(*share.expected(25) == Approx(3.5));
}

TEST_CASE("rows that cost nothing, rows that cost all, and clocks that say nonsense") {
  CHECK(known({.fixed = 1.0, .row = 0.0}).of(9, 10, 2, 1.0) == Approx(0.5));
  CHECK(known({.fixed = 0.0, .row = 0.1}).of(9, 10, 2, 1.0) == Approx(0.9));
  // More rows in less time: as if rows cost nothing.
  CHECK(known({.fixed = 5.0, .row = -0.1}).of(9, 10, 2, 1.0) == Approx(0.5));
  // Less than nothing for a pass without rows: as if rows cost all.
  CHECK(known({.fixed = -0.05, .row = 0.1}).of(9, 10, 2, 1.0) == Approx(0.9));
  CHECK(*known({.fixed = 0.0, .row = 0.1}).expected(30) == Approx(3.0));
  CHECK(*known({.fixed = 5.0, .row = -0.1}).expected(1000) > 0);
  fd::PassShare share = known({.fixed = 1.0, .row = 0.1});
  share.learn(0, 5.0);
  share.learn(5, 0.0);
  share.learn(5, -1.0);
  CHECK(share.of(1, 10, 4, 2.0) == Approx(0.35));
}

TEST_CASE("a machine that changes is learned again") {
  fd::PassShare share = known({.fixed = 1.0, .row = 0.0});
  const Machine now{.fixed = 0.0, .row = 0.1};
  for (int i = 0; i < 200; ++i) share.learn(1 + i * 7 % 20, now.seconds(1 + i * 7 % 20));
  CHECK(share.of(9, 10, 2, 1.0) == Approx(0.9).margin(0.01));
}
