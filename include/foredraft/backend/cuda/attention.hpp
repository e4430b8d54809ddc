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

struct AttendPartArgs {
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

  FOREDRAFT_HOST_DEVICE int heads_of_keys() const { return n_heads / n_kv_heads; }
};

/// Softmax over one part of the positions that a row sees, for the heads that share a head of keys,
/// not divided by its sum yet. A block for each (row, up to kHeads such heads, part): so a key and a
/// value are loaded once for all of them. Positions are those of the text, never of the pass: what is
/// added up, and in which order, is the same for a row alone and in a tree.
///
/// Few blocks have to do it, each once: so a thread asks for much at a time, and heads and positions
/// that are not there are computed like others, because branches take longer.
template <int kHeads>
struct AttendPart {
  static constexpr const char* kName = "attend_part";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kShares = kThreads / kPart;  // threads that share a position
  static constexpr int kAtOnce = 16;                // loads of a thread: memory answers late
  static constexpr bool kLoadsAhead = true;         // where rows are, which the host says
  static_assert(kShares == 2 && kPart % kAtOnce == 0);
  using Args = AttendPartArgs;

  static int shared(int d_head) noexcept {
    return shared_bytes<float>(kHeads * stride_of(d_head)) + shared_bytes<float>(kHeads * kPart) +
           shared_bytes<int>(kPart);
  }
  static Grid grid(const Args& a) noexcept {
    return {a.n_rows, a.n_kv_heads * parts_of(a.heads_of_keys(), kHeads), a.n_parts};
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
    if (n == 0) return t.wait_for_kernels();  // all threads of the block

    float* const q = t.template shared<float>(kHeads * stride_of(a.d_head));
    float* const weights = t.template shared<float>(kHeads * kPart);  // scores, at first
    int* const places = t.template shared<int>(kPart);
    const Heads heads = heads_of(t, a);
    for (int i = t.thread(); i < n; i += kThreads) {
      const int position = i < sinks ? part + i : begin + i - sinks;
      t.store(places + i, kv.ring.place(storage_row(t, row, a.nodes, position)));
    }
    t.wait_for_kernels();
    load_queries(t, a, a.q + (idx(row.row) * idx(a.n_heads) + idx(heads.first)) * idx(a.d_head),
                 heads.n, q);
    t.sync();

    with_element_of(kv.k.format, [&]<typename K>(Element<K>) {
      score_keys<K>(t, a, kv.k, heads.kv, places, n, q, weights);
    });
    t.sync();
    for (int h = warp_of(t); h < kHeads; h += kWarps) {
      weigh(t, n, weights + h * kPart, h < heads.n ? part_of(t, a, heads.first + h) : nullptr);
    }
    t.sync();
    with_element_of(kv.v.format, [&]<typename V>(Element<V>) {
      add_values<V>(t, a, kv.v, heads, places, n, weights);
    });
  }

 private:
  /// Of a block.
  struct Heads {
    int kv;     // whose keys they read
    int first;  // of the queries
    int n;      // at most kHeads
  };
  template <typename T>
  FOREDRAFT_DEVICE static Heads heads_of(T& t, const Args& a) {
    const int group = a.heads_of_keys();
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

  /// Floats between two queries: whole fours.
  FOREDRAFT_HOST_DEVICE static int stride_of(int d_head) { return parts_of(d_head, 4) * 4; }

  /// Queries that are not there are the last again. @param from  the first of them
  template <typename T>
  FOREDRAFT_DEVICE static void load_queries(T& t, const Args& a, const float* from, int n,
                                            float* q) {
    const int stride = stride_of(a.d_head);
    for (int d = t.thread(); d < stride; d += kThreads) {
      float values[kHeads];
      FOREDRAFT_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        values[h] = d < a.d_head ? t.load(from + min_of(h, n - 1) * a.d_head + d) : 0.0f;
      }
      FOREDRAFT_UNROLL
      for (int h = 0; h < kHeads; ++h) t.store(q + h * stride + d, values[h]);
    }
  }

  /// Two threads for each position, with every second four dimensions each: they add them up in order,
  /// and then each other's sum. Threads behind the last position take it too, so that warps are whole.
  template <typename K, typename T>
  FOREDRAFT_DEVICE static void score_keys(T& t, const Args& a, const StoredRows& keys, int head,
                                          const int* places, int n, const float* q, float* scores) {
    const int i = t.thread() / kShares;
    const int share = t.thread() % kShares;
    const K* const key = keys.row<const K>(head, t.load(places + min_of(i, n - 1)));
    const int stride = stride_of(a.d_head);
    float dots[kHeads] = {};
    for (int first = 4 * share; first < stride; first += 4 * kShares * kAtOnce) {
      Four of_key[kAtOnce];
      FOREDRAFT_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const int d = first + 4 * kShares * k;
        if (d < stride) of_key[k] = load_elements(t, key, d, a.d_head);
      }
      FOREDRAFT_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const int d = first + 4 * kShares * k;
        if (d >= stride) break;
        FOREDRAFT_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          const Four of_query = t.load(reinterpret_cast<const Four*>(q + h * stride + d));
          FOREDRAFT_UNROLL
          for (int j = 0; j < 4; ++j) dots[h] = t.fma(of_query.v[j], of_key[k].v[j], dots[h]);
        }
      }
    }
    FOREDRAFT_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const float dot = t.add(dots[h], t.shuffle_xor(dots[h], 1));
      if (share == 0 && i < n) {
        t.store(scores + h * kPart + i, capped(t, t.mul(dot, a.scale), a.softcap));
      }
    }
  }

  /// A warp turns the scores of a head into weights, those behind the last into zeros, and writes the
  /// greatest and the weights' sum. @param part  null: nobody wants them
  template <typename T>
  FOREDRAFT_DEVICE static void weigh(T& t, int n, float* scores, float* part) {
    float greatest = -kInfinity;
    for (int i = lane_of(t); i < n; i += kWarp) greatest = t.max(greatest, t.load(scores + i));
    greatest = t.warp_max(greatest);
    float sum = 0;
    for (int i = lane_of(t); i < kPart; i += kWarp) {
      const float weight = i < n ? t.exp(t.add(t.load(scores + i), -greatest)) : 0.0f;
      t.store(scores + i, weight);
      sum = t.add(sum, weight);
    }
    sum = t.warp_sum(sum);
    if (lane_of(t) != 0 || part == nullptr) return;
    t.store(part, greatest);
    t.store(part + 1, sum);
  }

  /// A thread for each dimension: it adds up values in the order of positions.
  template <typename V, typename T>
  FOREDRAFT_DEVICE static void add_values(T& t, const Args& a, const StoredRows& rows,
                                          const Heads& heads, const int* places, int n,
                                          const float* weights) {
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      float sums[kHeads] = {};
      for (int first = 0; first < n; first += kAtOnce) {
        float values[kAtOnce];
        FOREDRAFT_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          values[i] = 0.0f;
          if (first + i < n) {
            values[i] = load_element(t, rows.row<const V>(heads.kv, t.load(places + first + i)), d);
          }
        }
        FOREDRAFT_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          FOREDRAFT_UNROLL
          for (int i = 0; i < kAtOnce; i += 4) {
            const float* const at = weights + h * kPart + first + i;
            const Four four = t.load(reinterpret_cast<const Four*>(at));
            FOREDRAFT_UNROLL
            for (int j = 0; j < 4; ++j) sums[h] = t.fma(four.v[j], values[i + j], sums[h]);
          }
        }
      }
      FOREDRAFT_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (h < heads.n) t.store(part_of(t, a, heads.first + h) + 2 + d, sums[h]);
      }
    }
  }

  FOREDRAFT_DEVICE static int max_of(int a, int b) { return a > b ? a : b; }
  FOREDRAFT_DEVICE static int min_of(int a, int b) { return a < b ? a : b; }
};

/// `f.operator()<K>()` with the kernel that serves so many heads of one head of keys.
template <typename F>
void with_attend_part(int heads_of_keys, F&& f) {
  if (heads_of_keys == 1) return f.template operator()<AttendPart<1>>();
  if (heads_of_keys == 2) return f.template operator()<AttendPart<2>>();
  if (heads_of_keys <= 4) return f.template operator()<AttendPart<4>>();
  f.template operator()<AttendPart<8>>();
}

/// The parts of each (row, head) added up in the order of positions, and divided by the sum of
/// weights.
struct MergeParts {
  static constexpr const char* kName = "merge_parts";
  static constexpr int kThreads = 128;
  static constexpr int kAtOnce = 8;          // parts that are loaded together
  static constexpr bool kLoadsAhead = true;  // what the host says
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
    t.wait_for_kernels();
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
    for (int begin = 0; begin < n; begin += kAtOnce) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (begin + i < n) greatest = t.max(greatest, t.load(part_of(begin + i)));
      }
    }
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      float value = 0;
      float sum = 0;
      for (int begin = 0; begin < n; begin += kAtOnce) {
        float of[kAtOnce][3];
        FOREDRAFT_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          if (begin + i >= n) break;
          const float* const part = part_of(begin + i);
          of[i][0] = t.load(part);
          of[i][1] = t.load(part + 1);
          of[i][2] = t.load(part + 2 + d);
        }
        FOREDRAFT_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          if (begin + i >= n) break;
          const float weight = t.exp(t.add(of[i][0], -greatest));
          sum = t.fma(weight, of[i][1], sum);
          value = t.fma(weight, of[i][2], value);
        }
      }
      const auto at = idx(row.row) * idx(a.n_heads) + idx(t.block_y());
      t.store(a.out + at * idx(a.d_head) + d, t.divide(value, sum));
    }
  }
};

}  // namespace foredraft::inline v0::cuda
