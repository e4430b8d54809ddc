#include <foredraft/cache/key_value_cache.hpp>

#include <cstddef>
#include <span>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/token_cache.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

static_assert(fd::KeyValueCache<fd::LinearCache<float>>);

// Near misses, one for each requirement.

struct CommitMayThrow : fd::LinearCache<float> {
  void commit(std::span<const fd::NodeIndex>);  // so it is no cache at all
};
struct RowsAreNoStorage : fd::LinearCache<float> {
  struct Rows {
    using Layer = fd::cpu::Rows<float>::Layer;
  };
};
struct TokenNotConst : fd::LinearCache<float> {
  fd::TokenId token(fd::NodeIndex) noexcept;
};
struct TokenMayThrow : fd::LinearCache<float> {
  fd::TokenId token(fd::NodeIndex) const;
};
struct TokenOfAnotherType : fd::LinearCache<float> {
  std::size_t token(fd::NodeIndex) const noexcept;
};
struct PositionNotConst : fd::LinearCache<float> {
  fd::Position position(fd::NodeIndex) noexcept;
};
struct PositionMayThrow : fd::LinearCache<float> {
  fd::Position position(fd::NodeIndex) const;
};
struct PositionOfAnotherType : fd::LinearCache<float> {
  std::size_t position(fd::NodeIndex) const noexcept;
};
struct NoRows : fd::LinearCache<float> {
  fd::SequenceRows rows(fd::NodeIndex, int, int) const noexcept = delete;
};
struct RowsNotConst : fd::LinearCache<float> {
  fd::SequenceRows rows(fd::NodeIndex, int, int) noexcept;
};
struct RowsMayThrow : fd::LinearCache<float> {
  fd::SequenceRows rows(fd::NodeIndex, int, int) const;
};
struct RowsOfAnotherType : fd::LinearCache<float> {
  int rows(fd::NodeIndex, int, int) const noexcept;
};
struct LayerMayThrow : fd::LinearCache<float> {
  Rows::Layer layer(int);
};
struct LayerOfAnotherStorage : fd::LinearCache<float> {
  int layer(int) noexcept;
};

template <typename... C>
constexpr bool none_is_one = (!fd::KeyValueCache<C> && ...);
static_assert(none_is_one<CommitMayThrow, RowsAreNoStorage>);
static_assert(none_is_one<TokenNotConst, TokenMayThrow, TokenOfAnotherType>);
static_assert(none_is_one<PositionNotConst, PositionMayThrow, PositionOfAnotherType>);
static_assert(none_is_one<NoRows, RowsNotConst, RowsMayThrow, RowsOfAnotherType>);
static_assert(none_is_one<LayerMayThrow, LayerOfAnotherStorage>);
static_assert(none_is_one<fd::TokenCache>);  // it has no keys

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
