#include <foredraft/backend/ring_place.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("rows behind the pinned ones take the places of a ring in turn") {
  for (const int row : {0, 1, 7, 1'000'000}) CHECK(fd::ring_place(row, 4, 0) == row);
  for (int row = 0; row < 4; ++row) CHECK(fd::ring_place(row, 4, 3) == row);
  for (int row = 4; row < 30; ++row) CHECK(fd::ring_place(row, 4, 3) == 4 + (row - 4) % 3);
  CHECK(fd::ring_place(6, 0, 6) == 0);
  STATIC_REQUIRE(fd::ring_place(9, 2, 5) == 4);
}
