#include <foredraft/backend/row_storage.hpp>

#include <vector>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/cache/rotating.hpp>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

// Near misses of a storage of rows.

struct MoveMayThrow : archetype::RemoteRows {
  using RemoteRows::RemoteRows;
  void move(int, int);
};
struct CommitMayThrow : archetype::RemoteRows {
  using RemoteRows::RemoteRows;
  void commit(int);
};
static_assert(!fd::RowStorage<MoveMayThrow>);
static_assert(!fd::RowStorage<CommitMayThrow>);
struct NoLayer : archetype::RemoteRows {
  using RemoteRows::RemoteRows;
  void layer(int) noexcept = delete;
};
static_assert(!fd::RowStorage<NoLayer>);
static_assert(!fd::RowStorage<std::vector<float>>);

// Rings are more than is asked of every storage.
static_assert(!fd::RingStorage<archetype::RemoteRows>);
static_assert(fd::RingStorage<fd::cpu::Rows<float>>);
template <typename R>
concept Rotates = requires { typename fd::RotatingCache<R>; };
static_assert(Rotates<float> && !Rotates<archetype::RemoteRows>);

TEST_CASE("a cache needs no more of a storage than the concept asks for") {
  fd::LinearCache<archetype::RemoteRows> cache({2, 1, 4, 32});
  cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 0}});
  cache.commit(std::vector<fd::NodeIndex>{0, 2});
  const auto snapshot = cache.snapshot();
  REQUIRE(snapshot.rows.size() == 1);
  CHECK(snapshot.rows[0]->k.size() == 2 * 2 * 4);
  cache.truncate(1);
  cache.restore(snapshot);
  CHECK(cache.size() == 2);
}
