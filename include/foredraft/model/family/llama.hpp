#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/yarn.hpp>

namespace foredraft::inline v0::family {

using detail::ConfigReader;

/// Metadata that changes what a decoder computes in ways that this one does not know. Left unread
/// it would give text that looks whole and is wrong.
/// @source GGUF specification, and the keys that llama.cpp reads for any family
/// @param known  keys whose meaning the family computes
inline void refuse_unknown_steps(const ConfigReader& reader, Dim d_head,
                                 std::span<const std::string_view> known = {}) {
  struct Step {
    std::string_view key;
    double neutral;  // beside 0, which stands for "none" in all of them
  };
  const Step steps[] = {
      {"attn_logit_softcapping", 0},
      {"final_logit_softcapping", 0},
      {"logit_scale", 1},
      {"embedding_scale", 1},
      {"residual_scale", 1},
      {"attention.scale", 1 / std::sqrt(static_cast<double>(d_head))},
      {"attention.clamp_kqv", 0},
      {"attention.max_alibi_bias", 0},
      {"attention.temperature_scale", 0},
      {"rope.scaling.attn_factor", 1},
  };
  for (const auto& [key, neutral] : steps) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const double value = reader.number(key, neutral);
    // Files hold floats: 1 / sqrt(d_head) need not be the nearest double.
    if (value == 0 || std::abs(value - neutral) <= 1e-6 * neutral) continue;
    reader.refuse(key, std::to_string(value),
                  neutral == 0 ? "0, or no such key" : std::to_string(neutral));
  }
  if (!reader.flag("attention.causal", true)) {
    reader.refuse("attention.causal", "false", "a model that reads from left to right");
  }
  if (reader.flag("use_parallel_residual", false)) {
    reader.refuse("use_parallel_residual", "true", "attention before the feed-forward part");
  }
}

/// A family that says which layers have a window reads this key instead.
inline void refuse_windows(const ConfigReader& reader, Dim n_ctx) {
  const double window = reader.number("attention.sliding_window", 0);
  if (window == 0 || window >= n_ctx) return;
  reader.refuse("attention.sliding_window", std::to_string(window),
                "attention to the whole context of " + std::to_string(n_ctx));
}

/// Factor on the positions. A factor without a type has no meaning that all programs share: some
/// take it as linear, others leave it unread.
/// @param known  a type whose meaning the family computes otherwise; empty: none
inline double read_rope_scale(const ConfigReader& reader, std::string_view known = {}) {
  const auto type = reader.text("rope.scaling.type");
  if (type && !known.empty() && *type == known) return 1.0;
  if (type == "linear") return 1.0 / reader.positive("rope.scaling.factor", 1.0);
  if (type && type != "none") {
    throw Error(ErrorCode::kUnsupportedModel, "rope scaling " + in_quotes(*type), "none or linear",
                "take a model that was trained for its context without it");
  }
  if (type) return 1.0;
  for (const std::string_view key : {"rope.scaling.factor", "rope.scale_linear"}) {
    const double factor = reader.number(key, 1.0);
    if (factor != 0 && factor != 1) {
      reader.refuse(key, std::to_string(factor), "rope.scaling.type beside it, or the value 1");
    }
  }
  return 1.0;
}

/// A context that was stretched by YaRN, for families that know it. Programs differ in what further
/// keys mean, so these have to be neutral.
inline void read_yarn(const ConfigReader& reader, RopeShape& rope) {
  for (const auto& [key, neutral] : {std::pair("rope.scaling.yarn_ext_factor", 1.0),
                                     {"rope.scaling.yarn_attn_factor", 1.0},
                                     {"rope.scaling.yarn_log_multiplier", 0.0}}) {
    const double value = reader.number(key, neutral);
    if (value != neutral) reader.refuse(key, std::to_string(value), std::to_string(neutral));
  }
  const int original = reader.dimension("rope.scaling.original_context_length");
  const Yarn yarn{.factor = reader.positive("rope.scaling.factor", 0.0),
                  .original = static_cast<double>(original),
                  .beta_fast = reader.positive("rope.scaling.yarn_beta_fast", 32.0),
                  .beta_slow = reader.positive("rope.scaling.yarn_beta_slow", 1.0)};
  if (rope.base <= 1) reader.refuse("rope.freq_base", std::to_string(rope.base), "more than 1");
  rope.stretch = yarn.stretch(rope.n_rot, rope.base);
  rope.magnitude = yarn.magnitude();
}

/// What a family computes of what others must not meet in a file.
struct KnownSteps {
  std::vector<std::string_view> keys = {};  ///< of refuse_unknown_steps()
  std::string_view rope_scaling = {};       ///< of read_rope_scale()
  std::string_view d_ff = "feed_forward_length";
};

/// Llama, and what is shaped like it: SmolLM2, Mistral without a window. Other families are said by
/// what they do otherwise.
/// @source Touvron et al. 2023, arXiv:2302.13971; GGUF specification
struct Llama {
  static constexpr std::string_view kName = "llama";

  static ModelConfig config(const ConfigReader& reader) {
    return full_attention(reader, RopeKind::kAdjacent);
  }

  /// Layer tensors, all named `blk.N.`: biases where the file has some.
  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    weights.attention = attention<B>(reader, c, n);
    weights.attention.q_bias = reader.optional_vector(prefix(n) + "attn_q.bias", a.d_q);
    weights.attention.k_bias = reader.optional_vector(prefix(n) + "attn_k.bias", a.d_kv);
    weights.attention.v_bias = reader.optional_vector(prefix(n) + "attn_v.bias", a.d_kv);
    weights.feed_forward = feed_forward<B>(reader, c, n);
    weights.feed_forward.norm = feed_forward_norm(reader, c, n);
    return weights;
  }

 protected:
  static std::string prefix(int layer) { return "blk." + std::to_string(layer) + "."; }

  /// The norm before attention, or before what is in its place.
  template <typename Reader>
  static auto norm(Reader& reader, const ModelConfig& c, int n) {
    return reader.vector(prefix(n) + "attn_norm.weight", c.d_model);
  }

  template <typename Reader>
  static auto feed_forward_norm(Reader& reader, const ModelConfig& c, int n) {
    return reader.vector(prefix(n) + "ffn_norm.weight", c.d_model);
  }

  /// The matrices of attention.
  template <typename B, typename Reader>
  static AttentionWeights<B> attention(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    return {.wq = reader.matrix(prefix(n) + "attn_q.weight", a.d_q, c.d_model),
            .wk = reader.matrix(prefix(n) + "attn_k.weight", a.d_kv, c.d_model),
            .wv = reader.matrix(prefix(n) + "attn_v.weight", a.d_kv, c.d_model),
            .wo = reader.matrix(prefix(n) + "attn_output.weight", c.d_model, a.d_q)};
  }

  /// Those of a feed-forward part that is no mixture.
  template <typename B, typename Reader>
  static FeedForwardWeights<B> feed_forward(Reader& reader, const ModelConfig& c, int n) {
    const Dim d_ff = c.layers[idx(n)].feed_forward.d_ff;
    return {.gate = reader.matrix(prefix(n) + "ffn_gate.weight", d_ff, c.d_model),
            .up = reader.matrix(prefix(n) + "ffn_up.weight", d_ff, c.d_model),
            .down = reader.matrix(prefix(n) + "ffn_down.weight", c.d_model, d_ff)};
  }

  /// Heads of queries with n_kv_heads for keys and values, in families whose layers differ in it.
  static AttentionShape with_kv_heads(AttentionShape a, Dim n_kv_heads) {
    detail::require(
        n_kv_heads > 0 && a.n_heads % n_kv_heads == 0,
        std::to_string(a.n_heads) + " heads, " + std::to_string(n_kv_heads) + " KV heads",
        "a multiple");
    a.n_kv_heads = n_kv_heads;
    a.d_kv = ConfigReader::all_heads(n_kv_heads, a.d_head);
    return a;
  }

  /// A norm on each head of queries and keys.
  template <typename B, typename Reader>
  static void read_head_norms(Reader& reader, const ModelConfig& c, int n, LayerWeights<B>& to) {
    const Dim d_head = c.layers[idx(n)].attention.d_head;
    to.attention.q_norm = reader.vector(prefix(n) + "attn_q_norm.weight", d_head);
    to.attention.k_norm = reader.vector(prefix(n) + "attn_k_norm.weight", d_head);
  }

  /// Norms behind attention and behind the feed-forward part.
  template <typename B, typename Reader>
  static void read_post_norms(Reader& reader, const ModelConfig& c, int n, LayerWeights<B>& to) {
    to.attention.post_norm = reader.vector(prefix(n) + "post_attention_norm.weight", c.d_model);
    to.feed_forward.post_norm = reader.vector(prefix(n) + "post_ffw_norm.weight", c.d_model);
  }

  /// Layers that are all alike and see all positions.
  static ModelConfig full_attention(const ConfigReader& reader, RopeKind rope,
                                    const KnownSteps& known = {}) {
    ModelConfig config = decoder(reader, rope, known);
    refuse_windows(reader, config.n_ctx);
    return config;
  }

  /// Layers that are all alike, before windows.
  static ModelConfig decoder(const ConfigReader& reader, RopeKind rope,
                             const KnownSteps& known = {}) {
    ModelConfig config;
    const Dim n_layers = reader.dimension("block_count", {}, kMostLayers);
    config.n_ctx = reader.dimension("context_length");
    config.d_model = reader.dimension("embedding_length");
    const FeedForwardShape feed_forward{.d_ff = reader.dimension(known.d_ff)};
    const AttentionShape attention = read_attention(reader, config.d_model);
    const Dim n_rot = reader.dimension("rope.dimension_count", attention.d_head);
    config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-5);
    const double base = reader.positive("rope.freq_base", 10000.0);
    check(attention, n_rot, reader);
    config.ropes = {RopeShape{.kind = rope,
                              .n_rot = n_rot,
                              .base = base,
                              .scale = read_rope_scale(reader, known.rope_scaling)}};
    if (known.rope_scaling == "yarn" && reader.text("rope.scaling.type") == "yarn") {
      read_yarn(reader, config.ropes.front());
    }
    refuse_unknown_steps(reader, attention.d_head, known.keys);
    config.layers.assign(idx(n_layers),
                         LayerShape{.attention = attention, .feed_forward = feed_forward});
    return config;
  }

 private:
  static AttentionShape read_attention(const ConfigReader& reader, Dim d_model) {
    AttentionShape a;
    a.n_heads = reader.dimension("attention.head_count");
    a.n_kv_heads = reader.dimension("attention.head_count_kv", a.n_heads);
    a.d_head = reader.dimension("attention.key_length",
                                std::clamp(d_model / a.n_heads, 1, kMostHead), kMostHead);
    a.d_q = reader.all_heads(a.n_heads, a.d_head);
    a.d_kv = reader.all_heads(a.n_kv_heads, a.d_head);
    a.scale = 1.0f / std::sqrt(static_cast<float>(a.d_head));
    return a;
  }

  static void check(const AttentionShape& a, Dim n_rot, const ConfigReader& reader) {
    detail::require(
        a.n_heads % a.n_kv_heads == 0,
        std::to_string(a.n_heads) + " heads, " + std::to_string(a.n_kv_heads) + " KV heads",
        "a multiple");
    detail::require(n_rot % 2 == 0 && n_rot <= a.d_head,
                    "rope.dimension_count " + std::to_string(n_rot),
                    "an even number up to the head's " + std::to_string(a.d_head));
    detail::require(reader.dimension("attention.value_length", a.d_head) == a.d_head,
                    "heads of keys and values that differ in size", "equal sizes");
  }
};

}  // namespace foredraft::inline v0::family
