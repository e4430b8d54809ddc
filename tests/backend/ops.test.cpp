#include <foredraft/backend/ops.hpp>

#include <foredraft/cache/linear.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("rows of a chain need no paths, rows of a tree have one each, from any first node") {
  fd::LinearCache<float> cache({1, 1, 2, 16});
  cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 1}});
  CHECK(cache.rows(0, 3, 0).chain());
  cache.stage(std::vector<fd::Node>{{4, 0}, {5, 3}});
  const fd::SequenceRows rows = cache.rows(3, 2, 7);  // as a second pass over the same staged tree
  REQUIRE(!rows.chain());
  CHECK(rows.first_row == 7);
  REQUIRE(rows.path_begin.size() == 3);
  const auto path_of = [&](std::size_t i) {
    const auto begin = rows.path.begin();
    return std::vector<fd::NodeIndex>(begin + rows.path_begin[i], begin + rows.path_begin[i + 1]);
  };
  CHECK(path_of(0) == std::vector<fd::NodeIndex>{0, 3});
  CHECK(path_of(1) == std::vector<fd::NodeIndex>{0, 3, 4});
  CHECK(rows.visible(1) == 3);
  CHECK(rows.row_of(1, 1) == 3);
  CHECK(rows.row_of(1, 2) == 4);
}
