#include <foredraft/core/reduce.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("the sum of every number of values") {
  std::mt19937 random(5);
  std::vector<double> values;
  CHECK(fd::sum(values) == 0.0);
  for (int n = 1; n <= 70; ++n) {
    CAPTURE(n);
    // Integers: their sums are exact in any order.
    values.push_back(static_cast<double>(random() % 1000) + 1.0);
    std::shuffle(values.begin(), values.end(), random);
    CHECK(fd::sum(values) == std::accumulate(values.begin(), values.end(), 0.0));
  }
}
