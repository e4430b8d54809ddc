#include <foredraft/backend/cpu/value_codes.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/rounded_weights.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using Arch = fd::cpu::NativeArch;  // attention.test.cpp covers the others
using Codes = fd::cpu::ValueCodes<Arch>;
using fd::cpu::QueryTile;
using fd::cpu::unroll;

namespace {

constexpr int kBlock = Codes::kBlock;
constexpr int kHead = 128;
constexpr int kElements = kHead / fd::q8_0::kValues;

/// A block of values, and queries that see all of it.
struct Block {
  explicit Block(unsigned seed) : random(seed) {
    for (int i = 0; i < kBlock * kElements; ++i) {
      std::vector<float> v(fd::q8_0::kValues);
      for (float& x : v) x = normal(random);
      rows.emplace_back(v.data());
    }
    for (float& w : weights) w = std::exp(2 * normal(random));
    tile.d_head = tile.d = kHead;
    tile.scores = weights.data();
    tile.sum_v = sums.data();
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  float& weight(int query, int p) { return weights[fd::idx(query * kBlock + p)]; }
  fd::q8_0& value(int p, int element) { return rows[fd::idx(p * kElements + element)]; }
  float sum(int query, int d) const { return sums[fd::idx(query * kHead + d)]; }

  /// The queries first .. first + Q - 1, behind sums of 1.
  template <int Q>
  void add(int first) {
    sums.assign(sums.size(), 1.0f);
    std::vector<float> memory(fd::idx(Codes::kFloats * kHead));
    Codes codes(kHead, memory.data());
    codes.take(rows.data());
    codes.add<Q>(tile, first, nullptr);
  }

  /// How far a sum is from its definition, beyond what the rounding of a part may explain.
  double error(int query, int d) {
    const int element = d / fd::q8_0::kValues;
    const RoundedWeights rounded(
        [&](std::size_t p) { return double{weight(query, static_cast<int>(p))}; },
        [&](std::size_t p) {
          return double{static_cast<float>(value(static_cast<int>(p), element).scale)};
        });
    double expected = 1;
    double slack = 0;
    for (int p = 0; p < kBlock; ++p) {
      const int code = value(p, element).codes[d % fd::q8_0::kValues];
      expected += rounded.of_codes[fd::idx(p)] * code;
      slack += rounded.slack[fd::idx(p)] * std::abs(code);
    }
    return std::abs(sum(query, d) - expected) - slack;
  }

  std::mt19937 random;
  std::normal_distribution<float> normal;
  std::vector<fd::q8_0> rows;
  std::vector<float> weights = std::vector<float>(fd::idx(QueryTile::kQueries * kBlock));
  std::vector<float> sums = std::vector<float>(fd::idx(QueryTile::kQueries * kHead));
  QueryTile tile;
};

}  // namespace

TEST_CASE("four rows of bytes side by side") {
  std::vector<std::int8_t> rows(4 * 16);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int8_t>(3 * i - 90);
  std::vector<std::int8_t> to(4 * 16);
  fd::cpu::interleave_four(&rows[0], &rows[16], &rows[32], &rows[48], to.data());
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < 16; ++i) CHECK(to[4 * i + row] == rows[16 * row + i]);
  }
}

TEST_CASE("weighted values of a whole block") {
  Block block(1);
  unroll<fd::cpu::kQueriesAtOnce<Arch>>([&](auto i) {
    constexpr int kQueries = i + 1;
    CAPTURE(kQueries);
    block.add<kQueries>(3);
    for (int q = 0; q < kQueries; ++q) {
      for (int d = 0; d < kHead; ++d) CHECK(block.error(3 + q, d) < 2e-4);
    }
    CHECK(block.sum(2, kHead - 1) == 1.0f);  // the queries beside them
    CHECK(block.sum(3 + kQueries, 0) == 1.0f);
  });
}

TEST_CASE("weights of a block that are nothing beside those before it") {
  Block block(2);
  for (int p = 0; p < kBlock; ++p) {
    block.weight(0, p) = 0.0f;
    block.weight(1, p) = std::numeric_limits<float>::denorm_min();
    block.weight(2, p) = p == 7 ? 1.0f : 0.0f;
  }
  block.add<1>(0);
  for (int d = 0; d < kHead; ++d) CHECK(block.sum(0, d) == 1.0f);
  block.add<1>(1);
  for (int d = 0; d < kHead; ++d) CHECK(block.sum(1, d) == 1.0f);
  block.add<1>(2);
  for (int d = 0; d < kHead; ++d) CHECK(block.error(2, d) < 1e-5);
}

TEST_CASE("values that are all zero, and one that is NaN") {
  Block block(3);
  const std::vector<float> zero(fd::q8_0::kValues);
  for (int p = 0; p < kBlock; ++p) block.value(p, 1) = fd::q8_0(zero.data());
  const std::vector<float> bad(fd::q8_0::kValues, std::numeric_limits<float>::infinity());
  for (const int p : {0, 5, 16, 31}) {
    const fd::q8_0 good = block.value(p, 2);
    block.value(p, 2) = fd::q8_0(bad.data());
    block.add<1>(0);
    for (int d = 0; d < kHead; ++d) {
      const int element = d / fd::q8_0::kValues;
      CHECK(std::isnan(block.sum(0, d)) == (element == 2));
      if (element == 1) CHECK(block.sum(0, d) == 1.0f);
    }
    block.value(p, 2) = good;
  }
}
