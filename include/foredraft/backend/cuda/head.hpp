#pragma once

#include <cstddef>
#include <limits>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>

namespace foredraft::inline v0::cuda {

/// The greatest of some logits.
struct Best {
  float value;
  int id;       // the lowest of equals; kNobody where nothing is above -inf
  int damaged;  // whether there is a NaN or +inf

  static constexpr int kNobody = std::numeric_limits<int>::max();
};

FOREDRAFT_DEVICE inline Best better_of(const Best& a, const Best& b) {
  const bool second = b.value > a.value || (b.value == a.value && b.id < a.id);
  return {second ? b.value : a.value, second ? b.id : a.id, a.damaged | b.damaged};
}

/// The best of all threads of a block, in each of them. Every thread calls it.
/// @param of_warps  shared memory [warps of the block]
template <typename T>
FOREDRAFT_DEVICE Best best_of_block(T& t, Best best, Best* of_warps, int warps) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    best = better_of(best, {t.shuffle_xor(best.value, mask), t.shuffle_xor(best.id, mask),
                            t.shuffle_xor(best.damaged, mask)});
  }
  if (lane_of(t) == 0) t.store(of_warps + warp_of(t), best);
  t.sync();
  best = t.load(of_warps);
  for (int warp = 1; warp < warps; ++warp) best = better_of(best, t.load(of_warps + warp));
  return best;
}

/// The best of each run of 128 logits, and the sum of its weights: see Runs. A block for each run.
struct HeadRuns {
  static constexpr const char* kName = "head_runs";
  static constexpr int kThreads = static_cast<int>(Scores::kRun);
  static constexpr int kWarps = kThreads / kWarp;
  struct Args {
    const float* logits;  // [n_rows, n_vocab]
    int n_rows;
    int n_vocab;
    int n_runs;
    const float* temperatures;  // [n_rows], 0: no sums of this row; or null
    Best* best;                 // written [n_rows, n_runs]
    double* sums;               // written [n_rows, n_runs] where there is a temperature
  };

  static int shared() noexcept { return shared_bytes<Best>(kWarps) + shared_bytes<double>(kWarps); }
  static Grid grid(const Args& a) noexcept { return {a.n_runs, a.n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    Best* const of_warps = t.template shared<Best>(kWarps);
    double* const sums = t.template shared<double>(kWarps);
    const int row = t.block_y();
    const int id = t.block_x() * kThreads + t.thread();
    const bool inside = id < a.n_vocab;
    float value = -kInfinity;
    if (inside) {
      value = t.load(a.logits + idx(row) * idx(a.n_vocab) + id);
    }
    const bool possible = value > -kInfinity;  // false of NaN
    const Best best = best_of_block(
        t, {possible ? value : -kInfinity, possible ? id : Best::kNobody, !(value < kInfinity)},
        of_warps, kWarps);
    const auto to = idx(row) * idx(a.n_runs) + idx(t.block_x());
    if (t.thread() == 0) t.store(a.best + to, best);

    const float temperature = a.temperatures == nullptr ? 0.0f : t.load(a.temperatures + row);
    if (temperature == 0.0f) return;  // all threads of the block
    const double distance = (static_cast<double>(value) - static_cast<double>(best.value)) /
                            static_cast<double>(temperature);
    const double sum = t.warp_sum(possible ? t.exp(distance) : 0.0);
    if (lane_of(t) == 0) t.store(sums + warp_of(t), sum);
    t.sync();
    if (t.thread() != 0) return;
    double all = t.load(sums);
    for (int warp = 1; warp < kWarps; ++warp) all = t.add(all, t.load(sums + warp));
    t.store(a.sums + to, all);
  }
};

/// The best token of each row, -1 where the row is damaged or nothing in it is above -inf.
struct HeadArgmax {
  static constexpr const char* kName = "head_argmax";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kAtOnce = 8;  // loads of a thread
  struct Args {
    const Best* best;  // [n_rows, n_runs]
    int n_runs;
    int* argmax;    // written [n_rows]
    float* maxima;  // written [n_rows, n_runs]: the values alone
  };

  static int shared() noexcept { return shared_bytes<Best>(kWarps); }
  static Grid grid(int n_rows) noexcept { return {n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    Best* const of_warps = t.template shared<Best>(kWarps);
    const auto row = idx(t.block_x()) * idx(a.n_runs);
    Best best{-kInfinity, Best::kNobody, 0};
    for (int first = t.thread(); first < a.n_runs; first += kThreads * kAtOnce) {
      Best runs[kAtOnce];
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * kThreads < a.n_runs) runs[i] = t.load(a.best + row + first + i * kThreads);
      }
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * kThreads >= a.n_runs) break;
        t.store(a.maxima + row + first + i * kThreads, runs[i].value);
        best = better_of(best, runs[i]);
      }
    }
    best = best_of_block(t, best, of_warps, kWarps);
    if (t.thread() != 0) return;
    t.store(a.argmax + t.block_x(), best.damaged != 0 || best.id == Best::kNobody ? -1 : best.id);
  }
};

}  // namespace foredraft::inline v0::cuda
