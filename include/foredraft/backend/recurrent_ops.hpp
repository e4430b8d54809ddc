#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Arguments of the operators of recurrent layers, beside those of backend/ops.hpp. `W` is the
/// backend's Worker as there; `V` is how the cache stores states, see StateStorage in
/// backend/state_storage.hpp.
///
/// Each operator computes the rows of a sequence step by step, each row from what lies before it on
/// its own path. So a row is the same to the bit whatever else is in the pass.

/// The most tokens that a convolution may see, its own included. Those of the families we know see
/// three or four.
inline constexpr int kMostTaps = 8;

/// A convolution over the newest `kernel` tokens, channel by channel, between two gates.
/// @source Liquid AI 2025, arXiv:2511.23404 (LFM2)
struct ShortConvShape {
  Dim width = 0;   ///< channels
  Dim kernel = 0;  ///< tokens that a row sees, its own included; at most kMostTaps

  Dim d_in() const { return 3 * int{width}; }
  /// A token puts in what is convolved.
  StateShape state() const { return {.n_inputs = width, .window = kernel - 1}; }
};

/// A selective scan: each head has a state that decays and takes in an outer product, behind a
/// convolution of what the layer puts in, and before a gate and a norm.
/// @source Dao and Gu 2024, arXiv:2405.21060 (Mamba 2)
struct SelectiveScanShape {
  Dim width = 0;     ///< n_heads * d_head
  Dim n_heads = 0;   ///< states
  Dim d_head = 0;    ///< rows of a state
  Dim d_state = 0;   ///< columns of a state
  Dim n_groups = 0;  ///< of heads that share b and c, and of channels with a norm of their own
  Dim kernel = 0;    ///< tokens that the convolution sees; at most kMostTaps

  /// Channels that are convolved: u, then b and c of each group.
  Dim d_conv() const { return int{width} + 2 * int{n_groups} * int{d_state}; }
  Dim d_in() const { return int{width} + int{d_conv()} + int{n_heads}; }
  /// A token puts in what is convolved, the result of that, and a time step for each head.
  StateShape state() const {
    return {.n_inputs = 2 * int{d_conv()} + int{n_heads},
            .window = kernel - 1,
            .n_heads = n_heads,
            .d_state = int{d_head} * int{d_state}};
  }
};

/// A gated delta net: each head has a state that decays, and in which each token corrects what is said
/// of its key. Queries, keys and values come out of a convolution; a norm of each head and a gate
/// follow.
/// @source Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464
struct GatedDeltaNetShape {
  Dim width = 0;        ///< n_heads * d_value
  Dim n_heads = 0;      ///< states
  Dim n_key_heads = 0;  ///< of queries, and of keys; each serves n_heads / n_key_heads states
  Dim d_key = 0;        ///< rows of a state
  Dim d_value = 0;      ///< columns of a state
  Dim kernel = 0;       ///< tokens that the convolution sees; at most kMostTaps
  bool tiled = false;   ///< a key serves heads that lie n_key_heads apart, else neighbours

  /// Channels that are convolved: queries, keys, values.
  Dim d_conv() const { return 2 * int{n_key_heads} * int{d_key} + int{width}; }
  /// Besides these the gate, and two numbers for each head.
  Dim d_in() const { return int{d_conv()} + int{width} + 2 * int{n_heads}; }
  /// A token puts in what is convolved, the result of that with queries and keys at their lengths,
  /// and for each head how much of the state stays and how much is corrected.
  StateShape state() const {
    return {.n_inputs = 2 * int{d_conv()} + 2 * int{n_heads},
            .window = kernel - 1,
            .n_heads = n_heads,
            .d_state = int{d_key} * int{d_value}};
  }
  /// Which query and key a head has.
  int key_head(int head) const {
    return tiled ? head % int{n_key_heads} : head / (int{n_heads} / int{n_key_heads});
  }
};

/// Added to the squared length of queries and keys, which are made 1 long.
inline constexpr float kLengthEpsilon = 1e-6f;

/// Where what a recurrent layer keeps of one sequence lies in its storage, besides its SequenceRows:
/// each token has a row there for what it puts in, and nobody else works out which.
struct StateRows {
  /// Storage rows of the newest committed tokens, oldest first: all those that a row may read.
  std::span<const std::int32_t> committed = {};
  /// Storage row of each staged node.
  std::span<const std::int32_t> staged = {};
  /// How many of the newest committed tokens the kept states have not taken in yet.
  int unapplied = 0;
  /// The kept states have taken in nothing: they are zeros, whatever memory says.
  bool empty = true;

  /// Storage row of the token that lies `back` before row i of a sequence; -1 before its beginning.
  std::int32_t before(const SequenceRows& rows, int i, int back) const noexcept {
    const int above = rows.visible(i) - 1 - rows.size;  // staged tokens before row i
    if (back <= above) {
      if (rows.chain()) return staged[idx(rows.first_node + i - back)];
      return staged[idx(rows.path[idx(rows.path_begin[idx(i) + 1] - 1 - back)])];
    }
    const int n_committed = static_cast<int>(committed.size());
    const int older = back - above;  // 1: the newest committed token
    return older <= n_committed ? committed[idx(n_committed - older)] : -1;
  }
  /// Storage row of row i of a sequence.
  std::int32_t own(const SequenceRows& rows, int i) const noexcept {
    return staged[idx(rows.first_node + i)];
  }
};

/// What every operator of a recurrent layer is given: `common` in its own arguments.
template <typename W, typename V>
struct RecurrentArgs {
  Out<W> x = nullptr;  // read and written [n_rows, d_model]
  int n_rows = 0;
  RmsNorm<W> norm = {};                          // before the layer
  std::span<const SequenceRows> sequences = {};  // every row of the pass in one of them
  std::span<const StateRows> states = {};        // one for each of `sequences`
  std::span<const typename V::Layer> kept = {};  // likewise

  /// What row i of a sequence puts in, where the host can read it.
  auto* own_row(std::size_t sequence, int i) const noexcept {
    return kept[sequence].row(states[sequence].own(sequences[sequence], i));
  }
};

/// [b, c, u] = in * norm(x); x += out * (c .* convolution(b .* u)), where b .* u is what a token puts
/// in, and its convolution is summed from the oldest token to the row itself.
template <typename W, typename V>
struct ShortConvArgs {
  RecurrentArgs<W, V> common = {};
  ShortConvShape shape = {};
  const typename W::Matrix* in = nullptr;   // [3 * width, d_model]
  In<W> kernel = nullptr;                   // [kernel, width], oldest token first
  const typename W::Matrix* out = nullptr;  // [d_model, width]
};

/// [gate, v, t] = in * norm(x), where v is convolved: [u, b, c] = silu(convolution(v) + conv_bias), and
/// dt = log(1 + exp(t + dt_bias)). For each head, with u its part and b and c those of its group:
///
///   state = exp(dt * decay) * state + (dt * u) b^T
///   y = state * c + skip * u
///
/// x += out * norm(y .* silu(gate)), with a norm for the channels of each group.
template <typename W, typename V>
struct SelectiveScanArgs {
  RecurrentArgs<W, V> common = {};
  SelectiveScanShape shape = {};
  const typename W::Matrix* in = nullptr;   // [width + d_conv + n_heads, d_model]
  In<W> kernel = nullptr;                   // [kernel, d_conv], oldest token first
  In<W> conv_bias = nullptr;                // [d_conv] or null
  In<W> dt_bias = nullptr;                  // [n_heads]
  In<W> decay = nullptr;                    // [n_heads], negative
  In<W> skip = nullptr;                     // [n_heads]
  RmsNorm<W> group_norm = {};               // [width]
  const typename W::Matrix* out = nullptr;  // [d_model, width]
};

/// [q, k, v] = silu(convolution(qkv * norm(x))), where each head of q and k is made 1 long, and q then
/// divided by sqrt(d_key). For each head, with q and k those that serve it:
///
///   state = exp(decay * log(1 + exp(alpha * norm(x) + dt_bias))) * state
///   state += k (sigmoid(beta * norm(x)) * (v - state^T k))^T
///   y = state^T q
///
/// x += out * (norm(y) .* silu(gate * norm(x))), with one norm that all heads share.
template <typename W, typename V>
struct GatedDeltaNetArgs {
  RecurrentArgs<W, V> common = {};
  GatedDeltaNetShape shape = {};
  const typename W::Matrix* qkv = nullptr;    // [d_conv, d_model]
  const typename W::Matrix* gate = nullptr;   // [width, d_model]
  const typename W::Matrix* beta = nullptr;   // [n_heads, d_model]
  const typename W::Matrix* alpha = nullptr;  // [n_heads, d_model]
  In<W> kernel = nullptr;                     // [kernel, d_conv], oldest token first
  In<W> dt_bias = nullptr;                    // [n_heads]
  In<W> decay = nullptr;                      // [n_heads], negative
  RmsNorm<W> head_norm = {};                  // [d_value]
  const typename W::Matrix* out = nullptr;    // [d_model, width]
};

}  // namespace foredraft::inline v0
