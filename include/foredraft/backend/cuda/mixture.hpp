#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/head.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/tile_product.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

// A mixture of experts: each row chooses some, pairs of a row and an expert are sorted by expert, and
// each expert multiplies its pairs, eight at a time. Pair p is the (p % n_used)-th choice of row
// p / n_used. What a pair's sums are does not depend on the pairs beside it.

/// The n_used experts with the greatest scores, equal ones by number, and the softmax of these scores:
/// a warp for each row.
struct ChooseExperts {
  static constexpr const char* kName = "choose_experts";
  static constexpr int kThreads = kWarp;
  struct Args {
    const float* scores;  // [n_rows, n_experts]
    int n_experts;
    int n_used;
    int* experts;    // written [n_rows, n_used]
    float* weights;  // written [n_rows, n_used]
  };

  static Grid grid(int n_rows) noexcept { return {n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const auto row = idx(t.block_x());
    const float* const scores = a.scores + row * idx(a.n_experts);
    int* const experts = a.experts + row * idx(a.n_used);
    float* const weights = a.weights + row * idx(a.n_used);
    Best last{kInfinity, -1, 0};
    float greatest = 0;
    float sum = 0;
    for (int i = 0; i < a.n_used; ++i) {
      last = best_behind(t, scores, a.n_experts, last);
      if (i == 0) greatest = last.value;
      const float weight = t.exp(t.add(last.value, -greatest));
      sum = t.add(sum, weight);
      if (lane_of(t) != 0) continue;
      t.store(experts + i, last.id);
      t.store(weights + i, weight);
    }
    if (lane_of(t) != 0) return;
    for (int i = 0; i < a.n_used; ++i) t.store(weights + i, t.divide(t.load(weights + i), sum));
  }

 private:
  /// The best expert of those that come behind `last`, in every lane. A score that is no number is
  /// the least, so that nobody is chosen twice; where all are, so are the weights.
  template <typename T>
  FOREDRAFT_DEVICE static Best best_behind(T& t, const float* scores, int n_experts,
                                           const Best& last) {
    Best best{-kInfinity, Best::kNobody, 0};
    for (int e = lane_of(t); e < n_experts; e += kWarp) {
      const float found = t.load(scores + e);
      const float score = found == found ? found : -kInfinity;
      if (score < last.value || (score == last.value && e > last.id)) {
        best = better_of(best, {score, e, 0});
      }
    }
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      best = better_of(best, {t.shuffle_xor(best.value, mask), t.shuffle_xor(best.id, mask), 0});
    }
    return best;
  }
};

/// Pairs by expert, in the order of rows: one block.
struct SortPairs {
  static constexpr const char* kName = "sort_pairs";
  static constexpr int kThreads = 256;
  struct Args {
    const int* experts;  // [n_pairs]
    int n_pairs;
    int n_experts;
    int* first;  // written [n_experts + 1]: of the sorted pairs
    int* pairs;  // written [n_pairs]
  };

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    for (int e = t.thread(); e < a.n_experts; e += kThreads) {
      int n = 0;
      for (int p = 0; p < a.n_pairs; ++p) n += t.load(a.experts + p) == e ? 1 : 0;
      t.store(a.first + e + 1, n);
    }
    t.sync();
    if (t.thread() == 0) {
      int before = 0;
      t.store(a.first, 0);
      for (int e = 1; e <= a.n_experts; ++e) {
        before += t.load(a.first + e);
        t.store(a.first + e, before);
      }
    }
    t.sync();
    for (int e = t.thread(); e < a.n_experts; e += kThreads) {
      int to = t.load(a.first + e);
      for (int p = 0; p < a.n_pairs; ++p) {
        if (t.load(a.experts + p) == e) t.store(a.pairs + to++, p);
      }
    }
  }
};

/// y of each pair = W of its expert times its row of x.
template <WeightFormat F>
struct ExpertProduct {
  static constexpr const char* kName = "expert_product";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;

  struct Args {
    Operand x = {};
    int pairs_of_row = 1;  // pair p reads row p / pairs_of_row of x
    Weights w = {};        // [n_experts * n_out, n_in], n_out whole tiles
    int n_experts = 0;
    int most = 0;                // pairs of an expert at most
    const int* first = nullptr;  // of SortPairs
    const int* pairs = nullptr;  //
    float* y = nullptr;          // written [n_pairs, n_out]

    FOREDRAFT_HOST_DEVICE int n_out() const { return w.n_out / n_experts; }
  };

  static int shared() noexcept {
    return shared_bytes<float>(kWarps * Tiles::kSums) +
           shared_bytes<Words>(kWarps * Tiles::kRingWords);
  }
  static Grid grid(const Args& a) noexcept {
    const int split = split_of(a.n_out(), a.w.n_in);
    return {parts_of(a.n_out() / kTileRows, kWarps / split), a.n_experts,
            parts_of(a.most, Operand::kRows)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int expert = t.block_y();
    const int begin = t.load(a.first + expert) + t.block_z() * Operand::kRows;
    const int end = t.load(a.first + expert + 1);
    if (begin >= end) return;  // all threads of the block
    float* const sums = t.template shared<float>(kWarps * Tiles::kSums);
    Words* const rings = t.template shared<Words>(kWarps * Tiles::kRingWords);
    const int split_bits = split_bits_of(a.n_out(), a.w.n_in);
    const int split = 1 << split_bits;
    const int group = warp_of(t) / split;
    const int n_tiles = a.n_out() / kTileRows;  // of an expert
    const int tile = t.block_x() * (kWarps / split) + group;
    const auto rows = LaneRows<1>::of(t, [&](int i) {
      return begin + i < end ? t.load(a.pairs + begin + i) / a.pairs_of_row : -1;
    });
    typename Tiles::Totals total = {};
    Tiles::add_up(t, a.x, rows, a.w, expert * n_tiles + tile, warp_of(t) % split, split_bits,
                  rings + warp_of(t) * Tiles::kRingWords, total, [] {});  // it has waited
    Tiles::store_sums(t, total[0][0], sums + warp_of(t) * Tiles::kSums);
    t.sync();
    const int threads = split * kWarp;
    for (int i = t.thread() % threads; i < Tiles::kSums; i += threads) {
      if (begin + i / kTileRows >= end || tile >= n_tiles) continue;
      const auto pair = idx(t.load(a.pairs + begin + i / kTileRows));
      t.store(a.y + pair * idx(a.n_out()) + tile * kTileRows + i % kTileRows,
              Tiles::add_warps(t, sums + group * split * Tiles::kSums, split, i));
    }
  }

 private:
  using Tiles = TileProduct<F, 1, 1>;
};

/// x += what the experts of a row say, times their weights, from the greatest on; before them the
/// shared one, times sigmoid(score). A thread for each value.
struct MixRows {
  static constexpr const char* kName = "mix_rows";
  static constexpr int kThreads = 128;
  struct Args {
    const float* y;        // [n_rows, n_used, n]
    const float* weights;  // [n_rows, n_used]
    int n_used;
    int n;
    const float* shared;  // [n_rows, n] or null
    const float* score;   // [n_rows] or null
    float* x;             // read and written [n_rows, n]
  };

  static Grid grid(int n_rows, int n) noexcept { return {parts_of(n, kThreads), n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int i = t.block_x() * kThreads + t.thread();
    if (i >= a.n) return;
    const auto row = idx(t.block_y());
    const auto n = idx(a.n);
    float sum = 0;
    if (a.shared != nullptr) {
      const float score = activated(t, Activation::kSigmoid, t.load(a.score + row));
      sum = t.mul(score, t.load(a.shared + row * n + i));
    }
    for (int used = 0; used < a.n_used; ++used) {
      const std::size_t pair = row * idx(a.n_used) + idx(used);
      sum = t.fma(t.load(a.weights + pair), t.load(a.y + pair * n + i), sum);
    }
    t.store(a.x + row * n + i, t.add(t.load(a.x + row * n + i), sum));
  }
};

}  // namespace foredraft::inline v0::cuda
