#pragma once

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

/// The kTop best tokens of each row, as Scores::top() has them: they lie in the kTop runs with the
/// greatest maxima. A block for each row takes the best run kTop times, each behind the one before, and
/// then the best logit of these runs.
struct HeadTop {
  static constexpr const char* kName = "head_top";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kTop = Scores::kTop;
  static constexpr int kRun = HeadRuns::kRun;
  static constexpr int kOwn = kTop * kRun / kThreads;  // logits of a thread
  struct Args {
    const float* logits;  // [n_rows, n_vocab]
    int n_vocab;
    const float* maxima;  // [n_rows, n_runs]
    int n_runs;
    const int* argmax;  // [n_rows]: of a row without one there are no best tokens either
    int* top;           // written [n_rows, kTop]
  };

  static int shared() noexcept { return shared_bytes<Best>(2 * kWarps) + shared_bytes<int>(kTop); }
  static Grid grid(int n_rows) noexcept { return {n_rows}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    Best* const of_warps = t.template shared<Best>(2 * kWarps);
    int* const runs = t.template shared<int>(kTop);
    int* const top = a.top + t.block_x() * kTop;
    if (t.load(a.argmax + t.block_x()) < 0) {  // all threads
      if (t.thread() < kTop) t.store(top + t.thread(), -1);
      return;
    }
    const float* const maxima = a.maxima + idx(t.block_x()) * idx(a.n_runs);
    Best last = kFirst;
    for (int k = 0; k < kTop; ++k) {
      Best best = kNone;
      for (int run = t.thread(); run < a.n_runs; run += kThreads)
        best = better_behind(last, best, t.load(maxima + run), run);
      last = best_of_block(t, best, of_warps + (k % 2) * kWarps);
      if (t.thread() == 0) t.store(runs + k, last.id);
    }
    t.sync();

    const float* const logits = a.logits + idx(t.block_x()) * idx(a.n_vocab);
    float values[kOwn];
    int ids[kOwn];
    FOREDRAFT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int place = t.thread() + i * kThreads;
      const int run = t.load(runs + place / kRun);
      ids[i] = run == Best::kNobody ? a.n_vocab : run * kRun + place % kRun;
      values[i] = ids[i] < a.n_vocab ? t.load(logits + ids[i]) : -kInfinity;
    }
    last = kFirst;
    for (int k = 0; k < kTop; ++k) {
      Best best = kNone;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kOwn; ++i) best = better_behind(last, best, values[i], ids[i]);
      last = best_of_block(t, best, of_warps + (k % 2) * kWarps);
      if (t.thread() == 0) t.store(top + k, last.id == Best::kNobody ? -1 : last.id);
    }
  }

 private:
  static constexpr Best kFirst{kInfinity, -1, 0};  // before all others
  static constexpr Best kNone{-kInfinity, Best::kNobody, 0};

  /// The better of `best` and a value that comes behind `last` in the order of better_of().
  FOREDRAFT_DEVICE static Best better_behind(const Best& last, const Best& best, float value,
                                             int id) {
    const bool behind = value < last.value || (value == last.value && id > last.id);
    return behind && value > -kInfinity ? better_of(best, {value, id, 0}) : best;
  }

  /// The best of all threads, in each of them. @param of_warps [kWarps], not those of the call before
  template <typename T>
  FOREDRAFT_DEVICE static Best best_of_block(T& t, Best best, Best* of_warps) {
    best = best_of_warp(t, best);
    if (lane_of(t) == 0) t.store(of_warps + warp_of(t), best);
    t.sync();
    for (int warp = 0; warp < kWarps; ++warp) best = better_of(best, t.load(of_warps + warp));
    return best;
  }
};

}  // namespace foredraft::inline v0::cuda
