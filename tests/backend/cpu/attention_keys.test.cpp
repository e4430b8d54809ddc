#include <foredraft/backend/cpu/attention_keys.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
using Arch = fd::cpu::NativeArch;  // attention.test.cpp covers the others
using Keys = fd::cpu::AttentionKeys<Arch>;
using fd::cpu::QueryTile;

namespace {

constexpr int kRows = 96;
constexpr int kHead = 64;

/// Keys as they are stored, and queries with their scores.
struct Case {
  std::vector<std::byte> blocks;  // as a cache has them
  std::vector<float> keys;        // what the rows say
  std::vector<float> q, scores;
  std::vector<std::byte> codes;
  std::vector<float> workspace;
  QueryTile tile;

  explicit Case(fd::RowFormat format) : keys(kRows * kHead), q(QueryTile::kQueries * kHead) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& x : keys) x = normal(random);
    for (float& x : q) x = normal(random);
    const std::size_t row = fd::row_bytes(format, kHead);
    std::vector<std::byte> rows(kRows * row);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::span<float> values(&keys[r * kHead], kHead);
      fd::store_row(format, values, &rows[r * row]);
      fd::load_row(format, &rows[r * row], values);
    }
    blocks = rows;
    fd::with_element(format, [&]<typename K>(fd::Element<K>) {
      for (std::size_t at = 0; at < rows.size(); at += fd::cpu::kKeyBlock * row)
        fd::cpu::store_keys<K>(&rows[at], kHead, &blocks[at]);
    });
    scores.resize(QueryTile::kQueries * QueryTile::kPositions);
    workspace.resize(Keys::kFloats * kHead);
    codes.resize(fd::cpu::Activations::bytes(fd::cpu::ActivationFormat::kInt8Per32,
                                             QueryTile::kQueries, kHead));
    tile.d_head = tile.d = kHead;
    tile.q = q.data();
    tile.scores = scores.data();
    tile.codes = {fd::cpu::ActivationFormat::kInt8Per32, QueryTile::kQueries, kHead, codes.data()};
    for (int i = 0; i < QueryTile::kQueries; ++i)
      fd::cpu::quantize_row<Arch>(tile.q + i * kHead, tile.codes, i, 0, kHead);
  }

  float score(int query, int row) const {
    double sum = 0;
    for (int d = 0; d < kHead; ++d) {
      sum += static_cast<double>(q[fd::idx(query * kHead + d)]) * keys[fd::idx(row * kHead + d)];
    }
    return static_cast<float>(sum);
  }
  float at(int query, int p) const { return scores[fd::idx(query * QueryTile::kPositions + p)]; }
};

}  // namespace

TEMPLATE_TEST_CASE("scores with stored blocks and gathered rows", "", float, fd::f16, fd::bf16,
                   fd::q8_0) {
  constexpr fd::RowFormat kFormat = fd::kFormatOf<TestType>;
  Case c(kFormat);
  // Queries in q8_0 are rounded, too: half a step of |q| < 4 for each of the products.
  const float bound = std::is_same_v<TestType, fd::q8_0> ? 0.5f : 1e-4f;
  for (const int n_queries : {1, 3, 9, 32}) {
    CAPTURE(n_queries);
    Keys whole(kFormat, c.blocks.data(), kHead, kHead, c.workspace.data());
    CHECK(whole.quantized() == std::is_same_v<TestType, fd::q8_0>);
    whole.take(32, n_queries);
    whole.score(c.tile, 0, n_queries, 64);
    for (int i = 0; i < n_queries; ++i) {
      for (int p = 0; p < 32; ++p) CHECK(std::abs(c.at(i, p) - c.score(i, 32 + p)) < bound);
    }
    const std::vector<float> before = c.scores;
    // The same rows by name: the same bits.
    std::vector<std::int32_t> rows;
    for (int p = 0; p < 32; ++p) rows.push_back(32 + p);
    Keys gathered(kFormat, c.blocks.data(), kHead, kHead, c.workspace.data());
    gathered.gather(rows.data(), 32);
    gathered.score(c.tile, 0, n_queries, -1);
    CHECK(c.scores == before);
    // Any rows, in a block that most of them are in or not, and queries that do not begin at 0.
    for (const std::vector<std::int32_t>& some :
         {std::vector<std::int32_t>{80, 3, 41}, {64, 65, 7, 67, 95}, {33, 32, 34}}) {
      gathered.gather(some.data(), static_cast<int>(some.size()));
      gathered.score(c.tile, n_queries - 1, n_queries, -1);
      for (std::size_t p = 0; p < some.size(); ++p) {
        CHECK(std::abs(c.at(n_queries - 1, static_cast<int>(p)) - c.score(n_queries - 1, some[p])) <
              bound);
      }
    }
    for (const int n : {1, 3, 16, 17, 31, 32}) {
      CAPTURE(n);
      rows.clear();
      for (int p = 0; p < n; ++p) rows.push_back((p * 7 + 3) % 40);
      gathered.gather(rows.data(), n);
      gathered.score(c.tile, 0, n_queries, -1);
      for (int i = 0; i < n_queries; ++i) {
        for (int p = 0; p < n; ++p)
          CHECK(std::abs(c.at(i, p) - c.score(i, rows[fd::idx(p)])) < bound);
      }
    }
  }
}
