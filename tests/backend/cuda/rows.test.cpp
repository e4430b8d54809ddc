#include <foredraft/backend/cuda/rows.hpp>

#include <utility>
#include <vector>

#include <foredraft/cache/linear.hpp>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using on_device::Device;
template <typename S>
using Rows = fd::cuda::Rows<S, Device>;
static_assert(fd::RowStorage<Rows<float>> && fd::RowStorage<Rows<fd::f16>>);

namespace {

const fd::CacheShape kShape({{2, 3}, {1, 5}}, 64);

/// Row `row` of every layer and head becomes `value`.
template <typename S>
void put(Rows<S>& rows, int row, float value) {
  for (int layer = 0; layer < 2; ++layer) {
    const auto kv = rows.layer(layer);
    const int d_head = layer == 0 ? 3 : 5;
    for (int head = 0; head < 2 - layer; ++head) {
      const std::vector<S> keys(fd::idx(d_head), S(value)), values(fd::idx(d_head), S(-value));
      const auto upload = [&](S* to, const std::vector<S>& from) {
        Device::current().upload(reinterpret_cast<std::byte*>(to),
                                 reinterpret_cast<const std::byte*>(from.data()),
                                 from.size() * sizeof(S));
      };
      upload(kv.k + kv.at(head, row, d_head), keys);
      upload(kv.v + kv.at(head, row, d_head), values);
    }
  }
}

/// What the committed rows hold, which has to be the same in all layers and heads.
template <typename S>
std::vector<float> held(const Rows<S>& rows) {
  std::vector<S> k, v;
  rows.copy_to(0, rows.size(), k, v);
  REQUIRE(k.size() == rows.key_elements(rows.size()));
  REQUIRE(v.size() == k.size());
  const auto n = fd::idx(rows.size());
  std::vector<float> values;
  for (std::size_t row = 0; row < n; ++row) values.push_back(static_cast<float>(k[3 * row]));
  int wrong = 0;
  for (std::size_t i = 0; i < k.size(); ++i) {
    const std::size_t row = i < 6 * n ? i / 3 % n : (i - 6 * n) / 5;
    wrong += static_cast<float>(k[i]) != values[row] || static_cast<float>(v[i]) != -values[row];
  }
  CHECK(wrong == 0);
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("rows are committed, moved, copied and restored", "", float, fd::f16) {
  Rows<TestType> rows(kShape, 200, true);
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

  std::vector<TestType> k, v;
  rows.copy_to(0, 5, k, v);
  std::vector<TestType> middle_k, middle_v;
  rows.copy_to(1, 4, middle_k, middle_v);
  rows.truncate(1);
  CHECK(rows.size() == 1);
  put(rows, 1, 9.0f);
  rows.commit(1);
  CHECK(held(rows) == std::vector<float>{1, 9});
  rows.truncate(0);
  rows.append(5, k, v);
  CHECK(held(rows) == std::vector<float>{1, 2, 4, 6, 6});
  rows.append(3, middle_k, middle_v);
  CHECK(held(rows) == std::vector<float>{1, 2, 4, 6, 6, 2, 4, 6});
  rows.truncate(5);
  rows.truncate(100);
  CHECK(rows.size() == 5);

  Rows<TestType> moved = std::move(rows);
  CHECK(moved.size() == 5);
  CHECK(rows.size() == 0);
  CHECK(held(moved) == std::vector<float>{1, 2, 4, 6, 6});
}

TEST_CASE("more moves than a launch makes are made in order") {
  Rows<float> rows(kShape, 200, false);
  put(rows, 0, 7.0f);
  for (int row = 1; row < 150; ++row) put(rows, row, 0.0f);
  for (int row = 0; row < 149; ++row) rows.move(row, row + 1);
  rows.commit(150);
  CHECK(held(rows) == std::vector<float>(150, 7.0f));
}

TEST_CASE("an error of the device in a commit is thrown later") {
  Rows<float> rows(kShape, 10, false);
  rows.move(3, 2);  // row 3 was never written
  rows.commit(1);
  CHECK(code_of([] { Device::current().finish(); }) == fd::ErrorCode::kDevice);
  CHECK_NOTHROW(Device::current().finish());
}

TEST_CASE("shapes that no memory has") {
  CHECK(code_of([] { Rows<float>(fd::CacheShape({{0, 3}}, 4), 4, false); }) ==
        fd::ErrorCode::kInvalidOption);
  const fd::CacheShape huge({{1 << 26, 1 << 26}}, 4);
  CHECK(code_of([&] { Rows<float>(huge, 1 << 26, false); }) == fd::ErrorCode::kOutOfMemory);
  CHECK(Rows<fd::f16>::bytes(kShape, 10) == 2.0 * 2 * 11 * 10);
}

TEST_CASE("a tree's path is committed by one kernel") {
  fd::LinearCache<Rows<float>> cache(kShape, 20, 16);
  cache.stage(std::vector<fd::Node>{{1, -1}, {2, 0}, {3, 0}, {4, 2}, {5, 3}});
  for (int i = 0; i < 2; ++i) (void)cache.layer(i);
  // Whatever forwards the nodes writes their rows.
  const auto kv0 = cache.layer(0), kv1 = cache.layer(1);
  std::vector<float> values;
  const auto fill = [&](const fd::cuda::KeyValues<float>& kv, int n_heads, int d_head) {
    for (int head = 0; head < n_heads; ++head) {
      values.clear();
      for (int node = 0; node < 5; ++node)
        values.insert(values.end(), fd::idx(d_head), static_cast<float>(node));
      for (float* to : {kv.k, kv.v}) {
        Device::current().upload(reinterpret_cast<std::byte*>(to + kv.at(head, 0, d_head)),
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
  const auto& [n, k, v] = *snapshot.rows[0];
  CHECK(n == 3);
  CHECK(std::vector<float>(k.begin(), k.begin() + 9) ==
        std::vector<float>{0, 0, 0, 2, 2, 2, 3, 3, 3});
  CHECK(std::vector<float>(v.end() - 5, v.end()) == std::vector<float>{3, 3, 3, 3, 3});
}
