#include <foredraft/backend/cpu/routing.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using foredraft::cpu::Routing;

TEST_CASE("a row takes the experts of greatest scores, equal ones by number") {
  Routing routing;
  routing.reserve(3, 4, 2);
  const std::vector<float> scores{0,  3,  1, 2,  // 1, 3
                                  5,  5,  5, 5,  // 0, 1
                                  1,  -2, 7, 1,  // 2, 0
                                  -9, -9, -9};
  routing.choose(scores.data(), 3, 4, 2);
  CHECK((routing.expert(0, 0) == 1 && routing.expert(0, 1) == 3));
  CHECK((routing.expert(1, 0) == 0 && routing.expert(1, 1) == 1));
  CHECK((routing.expert(2, 0) == 2 && routing.expert(2, 1) == 0));
  CHECK(routing.weight(0, 0) == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(routing.weight(0, 1) == Approx(1 / (1 + std::exp(1.0))));
  CHECK((routing.weight(1, 0) == 0.5f && routing.weight(1, 1) == 0.5f));
}

TEST_CASE("pairs lie by expert, and by row within one") {
  Routing routing;
  routing.reserve(8, 6, 3);
  std::vector<float> scores(8 * 6);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i * 7 % 11);
  for (const int n_rows : {8, 1, 5}) {  // again, and for fewer rows
    routing.choose(scores.data(), n_rows, 6, 3);
    int next = 0;
    for (int i = 0; i < routing.n_groups(); ++i) {
      const Routing::Group& group = routing.group(i);
      CHECK(group.begin == next);
      CHECK(group.n_rows > 0);
      if (i > 0) CHECK(routing.group(i - 1).expert < group.expert);
      for (int pair = next + 1; pair < next + group.n_rows; ++pair) {
        CHECK(routing.rows()[pair - 1] < routing.rows()[pair]);
      }
      next += group.n_rows;
    }
    CHECK(next == n_rows * 3);
    for (int row = 0; row < n_rows; ++row) {
      for (int i = 0; i < 3; ++i) {
        const int pair = routing.pair(row, i);
        CHECK(routing.rows()[pair] == row);
        int group = 0;
        while (pair >= routing.group(group).begin + routing.group(group).n_rows) ++group;
        CHECK(routing.group(group).expert == routing.expert(row, i));
      }
    }
  }
}

TEST_CASE("scores without an order still choose different experts") {
  Routing routing;
  routing.reserve(1, 3, 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores{nan, 1.0f, nan};
  routing.choose(scores.data(), 1, 3, 3);
  CHECK(routing.expert(0, 0) + routing.expert(0, 1) + routing.expert(0, 2) == 3);
  CHECK(routing.n_groups() == 3);
  CHECK(std::isnan(routing.weight(0, 1)));
}
