#include <foredraft/cache/hybrid.hpp>

#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/core/concepts.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

using Cache = fd::HybridCache<float>;

fd::CacheShape mixed() {
  fd::CacheShape shape({{1, 4, 0}}, 32);
  shape.states = {{.n_inputs = 2, .window = 2, .n_heads = 1, .d_state = 3}};
  return shape;
}
fd::CacheShape recurrent() {
  fd::CacheShape shape = mixed();
  shape.layers.clear();
  return shape;
}
fd::CacheShape attention() {
  fd::CacheShape shape = mixed();
  shape.states.clear();
  return shape;
}

void stage_chain(auto& cache, int n) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({i, i - 1});
  cache.stage(nodes);
}

void put(auto& cache, int n) {
  stage_chain(cache, n);
  cache.applied();
  cache.commit(fd::first_nodes(n));
}

}  // namespace

TEST_CASE("a hybrid cache satisfies the concepts of caches") {
  STATIC_REQUIRE(fd::Cache<Cache> && fd::Truncatable<Cache>);
  STATIC_REQUIRE(fd::Cache<fd::HybridCache<fd::q8_0, fd::Slots>>);
}

TEST_CASE("it holds whatever layers there are") {
  for (const fd::CacheShape& shape : {mixed(), recurrent(), attention()}) {
    Cache cache{shape, 20, 8};
    put(cache, 5);
    put(cache, 3);
    CHECK(cache.size() == 8);
    CHECK(cache.capacity() == 20);
    CHECK(cache.max_staged() == 8);
    const auto snapshot = cache.snapshot();
    put(cache, 2);
    cache.restore(snapshot);
    CHECK(cache.size() == 8);
    cache.restore({});
    CHECK(cache.size() == 0);
  }
  CHECK(code_of([] { Cache{fd::CacheShape({}, 32)}; }) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("caches without states refuse recurrent layers, and say what to use") {
  CHECK_THROWS_WITH(fd::LinearCache<float>{mixed()}, Catch::Contains("HybridCache"));
  CHECK_THROWS_WITH(fd::RotatingCache<float>{mixed()}, Catch::Contains("1 recurrent layers"));
}

TEST_CASE("a state cannot go back: truncating forgets all, and size() says so") {
  Cache cache{mixed(), 20, 8};
  put(cache, 6);
  stage_chain(cache, 2);
  cache.truncate(6);
  CHECK(cache.size() == 6);
  CHECK(cache.staged() == 0);
  CHECK_FALSE(cache.states().committed.empty());
  CHECK(cache.holds(6));
  CHECK_FALSE(cache.holds(5));
  CHECK(cache.holds(0));
  cache.truncate(5);
  CHECK(cache.size() == 0);
  CHECK(cache.states().committed.empty());
  CHECK(cache.states().empty);
  // Without states it goes back as far as its keys and values do.
  Cache plain{attention(), 20, 8};
  put(plain, 6);
  CHECK(plain.holds(5));
  plain.truncate(5);
  CHECK(plain.size() == 5);
}

TEST_CASE("nodes that are committed behind no pass run out of rows, not over others") {
  Cache cache{mixed(), 64, 8};
  int staged = 0;
  CHECK(code_of([&] {
          for (; staged < 64; staged += 8) {
            stage_chain(cache, 8);
            cache.commit(fd::first_nodes(8));
          }
        }) == fd::ErrorCode::kInvalidDraft);
  CHECK(staged == 16);
  CHECK(cache.staged() == 0);
}

TEST_CASE("a snapshot of another kind is refused, and changes nothing") {
  Cache cache{mixed(), 20, 8};
  put(cache, 4);
  auto foreign = Cache{attention(), 20, 8}.snapshot();
  foreign.size = 1;
  foreign.rows.push_back(std::make_shared<fd::RowCopy<std::byte>>(
      fd::RowCopy<std::byte>{1, std::vector<std::byte>(4), std::vector<std::byte>(4)}));
  CHECK(code_of([&] { cache.restore(foreign); }) == fd::ErrorCode::kInvalidOption);
  CHECK(cache.size() == 4);
}

TEST_CASE("passes are shorter where each of their nodes needs room for states") {
  CHECK(Cache{attention()}.max_staged() == 512);
  CHECK(Cache{mixed()}.max_staged() == 64);
  fd::CacheShape convolutions = mixed();
  convolutions.states[0].n_heads = convolutions.states[0].d_state = 0;
  CHECK(Cache{convolutions}.max_staged() == 512);
}

TEST_CASE("memory is that of keys, values and states") {
  const double kv = fd::RotatingCache<float>::full_bytes(mixed(), 20, 8);
  // Rows for those that wait and those that are staged; one state, or one for each row.
  CHECK(Cache::full_bytes(mixed(), 20, 8) == kv + 4.0 * (16 * 2 + 3));
  CHECK(fd::HybridCache<float, fd::Slots>::full_bytes(mixed(), 20, 8) ==
        kv + 4.0 * (10 * 2 + 10 * 3));
}
