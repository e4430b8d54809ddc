#include <foredraft/cache/key_value_cache.hpp>

#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/token_cache.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

static_assert(fd::KeyValueCache<fd::LinearCache<float>>);
static_assert(!fd::KeyValueCache<fd::TokenCache>);  // it has no keys

struct PositionMayThrow : fd::LinearCache<float> {
  fd::Position position(fd::NodeIndex) const;
};
struct NoRows : fd::LinearCache<float> {
  fd::SequenceRows rows(fd::NodeIndex, int, int) const noexcept = delete;
};
struct LayerOfAnotherStorage : fd::LinearCache<float> {
  int layer(int) noexcept;
};
static_assert(!fd::KeyValueCache<PositionMayThrow>);
static_assert(!fd::KeyValueCache<NoRows>);
static_assert(!fd::KeyValueCache<LayerOfAnotherStorage>);

TEST_CASE("rows of a pass and nodes of a cache are the same things") {
  fd::LinearCache<float> cache({1, 1, 2, 16});
  cache.stage(std::vector<fd::Node>{{7, fd::kCommitted}, {8, 0}});
  cache.commit(std::vector<fd::NodeIndex>{0});
  const fd::SequenceRows rows = cache.rows(0, 1, 4);
  CHECK(cache.token(0) == 8);
  CHECK(cache.position(0) == 1);
  CHECK(rows.row_of(fd::NodeIndex{0}) == 1);
  CHECK(rows.visible(0) == 2);
  CHECK(cache.layer(0).size == 1);
}
