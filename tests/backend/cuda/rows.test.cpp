#include <foredraft/backend/cuda/rows.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using on_device::Device;
template <typename K, typename V = K>
using Rows = fd::cuda::Rows<Device, K, V>;
using AnyRows = fd::cuda::AnyRows<Device>;
static_assert(fd::RingStorage<Rows<float>> && fd::RingStorage<Rows<fd::q8_0, fd::f16>> &&
              fd::RingStorage<AnyRows>);

namespace {

/// Two layers whose rows have three elements and five. @param window  of the first
template <typename S>
fd::CacheShape shape_of(int window = 0) {
  constexpr int kValues = fd::kValuesPerElement<S>;
  return fd::CacheShape({{2, 3 * kValues, window}, {1, 5 * kValues}}, 64);
}
const fd::CacheShape kShape = shape_of<float>();

template <typename S>
S element_of(float value) {
  if constexpr (fd::kValuesPerElement<S> == 1) {
    return S(value);
  } else {
    std::array<float, fd::kValuesPerElement<S>> values;
    values.fill(value);
    return S(values.data());
  }
}
/// The inverse, of whole numbers.
template <typename S>
float value_of(const S& element) {
  if constexpr (fd::kValuesPerElement<S> == 1) return static_cast<float>(element);
  if constexpr (fd::kValuesPerElement<S> != 1) return std::round(element[31]);
}

/// Row `row` of every layer and head becomes `value`, whatever its format.
void put(const fd::cuda::StoredRows& rows, int place, int n_heads, float value) {
  fd::with_element(rows.format, [&]<typename S>(fd::Element<S>) {
    const std::vector<S> row(fd::idx(rows.row_bytes) / sizeof(S), element_of<S>(value));
    for (int head = 0; head < n_heads; ++head) {
      Device::current().upload(reinterpret_cast<std::byte*>(rows.row<S>(head, place)),
                               reinterpret_cast<const std::byte*>(row.data()),
                               row.size() * sizeof(S));
    }
  });
}
void put(const fd::cuda::KeyValues& kv, int layer, int row, float value) {
  put(kv.k, kv.ring.place(row), 2 - layer, value);
  put(kv.v, kv.ring.place(row), 2 - layer, -value);
}
void put(AnyRows& rows, int row, float value) {
  for (int layer = 0; layer < 2; ++layer) put(rows.layer(layer), layer, row, value);
}

/// Elements of a copy.
template <typename S>
std::vector<S> elements(const std::vector<std::byte>& bytes) {
  std::vector<S> values(bytes.size() / sizeof(S));
  std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
  return values;
}
struct Copies {
  std::vector<std::byte> k, v;
};
Copies copies_of(const AnyRows& rows, int begin, int end) {
  Copies copies;
  rows.copy_to(begin, end, copies.k, copies.v);
  REQUIRE(copies.k.size() == rows.key_elements(end - begin));
  REQUIRE(copies.v.size() == rows.value_elements(end - begin));
  return copies;
}

/// What the committed rows hold, which has to be the same in all layers and heads.
template <typename K, typename V>
std::vector<float> held(const Rows<K, V>& rows) {
  const Copies copies = copies_of(rows, 0, rows.size());
  const std::vector<K> k = elements<K>(copies.k);
  const std::vector<V> v = elements<V>(copies.v);
  REQUIRE(v.size() == k.size());  // as many blocks in q8_0 as elements of others
  const auto n = fd::idx(rows.size());
  std::vector<float> values;
  for (std::size_t row = 0; row < n; ++row) values.push_back(value_of(k[3 * row]));
  int wrong = 0;
  for (std::size_t i = 0; i < k.size(); ++i) {
    const std::size_t row = i < 6 * n ? i / 3 % n : (i - 6 * n) / 5;
    wrong += value_of(k[i]) != values[row] || value_of(v[i]) != -values[row];
  }
  CHECK(wrong == 0);
  return values;
}

/// What the rows say that a snapshot of a ring has of its first layer, head by head.
template <typename S>
std::vector<float> kept(const Rows<S>& rows) {
  const Copies copies = copies_of(rows, 0, rows.size());
  const std::vector<S> k = elements<S>(copies.k), v = elements<S>(copies.v);
  const std::size_t first = k.size() - 5 * fd::idx(rows.size());  // of the second layer
  std::vector<float> values;
  int wrong = 0;
  for (std::size_t i = 0; i < first; ++i) {
    if (i % 3 == 0) values.push_back(value_of(k[i]));
    wrong += value_of(k[i]) != values.back() || value_of(v[i]) != -values.back();
  }
  for (std::size_t i = first; i < k.size(); ++i) {
    wrong +=
        value_of(k[i]) != static_cast<float>((i - first) / 5) || value_of(v[i]) != -value_of(k[i]);
  }
  CHECK(wrong == 0);
  return values;
}

/// The numbers of some rows, for both heads.
std::vector<float> twice(std::vector<std::pair<int, int>> ranges) {
  std::vector<float> numbers;
  for (int head = 0; head < 2; ++head) {
    for (const auto& [begin, end] : ranges) {
      for (int row = begin; row < end; ++row) numbers.push_back(static_cast<float>(row));
    }
  }
  return numbers;
}

/// Rows 0 .. n - 1, each saying its number.
void extend(AnyRows& rows, int n) {
  while (rows.size() < n) {
    rows.stage(1);
    put(rows, rows.size(), static_cast<float>(rows.size()));
    rows.commit(1);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("rows are committed, moved, copied and restored", "", float, fd::f16, fd::bf16,
                   fd::q8_0) {
  Rows<TestType> rows(shape_of<TestType>(), 200, true);
  for (int row = 0; row < 6; ++row) put(rows, row, static_cast<float>(row + 1));
  rows.commit(2);
  CHECK(held(rows) == std::vector<float>{1, 2});
  const on_device::Launches launches;
  rows.move(3, 2);
  rows.move(5, 3);
  rows.move(3, 4);
  CHECK(launches.are(0));
  rows.commit(3);
  CHECK(launches.are(1));  // one kernel for all moves
  CHECK(held(rows) == std::vector<float>{1, 2, 4, 6, 6});

  const Copies all = copies_of(rows, 0, 5), middle = copies_of(rows, 1, 4);
  rows.truncate(1);
  CHECK(rows.size() == 1);
  put(rows, 1, 9.0f);
  rows.commit(1);
  CHECK(held(rows) == std::vector<float>{1, 9});
  rows.truncate(0);
  rows.append(5, all.k, all.v);
  CHECK(held(rows) == std::vector<float>{1, 2, 4, 6, 6});
  rows.append(3, middle.k, middle.v);
  CHECK(held(rows) == std::vector<float>{1, 2, 4, 6, 6, 2, 4, 6});
  rows.truncate(5);
  rows.truncate(100);
  CHECK(rows.size() == 5);

  Rows<TestType> moved = std::move(rows);
  CHECK(moved.size() == 5);
  CHECK(rows.size() == 0);
  CHECK(held(moved) == std::vector<float>{1, 2, 4, 6, 6});
}

TEST_CASE("keys and values have formats of their own, named by the type or by the shape") {
  fd::CacheShape shape = shape_of<fd::q8_0>();
  shape.formats = {fd::RowFormat::kQ8_0, fd::RowFormat::kF32};
  AnyRows named(shape, 20, false);
  Rows<fd::q8_0, float> typed(shape_of<fd::q8_0>(), 20, false);
  for (AnyRows* rows : {&named, static_cast<AnyRows*>(&typed)}) {
    CHECK(rows->layer(0).k.format == fd::RowFormat::kQ8_0);
    CHECK(rows->layer(0).v.format == fd::RowFormat::kF32);
    for (int row = 0; row < 4; ++row) put(*rows, row, static_cast<float>(row + 1));
    rows->move(3, 1);
    rows->commit(2);
    const Copies copies = copies_of(*rows, 0, 2);
    const auto k = elements<fd::q8_0>(copies.k);
    const auto v = elements<float>(copies.v);
    REQUIRE(k.size() == 2 * (2 * 3 + 5));
    REQUIRE(v.size() == 32 * k.size());
    for (std::size_t i = 0; i < k.size(); ++i) {
      const std::size_t row = i < 12 ? i / 3 % 2 : (i - 12) / 5;
      CHECK(value_of(k[i]) == (row == 0 ? 1.0f : 4.0f));
      for (std::size_t d = 0; d < 32; ++d) CHECK(v[32 * i + d] == -value_of(k[i]));
    }
  }
  CHECK(AnyRows::bytes(shape, 10) == (34.0 + 4 * 32) * 11 * 10);
  shape.formats = {fd::RowFormat::kF16, fd::RowFormat::kF16};
  CHECK(AnyRows::bytes(shape, 10) == 2.0 * 2 * 32 * 11 * 10);
}

TEST_CASE("every layer begins where a device aligns") {
  Rows<float> rows(fd::CacheShape({{1, 3}, {1, 4}}, 64), 5, false);
  for (const fd::cuda::StoredRows& part : {rows.layer(1).k, rows.layer(1).v}) {
    CHECK(reinterpret_cast<std::uintptr_t>(part.data) % 256 == 0);
  }
}

TEST_CASE("more moves than a launch makes are made in order") {
  Rows<float> rows(kShape, 200, false);
  put(rows, 0, 7.0f);
  for (int row = 1; row < 150; ++row) put(rows, row, 0.0f);
  for (int row = 0; row < 149; ++row) rows.move(row, row + 1);
  rows.commit(150);
  CHECK(held(rows) == std::vector<float>(150, 7.0f));
}

#ifndef __CUDACC__  // a GPU does not know what was never written
TEST_CASE("an error of the device in a commit is thrown later") {
  Rows<float> rows(kShape, 10, false);
  rows.move(3, 2);  // row 3 was never written
  rows.commit(1);
  CHECK(code_of([] { Device::current().finish(); }) == fd::ErrorCode::kDevice);
  CHECK_NOTHROW(Device::current().finish());
}
#endif

TEST_CASE("shapes that no memory has") {
  CHECK(code_of([] { Rows<float>(fd::CacheShape({{0, 3}}, 4), 4, false); }) ==
        fd::ErrorCode::kInvalidOption);
  const fd::CacheShape huge({{1 << 26, 1 << 26}}, 4);
  CHECK(code_of([&] { Rows<float>(huge, 1 << 26, false); }) == fd::ErrorCode::kOutOfMemory);
  CHECK(Rows<fd::f16>::bytes(kShape, 10) == 2.0 * 2 * 11 * 10);
  CHECK(code_of([] { Rows<fd::q8_0>(fd::CacheShape({{1, 48}}, 4), 4, false); }) ==
        fd::ErrorCode::kInvalidOption);
  CHECK(Rows<fd::q8_0>::bytes(shape_of<fd::q8_0>(), 10) == 2.0 * 34 * 11 * 10);
}

TEMPLATE_TEST_CASE("a layer with a window is a ring, and its snapshot what the next row sees", "",
                   float, fd::q8_0) {
  const fd::CacheShape shape = shape_of<TestType>(10);
  Rows<TestType> rows(shape, 300, false, 20);
  CHECK_FALSE(rows.keeps_all());
  CHECK(rows.layer(0).ring.length == 32);
  CHECK(rows.layer(0).k.head_bytes == 32 * 3 * sizeof(TestType));
  CHECK(rows.layer(1).ring.length == 0);
  CHECK(Rows<TestType>::bytes(shape, 300, 20) == 2.0 * sizeof(TestType) * (2 * 3 * 32 + 5 * 300));
  for (int n = 1; n < 100; ++n) {
    extend(rows, n);
    REQUIRE(kept(rows) == twice({{std::max(0, n - 9), n}}));
    REQUIRE(rows.holds(n - 1));
  }
  CHECK(rows.holds(0));
  CHECK(rows.holds(76));  // reads 67 on, the place of which is the next to be taken
  CHECK_FALSE(rows.holds(75));
  const Copies copies = copies_of(rows, 0, 99);
  rows.truncate(76);
  CHECK(kept(rows) == twice({{67, 76}}));
  CHECK_FALSE(rows.holds(75));

  Rows<TestType> others(shape, 400, false, 9);
  others.append(99, copies.k, copies.v);
  CHECK(kept(others) == twice({{90, 99}}));
  CHECK(others.holds(99));
  CHECK_FALSE(others.holds(98));  // which would read 89
  extend(others, 140);
  CHECK(kept(others) == twice({{131, 140}}));
  Rows<TestType> moved = std::move(others);
  CHECK(moved.holds(117));  // reads 108 on, the place of which is the next to be taken
  CHECK_FALSE(moved.holds(116));
  moved.truncate(0);
  extend(moved, 5);
  CHECK(moved.holds(2));
  CHECK(kept(moved) == twice({{0, 5}}));
}

TEST_CASE("sinks lie before the ring, and in its snapshots") {
  fd::CacheShape shape = shape_of<float>(10);
  shape.sinks = 4;
  Rows<float> rows(shape, 300, false, 20);
  CHECK(rows.layer(0).sinks == 4);
  CHECK(rows.layer(1).sinks == 0);
  CHECK(rows.layer(0).ring.pinned == 32);
  CHECK(rows.layer(0).v.head_bytes == 64 * 3 * sizeof(float));
  for (int n = 1; n < 150; ++n) {
    extend(rows, n);
    const bool whole = n - 9 < 32;
    REQUIRE(kept(rows) == (whole ? twice({{0, n}}) : twice({{0, 4}, {n - 9, n}})));
  }
  const Copies copies = copies_of(rows, 0, 149);
  Rows<float> others(shape, 300, false, 20);
  others.append(149, copies.k, copies.v);
  CHECK(kept(others) == twice({{0, 4}, {140, 149}}));
  CHECK(Rows<float>(shape, 300, false).layer(0).sinks == 4);  // where all rows are kept, too
  CHECK(Rows<float>(shape, 300, false).layer(0).ring.length == 0);
}

TEST_CASE("rows of a ring are moved in their places") {
  Rows<float> rows(shape_of<float>(10), 300, false, 20);
  extend(rows, 62);
  rows.stage(6);
  for (int row = 62; row < 68; ++row) put(rows, row, static_cast<float>(row + 1));
  rows.move(67, 62);  // across the end of the ring
  rows.move(65, 63);
  put(rows.layer(1), 1, 62, 62.0f);  // the layer without a ring says what it should
  put(rows.layer(1), 1, 63, 63.0f);
  rows.commit(2);
  CHECK(kept(rows) == [] {
    std::vector<float> expected = twice({{55, 64}});
    for (const std::size_t head : {0, 9}) expected[head + 7] = 68.0f, expected[head + 8] = 66.0f;
    return expected;
  }());
}

TEST_CASE("a tree's path is committed by one kernel") {
  fd::LinearCache<Rows<float>> cache(kShape, 20, 16);
  cache.stage(std::vector<fd::Node>{{1, -1}, {2, 0}, {3, 0}, {4, 2}, {5, 3}});
  for (int i = 0; i < 2; ++i) (void)cache.layer(i);
  // Whatever forwards the nodes writes their rows.
  const auto kv0 = cache.layer(0), kv1 = cache.layer(1);
  std::vector<float> values;
  const auto fill = [&](const fd::cuda::KeyValues& kv, int n_heads, int d_head) {
    for (int head = 0; head < n_heads; ++head) {
      values.clear();
      for (int node = 0; node < 5; ++node)
        values.insert(values.end(), fd::idx(d_head), static_cast<float>(node));
      for (const fd::cuda::StoredRows& to : {kv.k, kv.v}) {
        Device::current().upload(reinterpret_cast<std::byte*>(to.row<float>(head, 0)),
                                 reinterpret_cast<const std::byte*>(values.data()),
                                 values.size() * sizeof(float));
      }
    }
  };
  fill(kv0, 2, 3);
  fill(kv1, 1, 5);
  const on_device::Launches launches;
  cache.commit(std::vector<fd::NodeIndex>{0, 2, 3});
  CHECK(launches.are(1));
  const auto snapshot = cache.snapshot();
  CHECK(snapshot.size == 3);
  REQUIRE(snapshot.rows.size() == 1);
  const auto& [n, key_bytes, value_bytes] = *snapshot.rows[0];
  const auto k = elements<float>(key_bytes), v = elements<float>(value_bytes);
  CHECK(n == 3);
  CHECK(std::vector<float>(k.begin(), k.begin() + 9) ==
        std::vector<float>{0, 0, 0, 2, 2, 2, 3, 3, 3});
  CHECK(std::vector<float>(v.end() - 5, v.end()) == std::vector<float>{3, 3, 3, 3, 3});
}
