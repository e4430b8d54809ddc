#include <foredraft/cache/rotating.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/linear.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kHead = 64;  // dimensions, what a quantized cache can hold

/// Two layers with windows, and one between them that sees everything.
fd::CacheShape shape_of(int first_window, int last_window, int n_ctx = 4096) {
  return {{{2, kHead, first_window}, {1, kHead}, {2, kHead, last_window}}, n_ctx};
}

/// What all dimensions of a key say, exact in every format up to rounding: the token, and where it
/// belongs. Values say the opposite.
float mark_of(fd::TokenId token, std::size_t layer, int head) {
  return static_cast<float>(token * 6 + static_cast<int>(layer) * 2 + head + 1);
}

/// A cache beside the tokens that it has to hold.
template <typename C>
class Checked {
 public:
  Checked(fd::CacheShape of, int n_ctx, int max_staged)
      : shape_(std::move(of)), cache(shape_, n_ctx, max_staged) {}

  /// A pass over nodes that are staged behind those there are.
  void stage(const std::vector<fd::Node>& nodes) {
    const int before = cache.staged();
    cache.stage(nodes);
    for (int node = before; node < cache.staged(); ++node) {
      for (std::size_t layer = 0; layer < shape_.layers.size(); ++layer) {
        auto kv = cache.layer(static_cast<int>(layer));
        for (int head = 0; head < shape_.layers[layer].n_kv_heads; ++head) {
          const float mark = mark_of(cache.token(node), layer, head);
          const std::vector<float> key(kHead, mark), value(kHead, -mark);
          kv.put(head, cache.size() + node, key, value);
        }
      }
    }
  }

  void commit(const std::vector<fd::NodeIndex>& path) {
    for (const fd::NodeIndex node : path) tokens.push_back(cache.token(node));
    cache.commit(path);
  }

  /// Whether all that a row behind the committed ones may read is there, in every layer.
  bool right() {
    if (cache.size() != static_cast<int>(tokens.size())) return false;
    const int behind = cache.size();
    for (std::size_t layer = 0; layer < shape_.layers.size(); ++layer) {
      const int window = shape_.layers[layer].window;
      const int first = window == 0 ? 0 : std::max(0, behind - window + 1);
      for (int p = first; p < behind; ++p) {
        if (!says(layer, p, tokens[fd::idx(p)])) return false;
      }
      for (int node = 0; node < cache.staged(); ++node) {
        if (!says(layer, behind + node, cache.token(node))) return false;
      }
    }
    return true;
  }

  fd::CacheShape shape_;
  C cache;
  std::vector<fd::TokenId> tokens;

 private:
  bool says(std::size_t layer, int row, fd::TokenId token) {
    const auto kv = cache.layer(static_cast<int>(layer));
    if (kv.size != cache.size()) return false;
    for (int head = 0; head < shape_.layers[layer].n_kv_heads; ++head) {
      std::array<float, kHead> key{}, value{};
      kv.get_key(head, row, key);
      kv.get_value(head, row, value);
      const float mark = mark_of(token, layer, head);
      for (std::size_t d = 0; d < kHead; ++d) {
        if (!(std::abs(key[d] - mark) < 0.4f) || !(std::abs(value[d] + mark) < 0.4f)) return false;
      }
    }
    return true;
  }
};

std::vector<fd::NodeIndex> path_to(const std::vector<fd::Node>& nodes, fd::NodeIndex node) {
  std::vector<fd::NodeIndex> path;
  for (; node >= 0; node = nodes[fd::idx(node)].parent) path.insert(path.begin(), node);
  return path;
}

/// One token after the other, committed.
template <typename C>
void extend(Checked<C>& checked, int n) {
  for (int i = 0; i < n; ++i) {
    checked.stage({{static_cast<int>(checked.tokens.size()) % 50, fd::kCommitted}});
    checked.commit({0});
  }
}

}  // namespace

TEST_CASE("blocks of any size, up to more than the window, across the wrap") {
  for (int block = 1; block <= 9; ++block) {
    CAPTURE(block);
    Checked<fd::RotatingCache<float>> checked(shape_of(8, 33), 1000, block);
    for (int token = 0; token < 400;) {
      std::vector<fd::Node> nodes;
      for (int i = 0; i < block; ++i) nodes.push_back({token++ % 50, i - 1});
      checked.stage(nodes);
      REQUIRE(checked.right());
      checked.commit(fd::first_nodes(block));
      REQUIRE(checked.right());
    }
  }
}

TEST_CASE("every accepted length at every place of the wrap leaves what it should") {
  for (int kept = 0; kept <= 6; ++kept) {
    Checked<fd::RotatingCache<float>> checked(shape_of(8, 5), 2000, 6);
    for (int round = 0; round < 150; ++round) {
      std::vector<fd::Node> nodes;
      for (int i = 0; i < 6; ++i) nodes.push_back({(round * 7 + i) % 50, i - 1});
      checked.stage(nodes);
      checked.commit(fd::first_nodes(kept));
      CHECK(checked.cache.staged() == 6 - kept);  // the subtree below the end of the path
      REQUIRE(checked.right());
      checked.cache.discard();
      extend(checked, 1);
      REQUIRE(checked.right());
    }
  }
}

TEMPLATE_TEST_CASE("random trees, commits, snapshots and truncations beside a list of tokens", "",
                   float, fd::f16, fd::q8_0) {
  using Cache = fd::RotatingCache<TestType>;
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  int kept_by_truncation = 0, lost_by_truncation = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const int max_staged = 1 + below(40);
    Checked<Cache> checked(shape_of(4 + below(13), 1 + below(70)), 3000, max_staged);
    typename Cache::Snapshot snapshot;
    std::vector<fd::TokenId> at_snapshot;
    for (int step = 0; step < 200; ++step) {
      CAPTURE(trial, step);
      switch (below(12)) {
        case 0: {
          const int n =
              std::max(0, checked.cache.size() - below(checked.cache.size() % 2 ? 9 : 90));
          const bool same = n == checked.cache.size();
          checked.cache.truncate(n);
          const int size = checked.cache.size();
          REQUIRE((size == n || size == 0));
          REQUIRE((!same || size == n));
          if (n > 0 && !same) ++(size == n ? kept_by_truncation : lost_by_truncation);
          checked.tokens.resize(fd::idx(size));
          break;
        }
        case 1:
          snapshot = checked.cache.snapshot();
          at_snapshot = checked.tokens;
          break;
        case 2:
          checked.cache.restore(snapshot);
          checked.tokens = at_snapshot;
          break;
        case 3: checked.cache.discard(); break;
        default: {
          const int room = max_staged - checked.cache.staged();
          if (room == 0 || checked.tokens.size() > 2900) {
            checked.cache.discard();
            break;
          }
          const bool chain = below(2) == 0;
          std::vector<fd::Node> nodes;
          const int before = checked.cache.staged();
          for (int i = before; i < before + 1 + below(fd::idx(room)); ++i)
            nodes.push_back({below(50), chain ? i - 1 : below(fd::idx(i) + 1) - 1});
          checked.stage(nodes);
          REQUIRE(checked.right());
          std::vector<fd::Node> all;
          for (int i = 0; i < checked.cache.staged(); ++i) {
            const bool known = i >= before;
            all.push_back({checked.cache.token(i), known ? nodes[fd::idx(i - before)].parent : -2});
          }
          if (before > 0) break;  // whose parents are not at hand
          checked.commit(path_to(all, below(all.size() + 1) - 1));
        }
      }
      REQUIRE(checked.right());
    }
  }
  CHECK(kept_by_truncation > 0);
  CHECK(lost_by_truncation > 0);
}

TEST_CASE("what a ring still holds can be gone back to, and the rest is forgotten aloud") {
  const auto after = [](int size, int to) {
    Checked<fd::RotatingCache<float>> checked(shape_of(8, 8), 1000, 8);
    extend(checked, size);
    checked.cache.truncate(to);
    const int now = checked.cache.size();
    checked.tokens.resize(fd::idx(now));
    CHECK(checked.right());
    extend(checked, 70);
    CHECK(checked.right());
    return now;
  };
  CHECK(after(32, 1) == 1);  // a ring of 32 rows, and nothing is overwritten yet
  CHECK(after(33, 33) == 33);
  // After 200, rows 168 on are there: 175 reads 168 .. 174.
  CHECK(after(200, 175) == 175);
  CHECK(after(200, 174) == 0);
  CHECK(after(200, 0) == 0);
  CHECK(after(200, 199) == 199);
}

TEST_CASE("drafts as deep as can be staged never take what a rejection would need back") {
  Checked<fd::RotatingCache<float>> checked(shape_of(16, 3), 2000, 48);
  std::vector<fd::Node> nodes;
  for (int i = 0; i < 48; ++i) nodes.push_back({i, i - 1});
  for (int round = 0; round < 200; ++round) {
    checked.stage(nodes);
    checked.cache.discard();
    REQUIRE(checked.right());
    extend(checked, 1);
  }
}

TEST_CASE("a snapshot has what the windows reach, and fits caches of its kind alone") {
  const fd::CacheShape shape = shape_of(8, 40, 1000);
  Checked<fd::RotatingCache<float>> checked(shape, 300, 4);
  extend(checked, 100);
  const auto snapshot = checked.cache.snapshot();
  REQUIRE(snapshot.rows.size() == 1);
  CHECK(snapshot.rows[0]->k.size() ==
        kHead * (2 * 7 + 100 + 2 * 39) * sizeof(float));  // what row 100 sees
  Checked<fd::RotatingCache<float>> other(shape, 200, 30);
  other.cache.restore(snapshot);
  other.tokens = checked.tokens;
  CHECK(other.right());
  extend(other, 50);
  CHECK(other.right());
  other.cache.truncate(50);  // before what was in the snapshot
  CHECK(other.cache.size() == 0);

  fd::LinearCache<float> linear(shape, 300, 4);
  CHECK_THROWS_AS(linear.restore(snapshot), fd::Error);
  Checked<fd::RotatingCache<float>> wider(shape_of(9, 40), 300, 4);
  CHECK_THROWS_AS(wider.cache.restore(snapshot), fd::Error);
}

TEST_CASE("a snapshot vouches for no row that was written over") {
  // Rows 0 .. 199 were written, so those of 168 on are there; a row behind 175 reads 168 on.
  Checked<fd::RotatingCache<float>> checked(shape_of(8, 8), 1000, 8);
  extend(checked, 200);
  checked.cache.truncate(175);
  REQUIRE(checked.cache.size() == 175);
  checked.tokens.resize(175);
  for (int n = 175; n > 158; --n) {
    CAPTURE(n);
    const auto snapshot = checked.cache.snapshot();
    checked.cache.restore(snapshot);
    checked.tokens.resize(fd::idx(checked.cache.size()));
    REQUIRE(checked.right());
    checked.cache.truncate(n - 1);
    checked.tokens.resize(fd::idx(checked.cache.size()));
    REQUIRE(checked.right());
    if (checked.cache.size() == 0) extend(checked, n - 1);
  }
}

TEST_CASE("rings take the memory of their window and what is staged") {
  const auto bytes = [](int window, int n_ctx, int max_staged) {
    return fd::RotatingCache<float>::full_bytes({{{1, 16, window}}, n_ctx}, n_ctx, max_staged);
  };
  constexpr double kRow = 2 * 16 * sizeof(float);
  CHECK(bytes(0, 5000, 64) == kRow * 5064);
  CHECK(bytes(512, 5000, 512) == kRow * (512 + 512));
  CHECK(bytes(500, 5000, 17) == kRow * 544);
  CHECK(bytes(512, 512, 512) == kRow * 1024);  // a ring would be no shorter
  CHECK(fd::LinearCache<float>::full_bytes({{{1, 16, 8}}, 5000}, 5000) == kRow * 5000);
}

TEST_CASE("without windows it is a linear cache, from whose snapshots it goes on") {
  const fd::CacheShape shape{2, 2, kHead, 500};
  Checked<fd::LinearCache<fd::f16>> linear(shape, 500, 8);
  extend(linear, 90);
  Checked<fd::RotatingCache<fd::f16>> rotating(shape, 500, 8);
  rotating.cache.restore(linear.cache.snapshot());
  rotating.tokens = linear.tokens;
  CHECK(rotating.right());
  rotating.cache.truncate(3);
  CHECK(rotating.cache.size() == 3);
}

TEST_CASE("what is moved takes its rings along") {
  Checked<fd::RotatingCache<float>> checked(shape_of(8, 8), 1000, 8);
  extend(checked, 200);
  fd::RotatingCache<float> moved = std::move(checked.cache);
  moved.truncate(175);
  CHECK(moved.size() == 175);
  moved.truncate(174);  // which would read 167
  CHECK(moved.size() == 0);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  CHECK(checked.cache.capacity() == 0);
  checked.cache.truncate(5);
  CHECK(checked.cache.snapshot().rows.empty());
}

TEST_CASE("it is a cache of keys and values, and refuses what it cannot hold") {
  static_assert(fd::KeyValueCache<fd::RotatingCache<float>>);
  static_assert(fd::KeyValueCache<fd::RotatingCache<fd::q8_0>>);
  static_assert(fd::Truncatable<fd::RotatingCache<fd::f16>>);
  CHECK_THROWS_AS(fd::RotatingCache<float>(fd::CacheShape{}), fd::Error);
  CHECK_THROWS_AS(fd::RotatingCache<fd::q8_0>(fd::CacheShape{{{1, 96, 4}}, 8}), fd::Error);
  constexpr int kMost = fd::Dim::kMost;
  CHECK_THROWS_AS(fd::RotatingCache<float>({{{kMost, kMost, kMost}}, kMost}, kMost, kMost),
                  fd::Error);
}

TEST_CASE("a snapshot belongs to caches with as many sinks") {
  const fd::CacheShape shape = shape_of(8, 8);
  const auto snapshot_with = [&](fd::Dim sinks) {
    fd::RotatingCache<float> cache(shape, 64, 8, sinks);
    const fd::Node node{1, -1};
    const fd::NodeIndex path[] = {0};
    cache.stage({&node, 1});
    cache.commit(path);
    return cache.snapshot();
  };
  fd::RotatingCache<float> cache(shape, 64, 8, 4);
  CHECK_NOTHROW(cache.restore(snapshot_with(4)));
  CHECK(cache.size() == 1);
  CHECK_THROWS_AS(cache.restore(snapshot_with(0)), fd::Error);
  CHECK(cache.size() == 1);
  CHECK_NOTHROW(cache.restore({}));
  CHECK(cache.size() == 0);
}
