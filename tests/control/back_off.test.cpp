#include <foredraft/control/back_off.hpp>

#include <vector>

#include "support/catch.hpp"

TEST_CASE("turns come less and less often, and never more seldom than each 512th round") {
  foredraft::BackOff turns;
  std::vector<int> rounds;
  for (int round = 1; round <= 2500; ++round) {
    if (turns.due()) rounds.push_back(round);
  }
  CHECK(rounds == std::vector<int>{4, 12, 28, 60, 124, 252, 508, 1020, 1532, 2044});
}
TEST_CASE("turns go on where they were") {
  foredraft::BackOff turns{.interval = 8, .waited = 6};
  CHECK_FALSE(turns.due());
  CHECK(turns.due());
  CHECK(turns.interval == 16);
  CHECK(turns.waited == 0);
}
