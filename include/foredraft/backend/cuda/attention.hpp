#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Positions of one part of attention: parts begin at multiples of it, whatever a row sees.
inline constexpr int kPart = 64;

/// First position that a row sees.
FOREDRAFT_HOST_DEVICE constexpr int first_visible(int visible, int window) {
  return window > 0 && visible > window ? visible - window : 0;
}

/// Positions that a row sees: first ones of the text, and those of its window.
struct Visible {
  int sinks;
  int first;  // of the window
  int end;
};
FOREDRAFT_HOST_DEVICE constexpr Visible visible_of(int visible, int window, int sinks) {
  const int first = first_visible(visible, window);
  return {sinks < first ? sinks : first, first, visible};
}

/// Softmax over one part of the positions that a row sees, for the heads that share a head of keys,
/// not divided by its sum yet. A block for each (row, up to eight such heads, part): so a key and a
/// value are loaded once for all of them. Positions are those of the text, never of the pass: what is
/// added up, and in which order, is the same for a row alone and in a tree.
struct AttendPart {
  static constexpr const char* kName = "attend_part";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kHeads = 8;                  // of a block
  static constexpr int kShares = kThreads / kPart;  // threads that share a position
  static constexpr int kOwn = kHeads / kShares;     // heads of one of them
  struct Args {
    const RowPlace* rows;  // [n_rows]
    int n_rows;
    const int* nodes;  // of all paths
    const float* q;    // [rows of the pass, n_heads, d_head]
    int n_heads;
    int n_kv_heads;
    int d_head;
    float scale;
    float softcap;  // 0: none
    int window;     // 0: all positions
    int n_parts;    // of the row that sees most
    /// Written [n_rows, n_heads, n_parts, 2 + d_head]: the greatest score, the sum of weights
    /// relative to it, and the sum of values with these weights. Nothing where a row sees no
    /// position of the part.
    float* parts;
    SequenceLayers layers;
  };

  static int shared(int d_head) noexcept {
    return shared_bytes<float>(kHeads * d_head) + shared_bytes<float>(kHeads * kPart) +
           shared_bytes<int>(kPart);
  }
  static Grid grid(const Args& a) noexcept {
    return {a.n_rows, a.n_kv_heads * parts_of(a.n_heads / a.n_kv_heads, kHeads), a.n_parts};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const KeyValues& kv = a.layers.of[row.sequence];
    const int part = t.block_z() * kPart;
    const Visible visible = visible_of(row.visible, a.window, kv.sinks);
    const int sinks = max_of(0, min_of(part + kPart, visible.sinks) - part);
    const int begin = max_of(part, visible.first);
    const int n = sinks + max_of(0, min_of(part + kPart, visible.end) - begin);
    if (n == 0) return;  // all threads of the block

    float* const q = t.template shared<float>(kHeads * a.d_head);
    float* const weights = t.template shared<float>(kHeads * kPart);  // scores, at first
    int* const places = t.template shared<int>(kPart);
    const Heads heads = heads_of(t, a);
    const float* const from =
        a.q + (idx(row.row) * idx(a.n_heads) + idx(heads.first)) * idx(a.d_head);
    for (int i = t.thread(); i < heads.n * a.d_head; i += kThreads)
      t.store(q + i, t.load(from + i));
    for (int i = t.thread(); i < n; i += kThreads) {
      const int position = i < sinks ? part + i : begin + i - sinks;
      t.store(places + i, kv.ring.place(storage_row(t, row, a.nodes, position)));
    }
    t.sync();

    with_element_of(kv.k.format, [&]<typename K>(Element<K>) {
      score_keys<K>(t, a, kv, heads, places, n, q, weights);
    });
    t.sync();
    for (int h = warp_of(t); h < heads.n; h += kWarps) {
      weigh(t, n, weights + h * kPart, part_of(t, a, heads.first + h));
    }
    t.sync();
    with_element_of(kv.v.format, [&]<typename V>(Element<V>) {
      add_values<V>(t, a, kv, heads, places, n, weights);
    });
  }

 private:
  /// Of a block.
  struct Heads {
    int kv;     // whose keys they read
    int first;  // of the queries
    int n;
  };
  template <typename T>
  FOREDRAFT_DEVICE static Heads heads_of(T& t, const Args& a) {
    const int group = a.n_heads / a.n_kv_heads;
    const int blocks = parts_of(group, kHeads);
    const int kv = t.block_y() / blocks;
    const int before = t.block_y() % blocks * kHeads;
    return {kv, kv * group + before, min_of(group - before, kHeads)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static float* part_of(T& t, const Args& a, int head) {
    const auto at =
        (idx(t.block_x()) * idx(a.n_heads) + idx(head)) * idx(a.n_parts) + idx(t.block_z());
    return a.parts + at * idx(2 + a.d_head);
  }

  /// Two threads for each position, with every second head each: they add up the dimensions in order.
  template <typename K, typename T>
  FOREDRAFT_DEVICE static void score_keys(T& t, const Args& a, const KeyValues& kv,
                                          const Heads& heads, const int* places, int n,
                                          const float* q, float* scores) {
    const int i = t.thread() % kPart;
    const int share = t.thread() / kPart;
    if (i >= n || share >= heads.n) return;
    const K* const key = kv.k.row<K>(heads.kv, t.load(places + i));
    float dots[kOwn] = {};
    for (int d = 0; d < a.d_head; d += 4) {
      const Four of_key = load_elements(t, key, d, a.d_head);
      FOREDRAFT_UNROLL
      for (int own = 0; own < kOwn; ++own) {
        const int h = share + own * kShares;
        if (h >= heads.n) break;
        const Four of_query = load_elements(t, q + h * a.d_head, d, a.d_head);
        FOREDRAFT_UNROLL
        for (int j = 0; j < 4; ++j) dots[own] = t.fma(of_query.v[j], of_key.v[j], dots[own]);
      }
    }
    FOREDRAFT_UNROLL
    for (int own = 0; own < kOwn; ++own) {
      const int h = share + own * kShares;
      if (h >= heads.n) break;
      t.store(scores + h * kPart + i, capped(t, t.mul(dots[own], a.scale), a.softcap));
    }
  }

  /// A warp turns the scores of a head into weights, and writes the greatest and the weights' sum.
  template <typename T>
  FOREDRAFT_DEVICE static void weigh(T& t, int n, float* scores, float* part) {
    float greatest = -kInfinity;
    for (int i = lane_of(t); i < n; i += kWarp) greatest = t.max(greatest, t.load(scores + i));
    greatest = t.warp_max(greatest);
    float sum = 0;
    for (int i = lane_of(t); i < n; i += kWarp) {
      const float weight = t.exp(t.add(t.load(scores + i), -greatest));
      t.store(scores + i, weight);
      sum = t.add(sum, weight);
    }
    sum = t.warp_sum(sum);
    if (lane_of(t) != 0) return;
    t.store(part, greatest);
    t.store(part + 1, sum);
  }

  /// A thread for each dimension and every second head: it adds up values in the order of positions.
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void add_values(T& t, const Args& a, const KeyValues& kv,
                                          const Heads& heads, const int* places, int n,
                                          const float* weights) {
    for (int column = t.thread(); column < a.d_head * kShares; column += kThreads) {
      const int d = column % a.d_head;
      const int share = column / a.d_head;
      float sums[kOwn] = {};
      for (int i = 0; i < n; ++i) {
        const float value = load_element(t, kv.v.row<const V>(heads.kv, t.load(places + i)), d);
        FOREDRAFT_UNROLL
        for (int own = 0; own < kOwn; ++own) {
          const int h = share + own * kShares;
          if (h >= heads.n) break;
          sums[own] = t.fma(t.load(weights + h * kPart + i), value, sums[own]);
        }
      }
      FOREDRAFT_UNROLL
      for (int own = 0; own < kOwn; ++own) {
        const int h = share + own * kShares;
        if (h >= heads.n) break;
        t.store(part_of(t, a, heads.first + h) + 2 + d, sums[own]);
      }
    }
  }

  FOREDRAFT_DEVICE static int max_of(int a, int b) { return a > b ? a : b; }
  FOREDRAFT_DEVICE static int min_of(int a, int b) { return a < b ? a : b; }
};

/// The parts of each (row, head) added up in the order of positions, and divided by the sum of
/// weights.
struct MergeParts {
  static constexpr const char* kName = "merge_parts";
  static constexpr int kThreads = 128;
  struct Args {
    const RowPlace* rows;  // [n_rows]
    int n_rows;
    int n_heads;
    int d_head;
    int window;
    int n_parts;
    const float* parts;  // as in AttendPart
    float* out;          // written [rows of the pass, n_heads, d_head]
    int sinks[kSequences] = {};
  };

  static Grid grid(const Args& a) noexcept { return {a.n_rows, a.n_heads}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const Visible visible = visible_of(row.visible, a.window, a.sinks[row.sequence]);
    const int first = visible.first / kPart;
    const int of_sinks = parts_of(visible.sinks, kPart);
    const int before = of_sinks < first ? of_sinks : first;  // parts of sinks alone
    const int n = before + (visible.end - 1) / kPart - first + 1;
    const auto size = idx(2 + a.d_head);
    const float* const parts =
        a.parts + (idx(t.block_x()) * idx(a.n_heads) + idx(t.block_y())) * idx(a.n_parts) * size;
    float greatest = -kInfinity;
    const auto part_of = [&](int i) {
      return parts + idx(i < before ? i : first + i - before) * size;
    };
    for (int i = 0; i < n; ++i) greatest = t.max(greatest, t.load(part_of(i)));
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      float value = 0;
      float sum = 0;
      for (int i = 0; i < n; ++i) {
        const float* const part = part_of(i);
        const float weight = t.exp(t.add(t.load(part), -greatest));
        sum = t.fma(weight, t.load(part + 1), sum);
        value = t.fma(weight, t.load(part + 2 + d), value);
      }
      const auto at = idx(row.row) * idx(a.n_heads) + idx(t.block_y());
      t.store(a.out + at * idx(a.d_head) + d, t.divide(value, sum));
    }
  }
};

}  // namespace foredraft::inline v0::cuda
