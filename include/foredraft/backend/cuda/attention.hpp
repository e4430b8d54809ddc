#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>

namespace foredraft::inline v0::cuda {

/// Positions of one part of attention: parts begin at multiples of it, whatever a row sees.
inline constexpr int kPart = 64;

/// First position that a row sees.
FOREDRAFT_HOST_DEVICE constexpr int first_visible(int visible, int window) {
  return window > 0 && visible > window ? visible - window : 0;
}

/// Softmax over one part of the positions that a row sees, for one head, not divided by its sum yet.
/// A block for each (row, head, part). Positions are those of the text, never of the pass: so what is
/// added up, and in which order, is the same for a row alone and in a tree.
template <typename S>
struct AttendPart {
  static constexpr const char* kName = "attend_part";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
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
    SequenceLayers<S> layers;
  };

  static int shared(int d_head) noexcept {
    return shared_bytes<float>(d_head) + 2 * shared_bytes<float>(kPart) + shared_bytes<int>(kPart);
  }
  static Grid grid(const Args& a) noexcept { return {a.n_rows, a.n_heads, a.n_parts}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const int head = t.block_y();
    const int begin = max_of(t.block_z() * kPart, first_visible(row.visible, a.window));
    const int end = min_of((t.block_z() + 1) * kPart, row.visible);
    if (begin >= end) return;  // all threads of the block

    float* const q = t.template shared<float>(a.d_head);
    float* const scores = t.template shared<float>(kPart);
    float* const weights = t.template shared<float>(kPart);
    int* const places = t.template shared<int>(kPart);
    const auto at = static_cast<std::size_t>(row.row) * static_cast<std::size_t>(a.n_heads) +
                    static_cast<std::size_t>(head);
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      t.store(q + d, t.load(a.q + at * static_cast<std::size_t>(a.d_head) + d));
    }
    const int n = end - begin;
    for (int i = t.thread(); i < n; i += kThreads) {
      t.store(places + i, storage_row(t, row, a.nodes, begin + i));
    }
    t.sync();

    const KeyValues<S> kv = a.layers.of[row.sequence];
    const int kv_head = head / (a.n_heads / a.n_kv_heads);
    score_keys(t, a, kv, kv_head, places, n, q, scores);
    t.sync();

    float greatest = -kInfinity;
    for (int i = lane_of(t); i < n; i += kWarp) greatest = t.max(greatest, t.load(scores + i));
    greatest = t.warp_max(greatest);
    for (int i = t.thread(); i < n; i += kThreads) {
      t.store(weights + i, t.exp(t.add(t.load(scores + i), -greatest)));
    }
    t.sync();

    float* const part =
        a.parts + ((static_cast<std::size_t>(t.block_x()) * static_cast<std::size_t>(a.n_heads) +
                    static_cast<std::size_t>(head)) *
                       static_cast<std::size_t>(a.n_parts) +
                   static_cast<std::size_t>(t.block_z())) *
                      static_cast<std::size_t>(2 + a.d_head);
    add_values(t, a, kv, kv_head, places, n, weights, part + 2);
    if (t.thread() == 0) {
      float sum = 0;
      for (int i = 0; i < n; ++i) sum = t.add(sum, t.load(weights + i));
      t.store(part, greatest);
      t.store(part + 1, sum);
    }
  }

 private:
  /// A warp for each position: lane i has the dimensions i, i + 32, ...
  template <typename T>
  FOREDRAFT_DEVICE static void score_keys(T& t, const Args& a, const KeyValues<S>& kv, int kv_head,
                                          const int* places, int n, const float* q, float* scores) {
    for (int i = warp_of(t); i < n; i += kWarps) {
      const S* const key = kv.k + kv.at(kv_head, t.load(places + i), a.d_head);
      float dot = 0;
      for (int d = lane_of(t); d < a.d_head; d += kWarp) {
        dot = t.fma(t.load(q + d), load_element(t, key + d), dot);
      }
      dot = t.warp_sum(dot);
      if (lane_of(t) == 0) t.store(scores + i, capped(t, t.mul(dot, a.scale), a.softcap));
    }
  }

  /// Thread i has the dimensions i, i + 128, ... and adds up values in the order of positions.
  template <typename T>
  FOREDRAFT_DEVICE static void add_values(T& t, const Args& a, const KeyValues<S>& kv, int kv_head,
                                          const int* places, int n, const float* weights,
                                          float* sums) {
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      float sum = 0;
      for (int i = 0; i < n; ++i) {
        const S* const value = kv.v + kv.at(kv_head, t.load(places + i), a.d_head);
        sum = t.fma(t.load(weights + i), load_element(t, value + d), sum);
      }
      t.store(sums + d, sum);
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
  };

  static Grid grid(const Args& a) noexcept { return {a.n_rows, a.n_heads}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const int first = first_visible(row.visible, a.window) / kPart;
    const int last = (row.visible - 1) / kPart;
    const auto size = static_cast<std::size_t>(2 + a.d_head);
    const float* const parts =
        a.parts + (static_cast<std::size_t>(t.block_x()) * static_cast<std::size_t>(a.n_heads) +
                   static_cast<std::size_t>(t.block_y())) *
                      static_cast<std::size_t>(a.n_parts) * size;
    float greatest = -kInfinity;
    for (int i = first; i <= last; ++i) {
      greatest = t.max(greatest, t.load(parts + static_cast<std::size_t>(i) * size));
    }
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      float value = 0;
      float sum = 0;
      for (int i = first; i <= last; ++i) {
        const float* const part = parts + static_cast<std::size_t>(i) * size;
        const float weight = t.exp(t.add(t.load(part), -greatest));
        sum = t.fma(weight, t.load(part + 1), sum);
        value = t.fma(weight, t.load(part + 2 + d), value);
      }
      const auto at = static_cast<std::size_t>(row.row) * static_cast<std::size_t>(a.n_heads) +
                      static_cast<std::size_t>(t.block_y());
      t.store(a.out + at * static_cast<std::size_t>(a.d_head) + d, t.divide(value, sum));
    }
  }
};

}  // namespace foredraft::inline v0::cuda
