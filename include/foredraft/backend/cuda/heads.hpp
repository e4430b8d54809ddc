#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What lies between the products and attention: norm and rotation of the heads of queries and keys,
/// and keys and values on their way into the storage, where they are rounded before anything reads
/// them. A block for each (row, head): heads of queries first, then those of keys with their values.
struct FinishHeads {
  static constexpr const char* kName = "finish_heads";
  static constexpr int kThreads = 128;
  static constexpr bool kLoadsAhead = true;  // what the host says
  struct Args {
    const RowPlace* rows;  // [n_rows]
    int n_rows;
    int n_heads;
    int n_kv_heads;
    int d_head;
    const float* q;  // [rows of the pass, n_heads, d_head]
    const float* k;  // [rows of the pass, n_kv_heads, d_head]
    const float* v;  // likewise, or the same as k
    float* to_q;     // written, as q: with a norm of all heads other blocks still read q
    Norm q_norm;     // [d_head], [n_heads * d_head] of all heads, or absent
    Norm k_norm;     // [d_head], [n_kv_heads * d_head], or absent
    Norm v_norm;     // [d_head] or absent
    bool norms_all_heads;
    RopeKind rope;
    int n_rot;
    const float* cos;  // [rows of the pass, n_rot / 2]
    const float* sin;  // likewise
    SequenceLayers layers;
  };

  static int shared(int d_head) noexcept { return shared_bytes<float>(d_head); }
  static Grid grid(const Args& a) noexcept { return {a.n_rows, a.n_heads + a.n_kv_heads}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.rows + t.block_x());
    const KeyValues& to = a.layers.of[row.sequence];
    float* const head = t.template shared<float>(a.d_head);
    const bool query = t.block_y() < a.n_heads;
    const int h = query ? t.block_y() : t.block_y() - a.n_heads;
    const int n_heads = query ? a.n_heads : a.n_kv_heads;
    const float* const all = (query ? a.q : a.k) + offset(row.row, n_heads, 0, a.d_head);
    const float* const in = all + offset(0, 0, h, a.d_head);
    const Angle ahead = angle_of(t, a, row.row, t.thread());
    t.wait_for_kernels();
    FOREDRAFT_ROLLED
    for (int d = t.thread(); d < a.d_head; d += kThreads) t.store(head + d, t.load(in + d));
    t.sync();

    Norm norm = query ? a.q_norm : a.k_norm;
    float scale = 1.0f;
    if (norm.weight != nullptr && a.norms_all_heads) {
      scale = norm_scale(t, all, n_heads * a.d_head, norm.epsilon);
      norm.weight += offset(0, 0, h, a.d_head);
    } else if (norm.weight != nullptr) {
      scale = norm_scale(t, head, a.d_head, norm.epsilon);
    }
    const int place = query ? 0 : to.ring.place(row.own_row);
    const float* const v = query ? nullptr : a.v + offset(row.row, n_heads, h, a.d_head);
    const bool normed_values = !query && a.v_norm.weight != nullptr;
    const float v_scale = normed_values ? norm_scale(t, v, a.d_head, a.v_norm.epsilon) : 1.0f;
    FOREDRAFT_ROLLED
    for (int d = t.thread(); d < a.d_head; d += kThreads) {
      const Angle angle = d == t.thread() ? ahead : angle_of(t, a, row.row, d);
      const float value = turned(t, a, angle, head, norm, scale, d);
      if (query) {
        t.store(a.to_q + offset(row.row, a.n_heads, h, a.d_head) + d, value);
      } else {
        store_element(t, to.k, h, place, d, value);
        store_element(t, to.v, h, place, d,
                      normed_values ? normed(t, v, a.v_norm, v_scale, d) : t.load(v + d));
      }
    }
  }

 private:
  FOREDRAFT_DEVICE static std::size_t offset(int row, int n_heads, int head, int d_head) {
    return (idx(row) * idx(n_heads) + idx(head)) * idx(d_head);
  }

  template <typename T>
  FOREDRAFT_DEVICE static float normed(T& t, const float* head, const Norm& norm, float scale,
                                       int d) {
    const float value = t.load(head + d);
    if (norm.weight == nullptr) return value;
    return t.mul(t.mul(value, scale), t.load(norm.weight + d));
  }

  struct Angle {
    float cos = 0;
    float sin = 0;
  };
  /// Of dimension d, where it is turned.
  template <typename T>
  FOREDRAFT_DEVICE static Angle angle_of(T& t, const Args& a, int row, int d) {
    if (d >= a.n_rot) return {};
    const int half = a.n_rot / 2;
    const int pair = a.rope == RopeKind::kAdjacent ? d / 2 : d % half;
    const std::size_t at = idx(row) * idx(half) + idx(pair);
    return {t.load(a.cos + at), t.load(a.sin + at)};
  }

  /// Dimension d of a head after norm and rotation. Both of a pair compute it, each its own part.
  template <typename T>
  FOREDRAFT_DEVICE static float turned(T& t, const Args& a, const Angle& angle, const float* head,
                                       const Norm& norm, float scale, int d) {
    const float mine = normed(t, head, norm, scale, d);
    if (d >= a.n_rot) return mine;
    const int half = a.n_rot / 2;
    const bool adjacent = a.rope == RopeKind::kAdjacent;
    const bool first = adjacent ? d % 2 == 0 : d < half;
    const int other = adjacent ? d ^ 1 : first ? d + half : d - half;
    const float theirs = normed(t, head, norm, scale, other);
    return t.fma(mine, angle.cos, t.mul(theirs, first ? -angle.sin : angle.sin));
  }
};

}  // namespace foredraft::inline v0::cuda
