#include <foredraft/backend/cpu/attention_values.hpp>

#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "backend/cpu/rounded_weights.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using Arch = fd::cpu::NativeArch;  // attention.test.cpp covers the others
using Values = fd::cpu::AttentionValues<Arch>;
using fd::cpu::QueryTile;

TEMPLATE_TEST_CASE("weighted values of stored blocks and gathered rows", "", float, fd::f16,
                   fd::q8_0) {
  constexpr fd::RowFormat kFormat = fd::kFormatOf<TestType>;
  constexpr int kRows = 96;
  constexpr int kHead = 64;
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kHead);
  for (float& x : values) x = normal(random);
  const std::size_t row = fd::row_bytes(kFormat, kHead);
  std::vector<std::byte> stored(kRows * row);
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::span<float> of_row(&values[r * kHead], kHead);
    fd::store_row(kFormat, of_row, &stored[r * row]);
    fd::load_row(kFormat, &stored[r * row], of_row);
  }
  std::vector<float> weights(QueryTile::kQueries * QueryTile::kPositions);
  for (float& x : weights) x = std::abs(normal(random));
  std::vector<float> sums(QueryTile::kQueries * kHead);
  std::vector<float> workspace(Values::kFloats * kHead);
  QueryTile tile;
  tile.d_head = tile.d = kHead;
  tile.scores = weights.data();
  tile.sum_v = sums.data();

  const auto check = [&](int query, const std::vector<std::int32_t>& rows, int from, int n) {
    for (int d = 0; d < kHead; ++d) {
      double expected = 1;  // the sums begin at 1: values are added
      double slack = 0;
      const auto weight = [&](std::size_t p) { return double{weights[fd::idx(query * 32) + p]}; };
      if (std::is_same_v<TestType, fd::q8_0> && n - from == 32) {
        const auto element = [&](std::size_t p) {
          return reinterpret_cast<const fd::q8_0*>(&stored[fd::idx(rows[p]) * row]) + d / 32;
        };
        const RoundedWeights rounded(
            weight, [&](std::size_t p) { return double{static_cast<float>(element(p)->scale)}; });
        for (std::size_t p = 0; p < 32; ++p) {
          expected += rounded.of_codes[p] * element(p)->codes[d % 32];
          slack += rounded.slack[p] * std::abs(element(p)->codes[d % 32]);
        }
      } else {
        for (int p = from; p < n; ++p)
          expected += weight(fd::idx(p)) * values[fd::idx(rows[fd::idx(p)] * kHead + d)];
      }
      CHECK(std::abs(sums[fd::idx(query * kHead + d)] - expected) < 1e-4 + slack);
    }
  };
  std::vector<std::int32_t> whole;
  for (int p = 0; p < 32; ++p) whole.push_back(32 + p);
  for (int count = 1; count <= fd::cpu::kQueriesAtOnce<Arch>; ++count) {
    CAPTURE(count);
    Values part(kFormat, stored.data(), kHead, kHead, workspace.data());
    sums.assign(sums.size(), 1.0f);
    part.take(32, count);
    part.add(tile, 2, count, 0, 32, 64);
    for (int i = 0; i < count; ++i) check(2 + i, whole, 0, 32);
    CHECK(sums[2 * kHead - 1] == 1.0f);  // of the query before
    CHECK(sums[fd::idx((2 + count) * kHead)] == 1.0f);
    const std::vector<float> before = sums;
    sums.assign(sums.size(), 1.0f);
    part.gather(whole.data(), 32);
    part.add(tile, 2, count, 0, 32, -1);
    CHECK(sums == before);
    // Positions 1 and 2 of some rows.
    const std::vector<std::int32_t> some{80, 3, 41, 7};
    sums.assign(sums.size(), 1.0f);
    part.gather(some.data(), 4);
    part.add(tile, 0, count, 1, 3, -1);
    for (int i = 0; i < count; ++i) check(i, some, 1, 3);
  }
}

TEMPLATE_TEST_CASE("values become floats, padded to whole vectors", "", float, fd::f16, fd::bf16) {
  using Block = fd::cpu::ValueBlock<Arch, TestType>;
  for (const int d_head : {1, 6, 16, 40}) {
    CAPTURE(d_head);
    const int d = QueryTile::padded(d_head);
    std::vector<TestType> v;
    for (int i = 0; i < 40 * d_head; ++i) v.push_back(TestType(static_cast<float>(-i)));
    std::vector<float> values(fd::idx(32 * d), -1.0f);
    const auto check = [&](int n, auto row_of) {
      for (int p = 0; p < n; ++p) {
        for (int i = 0; i < d; ++i) {
          const float expected =
              i < d_head ? static_cast<float>(v[fd::idx(row_of(p) * d_head + i)]) : 0.0f;
          CHECK(values[fd::idx(p * d + i)] == expected);
        }
      }
    };
    Block::load_whole(v.data(), d_head, d, values.data());
    check(32, [](int p) { return p; });
    for (const int n : {1, 3, 16, 17, 31, 32}) {
      CAPTURE(n);
      std::vector<std::int32_t> rows;
      for (int p = 0; p < n; ++p) rows.push_back((p * 7 + 3) % 40);
      values.assign(values.size(), -1.0f);
      Block::load(v.data(), d_head, d, rows.data(), n, values.data());
      check(n, [&](int p) { return rows[fd::idx(p)]; });
      if (n < 32) CHECK(values[fd::idx(n * d)] == -1.0f);
    }
  }
}
