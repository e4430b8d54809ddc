#include <foredraft/backend/cpu/share.hpp>

#include "support/catch.hpp"

namespace cpu = foredraft::cpu;

TEST_CASE("equal shares cover everything once") {
  for (const int n : {0, 1, 7, 64}) {
    for (int workers = 1; workers <= 9; ++workers) {
      int next = 0;
      for (int worker = 0; worker < workers; ++worker) {
        const cpu::Range r = cpu::share(n, worker, workers);
        CHECK(r.begin == next);
        CHECK(r.size() <= n / workers + 1);
        next = r.end;
      }
      CHECK(next == n);
    }
  }
}

TEST_CASE("weighted shares cover every run once, in order, and about equally") {
  cpu::WeightedShare<3> shares;
  const int n[] = {14, 2, 5};
  const int unit[] = {100, 100, 146};
  for (int run = 0; run < 3; ++run) shares.add(n[run], unit[run]);
  for (int workers = 1; workers <= 30; ++workers) {
    int next[3] = {};
    for (int worker = 0; worker < workers; ++worker) {
      int sum = 0;
      for (int run = 0; run < 3; ++run) {
        const cpu::Range r = shares.of(run, worker, workers);
        CHECK(r.begin == next[run]);
        CHECK(r.size() >= 0);
        next[run] = r.end;
        sum += r.size() * unit[run];
      }
      CHECK(sum <= (14 * 100 + 2 * 100 + 5 * 146) / workers + 146);
    }
    for (int run = 0; run < 3; ++run) CHECK(next[run] == n[run]);
  }
}

TEST_CASE("shares that leave workers idle are not balanced") {
  cpu::WeightedShare<1> shares;
  shares.add(18, 10);
  CHECK(shares.balanced(1));
  CHECK(shares.balanced(2));
  CHECK(shares.balanced(18));
  CHECK_FALSE(shares.balanced(4));
  CHECK_FALSE(shares.balanced(16));
}

TEST_CASE("units before a bound, by their middle") {
  CHECK(cpu::units_before(0, 0, 10, 5) == 0);
  CHECK(cpu::units_before(5, 0, 10, 5) == 0);
  CHECK(cpu::units_before(6, 0, 10, 5) == 1);
  CHECK(cpu::units_before(26, 0, 10, 5) == 3);
  CHECK(cpu::units_before(1000, 0, 10, 5) == 5);
  CHECK(cpu::units_before(26, 20, 10, 5) == 1);
}

TEST_CASE("queries cost what they see, and each lies before one bound") {
  struct Task {
    int group = 2;
    int visible(int row) const { return row + 1; }
    int first_visible(int) const { return 0; }
  };
  CHECK(cpu::query_cost(Task{}, 1) == 18);
  CHECK(cpu::head_cost(Task{}, 2) == 2 * (17 + 18));
  CHECK(cpu::queries_before(0, 0, Task{}, 2) == 0);
  CHECK(cpu::queries_before(35, 0, Task{}, 2) == 2);
  CHECK(cpu::queries_before(44, 0, Task{}, 2) == 3);
  CHECK(cpu::queries_before(1000, 0, Task{}, 2) == 4);
}
