#include <foredraft/cache/row_copies.hpp>

#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/core/state_archive.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kHead = 4;
constexpr int kCopied = fd::RowCopies<std::byte>::kRows;
using Cache = fd::LinearCache<float>;

/// Commit n rows that say who wrote them.
void extend(Cache& cache, int n, float writer = 0) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({1, i - 1});
  cache.stage(nodes);
  std::vector<fd::NodeIndex> path(fd::idx(n));
  std::iota(path.begin(), path.end(), 0);
  for (int i = 0; i < n; ++i) {
    const int row = cache.size() + i;
    const std::vector<float> values(kHead, static_cast<float>(row) + writer);
    cache.layer(0).put(0, row, values, values);
  }
  cache.commit(path);
}
float read(Cache& cache, int row) {
  std::vector<float> key(kHead), value(kHead);
  cache.layer(0).get_key(0, row, key);
  cache.layer(0).get_value(0, row, value);
  return key[3] == value[0] ? key[0] : -1;
}
bool as_written(Cache& cache, int begin, int end, float writer = 0) {
  for (int row = begin; row < end; ++row) {
    if (read(cache, row) != static_cast<float>(row) + writer) return false;
  }
  return true;
}

const fd::CacheShape kShape{1, 1, kHead, 400};

}  // namespace

TEST_CASE("snapshots share the copies of what they have in common") {
  Cache cache(kShape, 400);
  extend(cache, 2 * kCopied + 10);
  const auto first = cache.snapshot();
  REQUIRE(first.rows.size() == 3);
  extend(cache, kCopied);
  const auto second = cache.snapshot();
  REQUIRE(second.rows.size() == 4);
  CHECK(second.rows[0] == first.rows[0]);
  CHECK(second.rows[1] == first.rows[1]);
  CHECK(second.rows[2] != first.rows[2]);  // it was not whole
  CHECK(cache.snapshot().rows[2] == second.rows[2]);

  // What is written over is copied anew.
  cache.truncate(kCopied + 5);
  extend(cache, 2 * kCopied, 0.5f);
  const auto third = cache.snapshot();
  CHECK(third.rows[0] == first.rows[0]);
  CHECK(third.rows[1] != first.rows[1]);

  cache.restore(first);
  CHECK(cache.size() == 2 * kCopied + 10);
  CHECK(as_written(cache, 0, cache.size()));
  cache.restore(third);
  CHECK(as_written(cache, 0, kCopied + 5));
  CHECK(as_written(cache, kCopied + 5, cache.size(), 0.5f));
  CHECK(cache.snapshot().rows[1] == third.rows[1]);
  cache.restore(second);
  CHECK(as_written(cache, 0, cache.size()));

  Cache other(kShape, 400);
  other.restore(second);
  CHECK(as_written(other, 0, other.size()));
  CHECK(other.snapshot().rows[1] == first.rows[1]);
  Cache moved = std::move(other);
  CHECK(moved.snapshot().rows[1] == first.rows[1]);
}

TEST_CASE("copies live as long as a snapshot has them") {
  Cache cache(kShape, 400);
  extend(cache, 3 * kCopied);
  auto first = cache.snapshot();
  const std::weak_ptr<const fd::RowCopy<std::byte>> copy = first.rows[0];
  auto second = cache.snapshot();
  first = {};
  CHECK_FALSE(copy.expired());
  second = {};
  CHECK(copy.expired());
  CHECK(cache.snapshot().rows.size() == 3);
  CHECK(as_written(cache, 0, cache.size()));
}

TEST_CASE("rings are copied whole") {
  const fd::CacheShape shape{{{1, kHead, 8}, {1, kHead}}, 400};
  fd::RotatingCache<float> cache(shape, 400, 4);
  for (int i = 0; i < 3 * kCopied; ++i) {
    cache.stage(std::vector<fd::Node>{{1, -1}});
    const std::vector<float> values(kHead, static_cast<float>(i));
    for (const int layer : {0, 1}) cache.layer(layer).put(0, i, values, values);
    cache.commit(std::vector<fd::NodeIndex>{0});
  }
  const auto first = cache.snapshot();
  REQUIRE(first.rows.size() == 1);
  CHECK(first.rows[0]->n == 3 * kCopied);
  CHECK(cache.snapshot().rows[0] != first.rows[0]);
  cache.restore(first);
  CHECK(cache.size() == 3 * kCopied);
  std::vector<float> key(kHead);
  cache.layer(0).get_key(0, 3 * kCopied - 1, key);
  CHECK(key[0] == static_cast<float>(3 * kCopied - 1));
}

TEST_CASE("rows in parts fit a cache with rings as long as those have lost none") {
  const fd::CacheShape shape{{{1, kHead, 150}, {1, kHead}}, 1000};
  fd::RotatingCache<float> small(shape, 140, 4), large(shape, 1000, 4);
  const auto write = [](auto& cache, int n) {
    while (cache.size() < n) {
      cache.stage(std::vector<fd::Node>{{1, -1}});
      const std::vector<float> values(kHead, static_cast<float>(cache.size()));
      for (const int layer : {0, 1}) cache.layer(layer).put(0, cache.size(), values, values);
      cache.commit(std::vector<fd::NodeIndex>{0});
    }
  };
  write(small, 130);
  const auto parts = small.snapshot();
  CHECK(parts.rows.size() == 3);
  large.restore(parts);
  write(large, 400);
  std::vector<float> key(kHead);
  for (int row = 260; row < 400; ++row) {
    large.layer(0).get_key(0, row, key);
    CHECK(key[0] == static_cast<float>(row));
  }
  for (int row = 0; row < 400; ++row) {
    large.layer(1).get_key(0, row, key);
    CHECK(key[0] == static_cast<float>(row));
  }
  fd::LinearCache<float> linear(shape, 400);
  write(linear, 300);
  CHECK_THROWS_AS(large.restore(linear.snapshot()), fd::Error);
  CHECK(large.size() == 400);
}
