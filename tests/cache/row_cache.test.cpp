#include <foredraft/cache/row_cache.hpp>

#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

// What its two kinds add, and what they do with rows, is tested with them.

TEMPLATE_TEST_CASE("all layers have one size, whichever rows they keep", "", fd::LinearCache<float>,
                   fd::RotatingCache<float>) {
  const fd::CacheShape shape{{{1, 4, 3}, {2, 8}, {1, 4, 50}}, 500};
  TestType cache(shape, 500, 6);
  const auto same_size = [&] {
    for (int layer = 0; layer < 3; ++layer) CHECK(cache.layer(layer).size == cache.size());
  };
  for (int round = 0; round < 60; ++round) {
    cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 0}, {4, 1}, {5, 2}});
    CHECK(cache.position(4) == cache.size() + 2);
    const int before = cache.size();
    if (round % 3 != 0) cache.commit(std::vector<fd::NodeIndex>{0, 2});
    CHECK(cache.size() == before + (round % 3 != 0 ? 2 : 0));
    same_size();
    cache.discard();
    CHECK(cache.staged() == 0);
    same_size();
  }
  cache.truncate(cache.size() - 1);
  same_size();
  cache.restore(typename TestType::Snapshot{});
  CHECK(cache.size() == 0);
  same_size();
}

TEST_CASE("a cache of rows is moved and never copied, and is made as one of its kinds") {
  using Base = fd::RowCache<fd::cpu::Rows<float>>;
  static_assert(std::is_nothrow_move_constructible_v<fd::LinearCache<float>>);
  static_assert(std::is_nothrow_move_assignable_v<fd::RotatingCache<float>>);
  static_assert(!std::is_copy_constructible_v<fd::LinearCache<float>>);
  static_assert(!std::is_default_constructible_v<Base>);
  static_assert(fd::KeyValueCache<fd::LinearCache<fd::f16>>);
  CHECK(std::is_same_v<fd::LinearCache<float>::Snapshot, fd::RotatingCache<float>::Snapshot>);
}
