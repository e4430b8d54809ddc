#include <foredraft/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/chi_square.hpp"

namespace fd = foredraft;

namespace {

using Counter = std::array<std::uint32_t, 4>;

std::vector<fd::TokenId> ids_to(int n) {
  std::vector<fd::TokenId> ids(fd::idx(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// Weights that count how many of their runs were worked out.
class CountedWeights final : public fd::LazyWeights {
 public:
  /// @param slack  bounds are so many times the sums
  explicit CountedWeights(std::vector<double> weights, double slack = 1.0)
      : weights_(std::move(weights)) {
    for (std::size_t i = 0; i * kRun < weights_.size(); ++i)
      bounds_.push_back(slack * fd::sum(part(i)));
  }
  std::span<const double> bounds() const noexcept override { return bounds_; }
  std::span<const double> run(std::size_t i) noexcept override {
    ++looks;
    return part(i);
  }

  int looks = 0;

 private:
  std::span<const double> part(std::size_t i) const {
    return std::span(weights_).subspan(i * kRun, std::min(kRun, weights_.size() - i * kRun));
  }
  std::vector<double> weights_;
  std::vector<double> bounds_;
};

// One false alarm in a million for each test of this file, seeds fixed.
constexpr double kFalseAlarm = 1e-6;

}  // namespace

TEST_CASE("Philox4x32-10 gives the published numbers") {
  CHECK(fd::philox4x32({0, 0, 0, 0}, {0, 0}) ==
        Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(fd::philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      fd::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("categorical has the law of its weights, for sparse ids too") {
  const std::vector<double> weights{0.5, 4.0, 0.0, 1.0, 0.01, 2.5, 1.99};
  for (const auto& ids :
       {ids_to(7), std::vector<fd::TokenId>{3, 8, 9, 151, 4000, 151934, 151935}}) {
    fd::Philox rng(11);
    const int draws = 40000;
    std::vector<double> seen(weights.size()), expected(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) expected[i] = draws * weights[i] / 10.0;
    for (int i = 0; i < draws; ++i)
      seen[rng.categorical({fd::Purpose::kTargetSample, i, 0}, ids, weights)] += 1;
    CHECK(statistics::g_test(seen, expected) > kFalseAlarm);
  }
}

TEST_CASE("bernoulli has the law of its probability, and keeps to 0 and 1") {
  fd::Philox rng(12);
  for (const double p : {0.003, 0.25, 0.5, 0.9}) {
    const int draws = 40000;
    std::vector<double> seen(2);
    for (int i = 0; i < draws; ++i) seen[rng.bernoulli({fd::Purpose::kAccept, i, 3}, p)] += 1;
    CHECK(statistics::g_test(seen, {draws * (1 - p), draws * p}) > kFalseAlarm);
  }
  int wrong = 0;
  for (int i = 0; i < 10000; ++i) {
    wrong += rng.bernoulli({fd::Purpose::kAccept, i, 0}, 0.0);
    wrong += !rng.bernoulli({fd::Purpose::kAccept, i, 0}, 1.0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("answers belong to keys, not to the order of questions") {
  const auto ids = ids_to(20);
  const std::vector<double> weights(20, 1.0);
  std::vector<fd::RngKey> keys;
  for (const auto purpose :
       {fd::Purpose::kTargetSample, fd::Purpose::kDraft, fd::Purpose::kResidual}) {
    for (int i = 0; i < 8; ++i) keys.push_back({purpose, i / 2, i % 2});
  }
  fd::Philox forwards(5, 2);
  fd::Philox backwards(5, 2);
  std::vector<std::size_t> first, second;
  for (const fd::RngKey& key : keys) first.push_back(forwards.categorical(key, ids, weights));
  std::reverse(keys.begin(), keys.end());
  for (const fd::RngKey& key : keys) {
    backwards.bernoulli(key, 0.5);  // shares a block with ids 0 and 1 of the same key
    second.push_back(backwards.categorical(key, ids, weights));
  }
  std::reverse(second.begin(), second.end());
  CHECK(first == second);
}

TEST_CASE("keys, seeds and sequences that differ in one part are independent") {
  const auto ids = ids_to(4);
  const std::vector<double> weights(4, 1.0);
  struct Source {
    std::uint64_t seed;
    std::uint32_t sequence;
    fd::Purpose purpose;
    int node;
    int shift;  // of the position
  };
  const Source base{9, 0, fd::Purpose::kTargetSample, 0, 0};
  const std::vector<Source> others{
      {10, 0, fd::Purpose::kTargetSample, 0, 0},
      {9 | 1ull << 32, 0, fd::Purpose::kTargetSample, 0, 0},
      {9, 1, fd::Purpose::kTargetSample, 0, 0},
      {9, 0, fd::Purpose::kDraft, 0, 0},
      {9, 0, fd::Purpose::kResidual, 0, 0},
      {9, 0, fd::Purpose::kTargetSample, 1, 0},
      {9, 0, fd::Purpose::kTargetSample, 0, 1},
  };
  const auto draw = [&](const Source& s, int i) {
    return fd::Philox(s.seed, s.sequence)
        .categorical({s.purpose, 2 * i + s.shift, s.node}, ids, weights);
  };
  for (const Source& other : others) {
    const int draws = 4000;
    std::vector<double> pairs(16);
    for (int i = 0; i < draws; ++i) pairs[draw(base, i) * 4 + draw(other, i)] += 1;
    CHECK(statistics::g_test(pairs, std::vector<double>(16, draws / 16.0)) > kFalseAlarm / 7);
  }
}

TEST_CASE("no purpose has the numbers of another, at any node of a draft") {
  fd::Philox rng(9);
  std::set<std::uint64_t> seen;
  for (const auto purpose : {fd::Purpose::kTargetSample, fd::Purpose::kDraft, fd::Purpose::kAccept,
                             fd::Purpose::kResidual}) {
    for (fd::NodeIndex node = 0; node < 64; ++node) {
      std::uint64_t answers = 0;
      for (fd::Position position = 0; position < 64; ++position) {
        answers = answers << 1 | rng.bernoulli({purpose, position, node}, 0.5);
      }
      CHECK(seen.insert(answers).second);
    }
  }
}

TEST_CASE("within a block of ids, what else is on offer does not change who wins") {
  fd::Philox rng(3);
  const std::vector<fd::TokenId> ids{2, 5, 6, 9, 12, 13};
  const std::vector<double> weights{0.1, 0.3, 0.2, 0.05, 0.15, 0.2};
  int coupled = 0;
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    const fd::RngKey key{fd::Purpose::kTargetSample, i, 0};
    const fd::TokenId winner = ids[rng.categorical(key, ids, weights)];
    // Any subset with the winner, in which nobody else has gained, has the same winner.
    std::vector<fd::TokenId> fewer;
    std::vector<double> fewer_weights;
    for (std::size_t j = 0; j < ids.size(); ++j) {
      if (ids[j] != winner && (i >> j & 1)) continue;
      fewer.push_back(ids[j]);
      fewer_weights.push_back(weights[j] * (ids[j] == winner ? 1.0 : 0.5));
    }
    wrong += fewer[rng.categorical(key, fewer, fewer_weights)] != winner;
    // And another law agrees far more often than an independent draw, which would be right in 1
    // of 6.
    coupled +=
        ids[rng.categorical(key, ids, std::vector<double>{0.2, 0.2, 0.1, 0.1, 0.2, 0.2})] == winner;
  }
  CHECK(wrong == 0);
  CHECK(coupled > 1200);
}

TEST_CASE("a token of weight 0 never wins, however small the others") {
  fd::Philox rng(4);
  const auto ids = ids_to(4);
  for (const double weight : {5e-324, 1e-300, 1e300}) {
    int wrong = 0;
    for (int i = 0; i < 500; ++i) {
      wrong += rng.categorical({fd::Purpose::kResidual, i, 0}, ids,
                               std::vector<double>{0.0, 0.0, weight, 0.0}) != 2;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a draw has its law across many blocks of ids, and couples there, too") {
  // 300 ids with gaps, of very different weights, in five blocks and more.
  std::vector<fd::TokenId> ids;
  std::vector<double> p, q;
  for (int i = 0; i < 300; ++i) {
    ids.push_back(3 * i + i % 3);
    p.push_back(std::exp(-0.02 * i) * (1 + i % 7));
    q.push_back(p.back() * (1 + 0.4 * (i % 2)));
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  constexpr int n = 40000;
  std::vector<double> seen(ids.size()), wanted;
  for (const double weight : p) wanted.push_back(n * weight / sum);
  fd::Philox rng(5);
  int coupled = 0;
  for (int i = 0; i < n; ++i) {
    const fd::RngKey key{fd::Purpose::kTargetSample, i, 0};
    const std::size_t winner = rng.categorical(key, ids, p);
    seen[winner] += 1;
    coupled += rng.categorical(key, ids, q) == winner;
  }
  CHECK(statistics::g_test(seen, wanted) > kFalseAlarm);
  CHECK(coupled > 0.75 * n);  // sum min(p, q) is .83, an independent draw would be right in .006
}

TEST_CASE("a pick among lazy weights is the draw from all of them") {
  const auto zero = [](int i) { return i == 301 ? 1e-200 : 0.0; };
  const auto flat = [](int) { return 1.0; };
  const auto steep = [](int i) { return std::exp(-0.05 * i); };
  const auto gaps = [](int i) { return i / 128 % 3 == 1 ? 0.0 : 1.0 + i * 7919 % 13; };
  const auto tail = [](int i) { return i < 900 ? 1e-3 : 50.0; };
  const std::vector<std::function<double(int)>> kinds{zero, flat, steep, gaps, tail};
  fd::Philox rng(6);
  int different = 0;
  for (const auto& weight : kinds) {
    for (const int n : {1, 127, 128, 129, 400, 1000}) {
      if (n < 302 && weight(301) < 1e-100) continue;
      std::vector<double> weights;
      for (int i = 0; i < n; ++i) weights.push_back(weight(i));
      for (const double slack : {1.0, 3.0, 1e6}) {
        CountedWeights lazy(weights, slack);
        for (int i = 0; i < 200; ++i) {
          const fd::RngKey key{fd::Purpose::kTargetSample, i, 0};
          const fd::TokenId picked = rng.pick(key, lazy);
          different += picked != static_cast<fd::TokenId>(
                                     rng.categorical(key, ids_to(n), weights));  // ids are places
          different += picked != rng.Rng::pick(key, lazy);  // what other sources do
        }
      }
    }
  }
  CHECK(different == 0);
}

TEST_CASE("a pick among nothing is no token, whatever the bounds promise") {
  class Nothing final : public fd::LazyWeights {
   public:
    std::span<const double> bounds() const noexcept override { return bounds_; }
    std::span<const double> run(std::size_t) noexcept override { return weights_; }

   private:
    std::vector<double> bounds_{1.0, 0.5};
    std::vector<double> weights_ = std::vector<double>(kRun);
  };
  Nothing nothing;
  fd::Philox rng(8);
  CHECK(rng.pick({}, nothing) == -1);
  CHECK(rng.Rng::pick({}, nothing) == -1);
}

TEST_CASE("a pick has the law of the weights, and looks at few of them") {
  // As steep as the probabilities of a language model: the first run holds nine tenths.
  constexpr int n = 20000;
  std::vector<double> weights;
  for (int i = 0; i < n; ++i) weights.push_back(std::pow(i + 1.0, -1.5));
  const double sum = fd::sum(weights);
  CountedWeights lazy(weights, 4.0);
  fd::Philox rng(7);
  constexpr int draws = 40000;
  constexpr int classes = 60;  // the first 59 tokens, and all others
  std::vector<double> seen(classes), wanted(classes);
  for (int i = 0; i < n; ++i) {
    wanted[fd::idx(std::min(i, classes - 1))] += draws * weights[fd::idx(i)] / sum;
  }
  for (int i = 0; i < draws; ++i) {
    const fd::TokenId token = rng.pick({fd::Purpose::kTargetSample, i, 0}, lazy);
    seen[fd::idx(std::min(token, classes - 1))] += 1;
  }
  CHECK(statistics::g_test(seen, wanted) > kFalseAlarm);
  CHECK(lazy.looks < 4 * draws);  // of 157 runs each
}
