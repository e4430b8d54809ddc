#pragma once

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What rows put into a gated delta net: what is convolved, the result of that with queries and
/// keys at their lengths, and two numbers for each head. A block for each head of queries or keys,
/// then for each 128 values, then one for the numbers, of each row.
struct PutInDeltaNet {
  static constexpr const char* kName = "put_in_delta_net";
  static constexpr int kThreads = 128;
  struct Args {
    const StateRow* rows;  // [n_rows]
    int n_rows;
    int n_heads;
    int n_key_heads;
    int d_key;
    int width;
    int n_taps;
    const float* qkv;      // [rows of the pass, d_conv]
    const float* beta;     // [rows of the pass, n_heads]
    const float* alpha;    // likewise
    const float* kernel;   // [n_taps, d_conv], oldest token first
    const float* dt_bias;  // [n_heads]
    const float* decay;    // [n_heads]
    StateLayers layers;

    FOREDRAFT_HOST_DEVICE int n_keys() const { return 2 * n_key_heads * d_key; }
    FOREDRAFT_HOST_DEVICE int d_conv() const { return n_keys() + width; }
  };

  static int shared(int d_key) noexcept { return shared_bytes<float>(d_key); }
  static Grid grid(const Args& a) noexcept {
    return {2 * a.n_key_heads + parts_of(a.width, kThreads) + 1, a.n_rows};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const StateRow* const row = a.rows + t.block_y();
    float* const to =
        a.layers.of[t.load(&row->sequence)].row(t.load(&row->taps[0].row)) + a.d_conv();
    const int block = t.block_x() - 2 * a.n_key_heads;
    if (block < 0) {
      put_head(t, a, row, to);
    } else if (block * kThreads < a.width) {
      const int c = a.n_keys() + block * kThreads + t.thread();
      if (c < a.d_conv()) t.store(to + c, convolve(t, a, row, c));
    } else {
      put_numbers(t, a, t.load(&row->row), to + a.d_conv());
    }
  }

 private:
  /// The convolution of a channel. What is convolved is kept for the rows that come.
  template <typename T>
  FOREDRAFT_DEVICE static float convolve(T& t, const Args& a, const StateRow* row, int c) {
    const StateLayer layer = a.layers.of[t.load(&row->sequence)];
    const auto of_pass = [&](int pass_row) {
      return t.load(a.qkv + idx(pass_row) * idx(a.d_conv()) + c);
    };
    t.store(layer.row(t.load(&row->taps[0].row)) + c, of_pass(t.load(&row->row)));
    return activated(t, Activation::kSilu,
                     convolved(t, row, layer, a.n_taps, a.kernel, a.d_conv(), c, 0.0f, of_pass));
  }

  /// A head of queries or keys is made 1 long; queries are divided by sqrt(d_key) besides.
  template <typename T>
  FOREDRAFT_DEVICE static void put_head(T& t, const Args& a, const StateRow* row, float* to) {
    float* const head = t.template shared<float>(a.d_key);
    const int first = t.block_x() * a.d_key;
    for (int d = t.thread(); d < a.d_key; d += kThreads) {
      t.store(head + d, convolve(t, a, row, first + d));
    }
    t.sync();
    float squares = 0;
    for (int d = lane_of(t); d < a.d_key; d += kWarp) {
      const float value = t.load(head + d);
      squares = t.fma(value, value, squares);
    }
    squares = t.add(t.warp_sum(squares), kLengthEpsilon);
    float scale = t.divide(1.0f, t.sqrt(squares));
    if (t.block_x() < a.n_key_heads) {
      scale = t.divide(scale, t.sqrt(static_cast<float>(a.d_key)));
    }
    for (int d = t.thread(); d < a.d_key; d += kThreads) {
      t.store(to + first + d, t.mul(t.load(head + d), scale));
    }
  }

  /// For each head, how much of the state stays and how much is corrected.
  template <typename T>
  FOREDRAFT_DEVICE static void put_numbers(T& t, const Args& a, int row, float* to) {
    const auto first = idx(row) * idx(a.n_heads);
    for (int head = t.thread(); head < a.n_heads; head += kThreads) {
      const float dt = softplus(t, t.add(t.load(a.alpha + first + head), t.load(a.dt_bias + head)));
      t.store(to + head, t.exp(t.mul(t.load(a.decay + head), dt)));
      t.store(to + a.n_heads + head,
              activated(t, Activation::kSigmoid, t.load(a.beta + first + head)));
    }
  }
};

/// Rows of a state at most, which are as many as a key has dimensions.
inline constexpr int kMostDeltaKey = 256;

/// States of a gated delta net: see GatedDeltaNetArgs. A warp has some columns of a head's state in
/// its registers over all steps of a walk; a lane has a part of the rows of one column, by fours.
/// So columns do not depend on the launch, and a sum has one order.
/// @tparam kFours    of rows of a lane
/// @tparam kColumns  of a warp, a power of two
template <int kFours, int kColumns = 8>
struct DeltaNet {
  static constexpr const char* kName = "delta_net";
  static constexpr int kThreads = 128;
  static constexpr int kParts = kWarp / kColumns;
  static constexpr int kBlockColumns = kThreads / kWarp * kColumns;
  static constexpr int kMostKey = kFours * 4 * kParts;  // d_key at most
  struct Args {
    const StateStep* steps;
    const StateWalk* walks;  // [n_walks]
    int n_walks;
    int n_heads;
    int n_key_heads;
    bool tiled;  // see GatedDeltaNetShape
    int d_key;
    int d_value;
    bool aligned;  // rows of the storage, their parts and heads begin at whole fours
    float* out;    // written [rows of the pass, n_heads, d_value]
    StateLayers layers;
  };

  static Grid grid(const Args& a) noexcept {
    return {parts_of(a.d_value, kBlockColumns), a.n_heads, a.n_walks};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const StateWalk walk = t.load(a.walks + t.block_z());
    const Lane lane{a, a.layers.of[walk.sequence], t.block_y(),
                    t.block_x() * kBlockColumns + warp_of(t) * kColumns + lane_of(t) % kColumns,
                    lane_of(t) / kColumns};
    float state[kFours * 4];
    for (int i = 0; i < walk.n; ++i) {
      const StateStep step = t.load(a.steps + walk.first + i);
      if (step.from != StateStep::kStays) lane.load(t, step.from, state);
      lane.take_in(t, step, state);
      if (step.slot != StateStep::kNobody) lane.store(t, step.slot, state);
    }
  }

 private:
  struct Lane {
    const Args& a;
    StateLayer layer;
    int head;
    int column;
    int part;  // of the rows

    FOREDRAFT_DEVICE int row_of(int four) const { return (four * kParts + part) * 4; }

    template <typename T>
    FOREDRAFT_DEVICE void load(T& t, int slot, float (&state)[kFours * 4]) const {
      const float* const from = slot < 0 ? nullptr : layer.state(slot, head);
      FOREDRAFT_UNROLL
      for (int i = 0; i < kFours * 4; ++i) {
        const int row = row_of(i / 4) + i % 4;
        const bool there = from != nullptr && row < a.d_key && column < a.d_value;
        state[i] = there ? t.load(from + row * a.d_value + column) : 0.0f;
      }
    }
    template <typename T>
    FOREDRAFT_DEVICE void store(T& t, int slot, const float (&state)[kFours * 4]) const {
      float* const to = layer.state(slot, head);
      FOREDRAFT_UNROLL
      for (int i = 0; i < kFours * 4; ++i) {
        const int row = row_of(i / 4) + i % 4;
        if (row < a.d_key && column < a.d_value) t.store(to + row * a.d_value + column, state[i]);
      }
    }

    /// Four of a query or key, zeros behind its end.
    template <typename T>
    FOREDRAFT_DEVICE Four four_of(T& t, const float* vector, int four) const {
      const int row = row_of(four);
      if (a.aligned) return load_elements(t, vector, row, a.d_key);
      Four values = {};
      FOREDRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (row + i < a.d_key) values.v[i] = t.load(vector + row + i);
      }
      return values;
    }

    /// The sum of all parts of a column.
    template <typename T>
    FOREDRAFT_DEVICE static float all_parts(T& t, float sum) {
      for (int mask = kWarp / 2; mask >= kColumns; mask /= 2) {
        sum = t.add(sum, t.shuffle_xor(sum, mask));
      }
      return sum;
    }

    template <typename T>
    FOREDRAFT_DEVICE void take_in(T& t, const StateStep& step, float (&state)[kFours * 4]) const {
      const int n_keys = a.n_key_heads * a.d_key;
      const int d_conv = 2 * n_keys + a.n_heads * a.d_value;
      const float* const in = layer.row(step.row) + d_conv;
      const int key_head = a.tiled ? head % a.n_key_heads : head / (a.n_heads / a.n_key_heads);
      const float* const q = in + key_head * a.d_key;
      const float* const k = q + n_keys;
      const float decay = t.load(in + d_conv + head);
      const float beta = t.load(in + d_conv + a.n_heads + head);
      const bool there = column < a.d_value;
      const float v = there ? t.load(in + 2 * n_keys + head * a.d_value + column) : 0.0f;

      float said = 0;
      FOREDRAFT_UNROLL
      for (int four = 0; four < kFours; ++four) {
        const Four key = four_of(t, k, four);
        FOREDRAFT_UNROLL
        for (int i = 0; i < 4; ++i) said = t.fma(state[four * 4 + i], key.v[i], said);
      }
      said = all_parts(t, said);
      const float correction = t.mul(beta, t.fma(-decay, said, v));
      FOREDRAFT_UNROLL
      for (int four = 0; four < kFours; ++four) {
        const Four key = four_of(t, k, four);
        FOREDRAFT_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& value = state[four * 4 + i];
          value = t.fma(key.v[i], correction, t.mul(decay, value));
        }
      }
      if (step.to != StateStep::kNobody) read_out(t, q, step.to, state);
    }

    template <typename T>
    FOREDRAFT_DEVICE void read_out(T& t, const float* q, int row,
                                   const float (&state)[kFours * 4]) const {
      float y = 0;
      FOREDRAFT_UNROLL
      for (int four = 0; four < kFours; ++four) {
        const Four query = four_of(t, q, four);
        FOREDRAFT_UNROLL
        for (int i = 0; i < 4; ++i) y = t.fma(state[four * 4 + i], query.v[i], y);
      }
      y = all_parts(t, y);
      if (part != 0 || column >= a.d_value) return;
      const auto width = idx(a.n_heads) * idx(a.d_value);
      t.store(a.out + idx(row) * width + head * a.d_value + column, y);
    }
  };
};

}  // namespace foredraft::inline v0::cuda
