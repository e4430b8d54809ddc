#pragma once

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What rows put into a selective scan: what is convolved, the result of that, and a time step for
/// each head. A thread for each of these, of each row.
struct PutInScan {
  static constexpr const char* kName = "put_in_scan";
  static constexpr int kThreads = 128;
  struct Args {
    const StateRow* rows;  // [n_rows]
    int n_rows;
    int width;
    int d_conv;
    int n_heads;
    int n_taps;
    const float* in;         // [rows of the pass, width + d_conv + n_heads]
    const float* kernel;     // [n_taps, d_conv], oldest token first
    const float* conv_bias;  // [d_conv] or null
    const float* dt_bias;    // [n_heads]
    StateLayers layers;
  };

  static Grid grid(const Args& a) noexcept {
    return {parts_of(a.d_conv + a.n_heads, kThreads), a.n_rows};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int c = t.block_x() * kThreads + t.thread();
    if (c >= a.d_conv + a.n_heads) return;
    const StateRow* const row = a.rows + t.block_y();
    const StateLayer layer = a.layers.of[t.load(&row->sequence)];
    const auto stride = idx(a.width + a.d_conv + a.n_heads);
    const auto of_pass = [&](int pass_row) {
      return t.load(a.in + idx(pass_row) * stride + a.width + c);
    };
    float* const to = layer.row(t.load(&row->taps[0].row));
    const float own = of_pass(t.load(&row->row));
    if (c >= a.d_conv) {
      t.store(to + a.d_conv + c, softplus(t, t.add(own, t.load(a.dt_bias + c - a.d_conv))));
      return;
    }
    t.store(to + c, own);
    const float bias = a.conv_bias == nullptr ? 0.0f : t.load(a.conv_bias + c);
    const float sum = convolved(t, row, layer, a.n_taps, a.kernel, a.d_conv, c, bias, of_pass);
    t.store(to + a.d_conv + c, activated(t, Activation::kSilu, sum));
  }
};

/// Columns of a state at most.
inline constexpr int kMostScanState = 512;

/// States of a selective scan: see SelectiveScanArgs. A warp has one row of a head's state in its
/// registers over all steps of a walk; lane i has the columns i, i + 32, and so on.
/// @tparam kPerLane  d_state is at most 32 times as many
template <int kPerLane>
struct SelectiveScan {
  static constexpr const char* kName = "selective_scan";
  static constexpr int kThreads = 256;
  static constexpr int kRows = kThreads / kWarp;  // of a block
  struct Args {
    const StateStep* steps;
    const StateWalk* walks;  // [n_walks]
    int n_walks;
    int n_heads;
    int n_groups;
    int d_head;
    int d_state;
    int d_conv;
    const float* decay;  // [n_heads]
    const float* skip;   // [n_heads]
    float* out;          // written [rows of the pass, n_heads, d_head]
    StateLayers layers;
  };

  static Grid grid(const Args& a) noexcept {
    return {parts_of(a.d_head, kRows), a.n_heads, a.n_walks};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int row = t.block_x() * kRows + warp_of(t);
    if (row >= a.d_head) return;  // all lanes of the warp; there is no barrier
    const StateWalk walk = t.load(a.walks + t.block_z());
    const StateLayer layer = a.layers.of[walk.sequence];
    const int head = t.block_y();
    const float decay = t.load(a.decay + head);
    const float skip = t.load(a.skip + head);
    float state[kPerLane];
    for (int i = 0; i < walk.n; ++i) {
      const StateStep step = t.load(a.steps + walk.first + i);
      if (step.from != StateStep::kStays) load(t, a, layer, step.from, row, state);
      const float* const in = layer.row(step.row) + a.d_conv;
      const float u = t.load(in + head * a.d_head + row);
      const float sum = take_in(t, a, in, decay, u, state);
      if (step.slot != StateStep::kNobody) store(t, a, layer, step.slot, row, state);
      if (step.to == StateStep::kNobody) continue;
      const float y = t.fma(skip, u, t.warp_sum(sum));
      if (lane_of(t) != 0) continue;
      const auto width = idx(a.n_heads) * idx(a.d_head);
      t.store(a.out + idx(step.to) * width + head * a.d_head + row, y);
    }
  }

 private:
  template <typename T>
  FOREDRAFT_DEVICE static void load(T& t, const Args& a, const StateLayer& layer, int slot, int row,
                                    float (&state)[kPerLane]) {
    const float* const from = slot < 0 ? nullptr : layer.state(slot, t.block_y()) + row * a.d_state;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const int k = lane_of(t) + i * kWarp;
      state[i] = from != nullptr && k < a.d_state ? t.load(from + k) : 0.0f;
    }
  }
  template <typename T>
  FOREDRAFT_DEVICE static void store(T& t, const Args& a, const StateLayer& layer, int slot,
                                     int row, const float (&state)[kPerLane]) {
    float* const to = layer.state(slot, t.block_y()) + row * a.d_state;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const int k = lane_of(t) + i * kWarp;
      if (k < a.d_state) t.store(to + k, state[i]);
    }
  }

  /// @return the lane's part of what is read out
  template <typename T>
  FOREDRAFT_DEVICE static float take_in(T& t, const Args& a, const float* in, float decay, float u,
                                        float (&state)[kPerLane]) {
    const int width = a.n_heads * a.d_head;
    const int group = t.block_y() / (a.n_heads / a.n_groups);
    const float* const b = in + width + group * a.d_state;
    const float* const c = b + a.n_groups * a.d_state;
    const float dt = t.load(in + a.d_conv + t.block_y());
    const float stays = t.exp(t.mul(dt, decay));
    const float more = t.mul(dt, u);
    float sum = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const int k = lane_of(t) + i * kWarp;
      if (k >= a.d_state) continue;
      state[i] = t.fma(more, t.load(b + k), t.mul(stays, state[i]));
      sum = t.fma(state[i], t.load(c + k), sum);
    }
    return sum;
  }
};

}  // namespace foredraft::inline v0::cuda
