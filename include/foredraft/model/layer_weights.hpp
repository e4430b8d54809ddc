#pragma once

#include <optional>

#include <foredraft/model/recurrent_weights.hpp>

namespace foredraft::inline v0 {

/// Weights of attention. @see AttentionShape, QkvArgs, AttendArgs
template <typename B>
struct AttentionWeights {
  using Matrix = typename B::Matrix;
  using Vector = typename B::Vector;

  Matrix wq = {};         // [d_q, d_model]
  Matrix wk = {};         // [d_kv, d_model]; none where AttentionShape::keys_of names another layer
  Matrix wv = {};         // likewise, or none where v is made from k
  Matrix wo = {};         // [d_model, d_q]
  Matrix gate = {};       // [d_q, d_model] where attention is gated
  Vector q_bias = {};     // [d_q] or empty
  Vector k_bias = {};     // [d_kv] or empty
  Vector v_bias = {};     // [d_kv] or empty
  Vector q_norm = {};     // [d_head], [d_q] if norms_all_heads, or empty
  Vector k_norm = {};     // [d_head], [d_kv], or empty
  Vector v_norm = {};     // [d_head] or empty
  Vector post_norm = {};  // [d_model] or empty
  bool v_from_k = false;  // there is no wv
};

/// Weights of an expert that all rows take. @see MixtureArgs
template <typename B>
struct SharedExpertWeights {
  typename B::Matrix score;  // [1, d_model]
  typename B::Matrix gate;   // [d_shared, d_model]
  typename B::Matrix up;     // [d_shared, d_model]
  typename B::Matrix down;   // [d_model, d_shared]
};

/// Weights of a feed-forward part. Of a mixture each matrix is all experts', one behind the other.
/// @see FeedForwardShape, FeedForwardArgs, MixtureArgs
template <typename B>
struct FeedForwardWeights {
  using Matrix = typename B::Matrix;
  using Vector = typename B::Vector;

  Vector norm = {};                                   // [d_model] or empty
  Matrix gate = {};                                   // [d_ff, d_model]
  Matrix up = {};                                     // [d_ff, d_model]
  Matrix down = {};                                   // [d_model, d_ff]
  Vector post_norm = {};                              // [d_model] or empty
  bool has_up = true;                                 // or there is no `up`
  std::optional<Matrix> router = {};                  // [n_experts, d_model] of a mixture
  std::optional<SharedExpertWeights<B>> shared = {};  // of a mixture that has one
};

/// What lets a layer's own embedding in. @see EmbedLayersArgs
template <typename B>
struct InputGateWeights {
  typename B::Matrix gate;  // [d_input, d_model]
  typename B::Matrix down;  // [d_model, d_input]
  typename B::Vector norm;  // [d_model]
};

/// Weights of one layer, in the backend's own format: those of the parts that its LayerShape has.
template <typename B>
struct LayerWeights {
  typename B::Vector norm = {};  // [d_model] or empty: before attention, or what is in its place
  AttentionWeights<B> attention = {};
  RecurrentWeights<B> recurrent = {};
  FeedForwardWeights<B> feed_forward = {};
  std::optional<InputGateWeights<B>> input = {};
  float output_scale = 1.0f;  // on x behind all of the layer
};

/// An embedding for each layer. @see EmbedLayersArgs
template <typename B>
struct LayerInputWeights {
  typename B::Matrix table;       // [n_vocab, n_layers * d_input]
  typename B::Matrix projection;  // [n_layers * d_input, d_model]
  typename B::Vector norm;        // [d_input]
};

}  // namespace foredraft::inline v0
