#include <foredraft/backend/row_storage.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/cache/rotating.hpp>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

// Near misses of a storage of rows, one for each requirement.

struct NotMovable : archetype::RemoteRows {
  NotMovable() = default;
  NotMovable(NotMovable&&) = delete;
};
struct NoDefault : archetype::RemoteRows {
  NoDefault() = delete;
};
struct NoAtOnce : archetype::RemoteRows {
  NoAtOnce() = default;
  NoAtOnce(const fd::CacheShape&, int);
};
struct NoValueType : archetype::RemoteRows {
 private:
  using value_type = RemoteRows::value_type;
};
struct NoLayerType : archetype::RemoteRows {
 private:
  using Layer = RemoteRows::Layer;
};
struct SizeNotConst : archetype::RemoteRows {
  int size() noexcept;
};
struct SizeMayThrow : archetype::RemoteRows {
  int size() const;
};
struct SizeOfAnotherType : archetype::RemoteRows {
  std::size_t size() const noexcept;
};
struct CommitMayThrow : archetype::RemoteRows {
  void commit(int);
};
struct TruncateMayThrow : archetype::RemoteRows {
  void truncate(int);
};
struct MoveMayThrow : archetype::RemoteRows {
  void move(int, int);
};
struct NoLayer : archetype::RemoteRows {
  void layer(int) noexcept = delete;
};
struct LayerMayThrow : archetype::RemoteRows {
  Layer layer(int);
};
struct LayerOfAnotherType : archetype::RemoteRows {
  int layer(int) noexcept;
};
struct KeyElementsNotConst : archetype::RemoteRows {
  std::size_t key_elements(int);
};
struct KeyElementsOfAnotherType : archetype::RemoteRows {
  int key_elements(int) const;
};
struct ValueElementsNotConst : archetype::RemoteRows {
  std::size_t value_elements(int);
};
struct ValueElementsOfAnotherType : archetype::RemoteRows {
  int value_elements(int) const;
};
struct CopyNotConst : archetype::RemoteRows {
  void copy_to(int, int, std::vector<value_type>&, std::vector<value_type>&);
};
struct CopyOfOtherElements : archetype::RemoteRows {
  void copy_to(int, int, std::vector<float>&, std::vector<float>&) const;
};
struct AppendMayThrow : archetype::RemoteRows {
  void append(int, std::span<const value_type>, std::span<const value_type>);
};
struct BytesNotStatic : archetype::RemoteRows {
  double bytes(const fd::CacheShape&, int);
};
struct BytesOfAnotherType : archetype::RemoteRows {
  static std::size_t bytes(const fd::CacheShape&, int);
};

/// With the constructor, which is not inherited.
template <typename R>
struct Made : R {
  Made() = default;
  Made(const fd::CacheShape&, int, bool);
};
static_assert(fd::RowStorage<Made<archetype::RemoteRows>>);
template <typename... R>
constexpr bool none_is_one = (!fd::RowStorage<Made<R>> && ...);
static_assert(none_is_one<NotMovable, NoDefault, NoValueType, NoLayerType>);
static_assert(none_is_one<SizeNotConst, SizeMayThrow, SizeOfAnotherType>);
static_assert(none_is_one<CommitMayThrow, TruncateMayThrow, MoveMayThrow>);
static_assert(none_is_one<NoLayer, LayerMayThrow, LayerOfAnotherType>);
static_assert(none_is_one<KeyElementsNotConst, KeyElementsOfAnotherType>);
static_assert(none_is_one<ValueElementsNotConst, ValueElementsOfAnotherType>);
static_assert(none_is_one<CopyNotConst, CopyOfOtherElements, AppendMayThrow>);
static_assert(none_is_one<BytesNotStatic, BytesOfAnotherType>);
static_assert(!fd::RowStorage<NoAtOnce> && !fd::RowStorage<std::vector<float>>);

// Rings are more than is asked of every storage.
static_assert(!fd::RingStorage<archetype::RemoteRows>);
static_assert(fd::RingStorage<fd::cpu::Rows<float>>);
template <typename R>
concept Rotates = requires { typename fd::RotatingCache<R>; };
static_assert(Rotates<float> && Rotates<archetype::RemoteRings>);
static_assert(!Rotates<archetype::RemoteRows>);

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
