#include <foredraft/cache/linear.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <type_traits>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kElements = 4;  // of a row, of whatever type

template <typename T>
fd::CacheShape shape_of(int n_ctx = 64) {
  return {2, 3, kElements * fd::kValuesPerElement<T>, n_ctx};
}

constexpr int kMarks = 24;
constexpr int element_mark(int layer, std::size_t head, int i) {
  return (layer * 3 + static_cast<int>(head)) * kElements + i;
}

/// An element that says `mark`, and says it in every byte.
template <typename T>
T marked(float mark) {
  if constexpr (std::is_same_v<T, fd::q8_0>) {
    fd::q8_0 element;
    element.scale = fd::f16(mark);
    for (int i = 0; i < fd::q8_0::kValues; ++i) element.codes[i] = static_cast<std::int8_t>(i);
    return element;
  } else {
    return T(mark);
  }
}

/// What an element says, or -1 where its bytes disagree.
template <typename T>
float mark_of(const T& element) {
  if constexpr (std::is_same_v<T, fd::q8_0>) {
    for (int i = 0; i < fd::q8_0::kValues; ++i) {
      if (element.codes[i] != i) return -1.0f;
    }
    return static_cast<float>(element.scale);
  } else {
    return static_cast<float>(element);
  }
}

/// The elements of a head, as they lie.
template <typename T>
T* elements(const fd::cpu::HeadRows& rows, std::size_t head) {
  return reinterpret_cast<T*>(rows.row(static_cast<int>(head), 0));
}

/// Element i of a key, wherever its row lies.
template <typename T>
T key_element(const typename fd::RowsIn<T>::Layer& kv, std::size_t head, int row, int i) {
  T key[kElements];
  fd::cpu::load_key<T>(kv.k.block(static_cast<int>(head), row), row % fd::cpu::kKeyBlock,
                       kElements * fd::kValuesPerElement<T>, reinterpret_cast<std::byte*>(key));
  return key[i];
}

/// Every element of a row says which token it belongs to and where it should be, so one that is
/// misplaced is seen at once.
template <typename T>
void write_row(fd::LinearCache<T>& cache, fd::NodeIndex node) {
  const auto row = fd::idx(cache.size() + node);
  for (int layer = 0; layer < 2; ++layer) {
    const auto kv = cache.layer(layer);
    for (std::size_t head = 0; head < 3; ++head) {
      T key[kElements];
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto mark = static_cast<float>(cache.token(node) * kMarks +
                                             element_mark(layer, head, static_cast<int>(i)));
        key[i] = marked<T>(mark);
        elements<T>(kv.v, head)[row * kElements + i] = marked<T>(-mark);
      }
      kv.put_key(static_cast<int>(head), static_cast<int>(row),
                 kElements * fd::kValuesPerElement<T>, reinterpret_cast<const std::byte*>(key));
    }
  }
}

/// A pass over what is staged.
template <typename T>
void stage(fd::LinearCache<T>& cache, const std::vector<fd::Node>& nodes) {
  const int before = cache.staged();
  cache.stage(nodes);
  for (int node = before; node < cache.staged(); ++node) write_row(cache, node);
}

/// Tokens of the rows first .. first + count - 1, or -1 where heads or layers disagree.
template <typename T>
std::vector<fd::TokenId> tokens_in(fd::LinearCache<T>& cache, int first, int count) {
  std::vector<fd::TokenId> tokens;
  for (int row = first; row < first + count; ++row) {
    fd::TokenId token = -2;
    for (int layer = 0; layer < 2; ++layer) {
      const auto kv = cache.layer(layer);
      for (std::size_t head = 0; head < 3; ++head) {
        for (int i = 0; i < kElements; ++i) {
          const auto v = static_cast<int>(mark_of(elements<T>(kv.v, head)[row * kElements + i]));
          const auto k = static_cast<int>(mark_of(key_element<T>(kv, head, row, i)));
          const int mark = k - element_mark(layer, head, i);
          const fd::TokenId here = mark % kMarks == 0 && v == -k ? mark / kMarks : -1;
          token = token == -2 || token == here ? here : -1;
        }
      }
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::vector<fd::Node> chain(std::vector<fd::TokenId> tokens) {
  std::vector<fd::Node> nodes;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    nodes.push_back({tokens[i], static_cast<int>(i) - 1});
  return nodes;
}

}  // namespace

TEMPLATE_TEST_CASE("a chain is staged in place and committed without a copy", "", float, fd::f16,
                   fd::q8_0) {
  fd::LinearCache<TestType> cache(shape_of<TestType>());
  stage(cache, chain({1, 2, 3}));
  CHECK(cache.rows(0, 3, 5).chain());
  CHECK(cache.position(2) == 2);
  cache.commit(std::vector<fd::NodeIndex>{0, 1});
  CHECK(cache.size() == 2);
  CHECK(cache.staged() == 1);  // the subtree below the end of the path stays
  CHECK(cache.token(0) == 3);
  CHECK(tokens_in(cache, 0, 3) == std::vector<fd::TokenId>{1, 2, 3});
  cache.discard();
  stage(cache, chain({7}));
  cache.commit(std::vector<fd::NodeIndex>{0});
  CHECK(tokens_in(cache, 0, 3) == std::vector<fd::TokenId>{1, 2, 7});
}

TEMPLATE_TEST_CASE("rows of a random tree end up where its path puts them", "", float, fd::f16,
                   fd::q8_0) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    fd::LinearCache<TestType> cache(shape_of<TestType>());
    stage(cache, chain({40, 41, 42}));
    cache.commit(std::vector<fd::NodeIndex>{0, 1, 2});

    std::vector<fd::Node> nodes{{0, fd::kCommitted}};
    for (int i = 1; i < 20; ++i) {
      nodes.push_back({i, static_cast<int>(random() % static_cast<unsigned>(i))});
    }
    stage(cache, nodes);
    const fd::SequenceRows rows = cache.rows(0, 20, 0);
    // Each node's own path names its ancestors in order of depth.
    for (int node = 0; node < 20 && !rows.chain(); ++node) {
      const auto begin = fd::idx(rows.path_begin[fd::idx(node)]);
      const auto end = fd::idx(rows.path_begin[fd::idx(node) + 1]);
      std::vector<std::int32_t> expected;
      for (int n = node; n >= 0; n = nodes[fd::idx(n)].parent) expected.insert(expected.begin(), n);
      CHECK(std::vector<std::int32_t>(rows.path.begin() + static_cast<std::ptrdiff_t>(begin),
                                      rows.path.begin() + static_cast<std::ptrdiff_t>(end)) ==
            expected);
      CHECK(cache.position(node) == 3 + static_cast<int>(expected.size()) - 1);
    }

    std::vector<fd::NodeIndex> path;
    for (int n = static_cast<int>(random() % 20); n >= 0; n = nodes[fd::idx(n)].parent) {
      path.insert(path.begin(), n);
    }
    std::vector<fd::TokenId> expected{40, 41, 42};
    for (const auto n : path) expected.push_back(n);
    std::vector<fd::TokenId> survivors;  // descendants of the path's end, in order
    std::vector<bool> below(20, false);
    for (int n = path.back() + 1; n < 20; ++n) {
      const int parent = nodes[fd::idx(n)].parent;
      below[fd::idx(n)] = parent == path.back() || below[fd::idx(parent)];
      if (below[fd::idx(n)]) survivors.push_back(n);
    }
    cache.commit(path);
    expected.insert(expected.end(), survivors.begin(), survivors.end());
    CHECK(cache.staged() == static_cast<int>(survivors.size()));
    CHECK(tokens_in(cache, 0, static_cast<int>(expected.size())) == expected);
  }
}

TEMPLATE_TEST_CASE("keys follow commits, truncations and snapshots", "", float, fd::f16, fd::q8_0) {
  // Ids stay below 64: their marks are exact in an f16.
  std::mt19937 random(12);
  fd::LinearCache<TestType> cache(shape_of<TestType>(256));
  std::vector<fd::TokenId> expected;
  typename fd::LinearCache<TestType>::Snapshot snapshot;
  std::vector<fd::TokenId> at_snapshot;
  for (int step = 0; step < 400; ++step) {
    const unsigned what = random() % 16;
    if (what == 0) {
      const auto n = random() % (expected.size() + 1);
      cache.truncate(static_cast<int>(n));
      expected.resize(n);
    } else if (what == 1) {
      snapshot = cache.snapshot();
      at_snapshot = expected;
    } else if (what == 2) {
      cache.restore(snapshot);
      expected = at_snapshot;
    } else {
      const auto room = 200 - expected.size();
      const auto n = std::min<std::size_t>(room, 1 + random() % (what == 3 ? 80 : 7));
      std::vector<fd::TokenId> tokens;
      for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int>(random() % 64));
      stage(cache, chain(tokens));
      std::vector<fd::NodeIndex> path;
      for (std::size_t i = 0; i < n && random() % 8 != 0; ++i) path.push_back(static_cast<int>(i));
      cache.commit(path);
      expected.insert(expected.end(), tokens.begin(),
                      tokens.begin() + static_cast<std::ptrdiff_t>(path.size()));
      if (room < 20) {
        cache.truncate(33);
        expected.resize(std::min<std::size_t>(33, expected.size()));
      }
      cache.discard();
    }
    REQUIRE(cache.size() == static_cast<int>(expected.size()));
    REQUIRE(tokens_in(cache, 0, cache.size()) == expected);
  }
}

TEST_CASE("snapshot, restore and truncate") {
  fd::LinearCache<float> cache(shape_of<float>(), 32);
  stage(cache, chain({1, 2, 3, 4}));
  cache.commit(std::vector<fd::NodeIndex>{0, 1, 2, 3});
  const auto snapshot = cache.snapshot();
  cache.truncate(5);  // more than there is
  CHECK(cache.size() == 4);
  cache.truncate(1);
  CHECK(cache.size() == 1);
  stage(cache, chain({9, 9, 9}));
  cache.commit(std::vector<fd::NodeIndex>{0, 1, 2});
  cache.restore(snapshot);
  CHECK(cache.size() == 4);
  CHECK(tokens_in(cache, 0, 4) == std::vector<fd::TokenId>{1, 2, 3, 4});
  cache.restore({});
  CHECK(cache.size() == 0);
  fd::LinearCache<float> small(shape_of<float>(), 3);
  CHECK_THROWS_AS(small.restore(snapshot), fd::Error);
}

TEST_CASE("a snapshot that is not of this cache's shape is refused, and the cache stays") {
  fd::LinearCache<float> cache(shape_of<float>(), 32);
  stage(cache, chain({1, 2, 3}));
  cache.commit(std::vector<fd::NodeIndex>{0, 1, 2});
  const auto own = cache.snapshot();
  const auto refused = [&](auto&& change) {
    auto snapshot = own;
    change(snapshot);
    CHECK_THROWS_AS(cache.restore(snapshot), fd::Error);
    CHECK(tokens_in(cache, 0, cache.size()) == std::vector<fd::TokenId>{1, 2, 3});
  };
  refused([](auto& s) { s.size = 4; });
  refused([](auto& s) { s.size = 2; });
  refused([](auto& s) { s.size = -1; });
  refused([](auto& s) { s.size = -1, s.rows.clear(); });
  refused([](auto& s) { s.size = std::numeric_limits<int>::min(); });
  refused([](auto& s) { s.rows.clear(); });
  refused([](auto& s) { s.rows.push_back(s.rows.front()); });
  refused([](auto& s) { s.rows.front() = nullptr; });
  const auto refused_rows = [&](auto&& change) {
    refused([&](auto& s) {
      auto copy = *s.rows.front();
      change(copy);
      s.rows.front() = std::make_shared<const decltype(copy)>(std::move(copy));
    });
  };
  refused_rows([](auto& copy) { copy.n = 0; });
  refused_rows([](auto& copy) { copy.n = -3; });
  refused_rows([](auto& copy) { copy.n = std::numeric_limits<int>::max(); });
  refused_rows([](auto& copy) { copy.k.pop_back(); });
  refused_rows([](auto& copy) { copy.v.push_back({}); });
  refused_rows([](auto& copy) {  // an f16's
    copy.k.resize(copy.k.size() / 2);
    copy.v.resize(copy.v.size() / 2);
  });
  fd::CacheShape other = shape_of<float>();
  other.layers.push_back(other.layers[0]);
  CHECK_THROWS_AS(fd::LinearCache<float>(other, 32).restore(own), fd::Error);
}

TEST_CASE("a snapshot fits caches of its own formats, whether the type names them or the shape") {
  using Mixed = fd::cpu::Rows<fd::q8_0, fd::f16>;
  fd::CacheShape shape{2, 3, 64, 64};
  shape.formats = {fd::RowFormat::kQ8_0, fd::RowFormat::kF16};
  fd::LinearCache<Mixed> typed(shape, 64);
  std::vector<fd::TokenId> tokens(40);
  std::vector<fd::NodeIndex> path(40);
  std::iota(path.begin(), path.end(), 0);
  typed.stage(chain(tokens));
  std::vector<float> row(64, 3.0f);
  for (int i = 0; i < 40; ++i) typed.layer(1).put(2, i, row, row);
  typed.commit(path);
  const auto snapshot = typed.snapshot();
  REQUIRE(snapshot.rows.size() == 1);
  CHECK(snapshot.rows[0]->k.size() == 2 * 3 * 40 * 2 * sizeof(fd::q8_0));
  CHECK(snapshot.rows[0]->v.size() == 2 * 3 * 40 * 64 * sizeof(fd::f16));

  fd::LinearCache<fd::cpu::AnyRows> any(shape, 64);
  any.restore({snapshot.size, 0, snapshot.formats, snapshot.rows});
  std::vector<float> key(64), value(64);
  any.layer(1).get_key(2, 39, key);
  any.layer(1).get_value(2, 39, value);
  CHECK(std::abs(key[63] - 3.0f) < 0.01f);
  CHECK(value[63] == 3.0f);

  const fd::RowFormats swapped{shape.formats.v, shape.formats.k};
  const fd::RowFormats as_long{shape.formats.k, fd::RowFormat::kBF16};
  for (const fd::RowFormats formats : {swapped, as_long}) {
    shape.formats = formats;
    fd::LinearCache<fd::cpu::AnyRows> other(shape, 64);
    CHECK_THROWS_AS(other.restore({snapshot.size, 0, snapshot.formats, snapshot.rows}), fd::Error);
  }
}

TEMPLATE_TEST_CASE("what is moved takes all along, and what is moved from holds nothing", "", float,
                   fd::f16, fd::q8_0) {
  using Cache = fd::LinearCache<TestType>;
  Cache cache(shape_of<TestType>(), 64);
  std::vector<fd::TokenId> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 1);
  stage(cache, chain(tokens));
  std::vector<fd::NodeIndex> path(40);
  std::iota(path.begin(), path.end(), 0);
  cache.commit(path);
  const auto snapshot = cache.snapshot();
  stage(cache, {{50, -1}, {51, -1}, {52, 0}});

  Cache moved = std::move(cache);
  CHECK(moved.staged() == 3);
  moved.commit(std::vector<fd::NodeIndex>{0, 2});
  CHECK(tokens_in(moved, 40, 2) == std::vector<fd::TokenId>{50, 52});

  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  CHECK(cache.size() == 0);
  CHECK(cache.capacity() == 0);
  CHECK(cache.staged() == 0);
  cache.discard();
  cache.truncate(5);
  cache.commit({});
  cache.restore({});
  CHECK(cache.snapshot().rows.empty());
  CHECK_THROWS_AS(cache.stage(chain({1})), fd::Error);
  CHECK_THROWS_AS(cache.restore(snapshot), fd::Error);
  cache = std::move(moved);
  CHECK(tokens_in(cache, 38, 4) == std::vector<fd::TokenId>{39, 40, 50, 52});
  CHECK(moved.capacity() == 0);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("a cache refuses what it cannot hold and stays as it was") {
  fd::LinearCache<float> cache(shape_of<float>(), 16, 4);
  CHECK_THROWS_AS(cache.stage(chain({1, 2, 3, 4, 5})), fd::Error);
  cache.stage(chain({1, 2, 3, 4}));  // as many as it was made for
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{5, 3}}), fd::Error);
  CHECK(cache.staged() == 4);
  cache.discard();
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, 0}}), fd::Error);
  CHECK_THROWS_AS(cache.stage(std::vector<fd::Node>{{1, -2}}), fd::Error);
  CHECK(cache.staged() == 0);
  CHECK_THROWS_AS(fd::LinearCache<float>(fd::CacheShape{1, 1, 0, 8}), fd::Error);
  CHECK_THROWS_AS(fd::LinearCache<fd::q8_0>(fd::CacheShape{1, 1, 96, 8}), fd::Error);
  const fd::CacheShape huge{1 << 10, 1 << 26, 1 << 26, 1 << 26};
  CHECK_THROWS_AS(fd::LinearCache<float>(huge), fd::Error);
}
