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

/// The best of all lanes of a warp, in each of them.
template <typename T>
FOREDRAFT_DEVICE Best best_of_warp(T& t, Best best) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    best = better_of(best, {t.shuffle_xor(best.value, mask), t.shuffle_xor(best.id, mask),
                            t.shuffle_xor(best.damaged, mask)});
  }
  return best;
}

/// The best of each run of 128 logits, and the sum of its weights: see Runs. A warp for each run, whose
/// lanes have every 32nd logit.
struct HeadRuns {
  static constexpr const char* kName = "head_runs";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;  // runs of a block
  static constexpr int kRun = static_cast<int>(Scores::kRun);
  static constexpr int kOwn = kRun / kWarp;  // logits of a lane
  struct Args {
    const float* logits;  // [n_rows, n_vocab]
    int n_rows;
    int n_vocab;
    int n_runs;
    const float* temperatures;  // [n_rows], 0: no sums of this row; or null
    Best* best;                 // written [n_rows, n_runs]
    double* sums;               // written [n_rows, n_runs] where there is a temperature
  };

  static Grid grid(const Args& a) noexcept { return {parts_of(a.n_runs, kWarps), a.n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int run = t.block_x() * kWarps + warp_of(t);
    if (run >= a.n_runs) return;  // all lanes of the warp
    const int row = t.block_y();
    const int first = run * kRun + lane_of(t);
    float values[kOwn];
    FOREDRAFT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int id = first + i * kWarp;
      values[i] = id < a.n_vocab ? t.load(a.logits + idx(row) * idx(a.n_vocab) + id) : -kInfinity;
    }
    Best best{-kInfinity, Best::kNobody, 0};
    FOREDRAFT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const float value = values[i];
      const bool possible = value > -kInfinity;  // false of NaN
      best = better_of(best, {possible ? value : -kInfinity,
                              possible ? first + i * kWarp : Best::kNobody, !(value < kInfinity)});
    }
    best = best_of_warp(t, best);
    const auto to = idx(row) * idx(a.n_runs) + idx(run);
    if (lane_of(t) == 0) t.store(a.best + to, best);

    const float temperature = a.temperatures == nullptr ? 0.0f : t.load(a.temperatures + row);
    if (temperature == 0.0f) return;  // likewise
    double all = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const double distance = (static_cast<double>(values[i]) - static_cast<double>(best.value)) /
                              static_cast<double>(temperature);
      all = t.add(all, t.warp_sum(values[i] > -kInfinity ? t.exp(distance) : 0.0));
    }
    if (lane_of(t) == 0) t.store(a.sums + to, all);
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
    best = best_of_warp(t, best);
    if (lane_of(t) == 0) t.store(of_warps + warp_of(t), best);
    t.sync();
    if (t.thread() != 0) return;
    for (int warp = 1; warp < kWarps; ++warp) best = better_of(best, t.load(of_warps + warp));
    t.store(a.argmax + t.block_x(), best.damaged != 0 || best.id == Best::kNobody ? -1 : best.id);
  }
};

}  // namespace foredraft::inline v0::cuda
