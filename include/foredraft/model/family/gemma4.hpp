#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Gemma 4, its text part. As Gemma 3 has it: norms on each head of queries and keys, norms behind
/// attention and the feed-forward part, gates of GELU, an embedding times sqrt(d_model), and layers
/// with a window that turn by a base of their own. Besides:
///
///  - layers that see all positions have larger heads, fewer of them for keys and values, and may
///    make the values from the keys;
///  - values have a norm without weights, and scores no factor;
///  - the last layers read the keys and values of the last earlier layer of their kind;
///  - a second embedding has a part for each layer, which the layer lets through by a gate;
///  - what a layer leaves has a factor of its own.
///
/// Layers without a window turn a part of each head; in files, factors on the frequencies say which.
/// Norms of this family add nothing to their weights. Its mixtures of experts are refused.
/// @source transformers 5.17, models/gemma4; llama.cpp's converter
struct Gemma4 : Llama {
  static constexpr std::string_view kName = "gemma4";
  static constexpr bool kEmbedsLayers = true;

  static ModelConfig config(const ConfigReader& reader) {
    constexpr std::string_view kLogits = "final_logit_softcapping";
    ModelConfig config;
    const Dim n_layers = reader.dimension("block_count", {}, kMostLayers);
    config.n_ctx = reader.dimension("context_length");
    config.d_model = reader.dimension("embedding_length");
    config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-6);
    config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
    if (reader.number(kLogits, 0.0) != 0.0) {
      config.logit_softcap = static_cast<float>(reader.positive(kLogits, 0.0));
    }
    const std::string_view known[] = {kLogits};
    refuse_unknown_steps(reader, 1, known);  // scores have the factor 1
    config.d_input = optional_size(reader, "embedding_length_per_layer_input");
    if (config.d_input > 0) {
      (void)ConfigReader::all_heads(n_layers, config.d_input);
      config.input_scale = std::sqrt(static_cast<float>(config.d_input));
      // What is projected is divided by sqrt(d_model) before its norm: the same with a greater epsilon.
      config.input_norm_epsilon = config.norm_epsilon * static_cast<float>(config.d_model);
    }

    const AttentionShape full = read_heads(reader, "");
    AttentionShape near = read_heads(reader, "_swa");
    near.window = reader.dimension("attention.sliding_window");
    near.rope = 1;
    config.ropes = {read_rope(reader, "", full.d_head), read_rope(reader, "_swa", near.d_head)};
    config.ropes[0].scale = read_rope_scale(reader);
    config.ropes[1].factored = false;
    config.needs_rope_factors = true;

    const std::vector<Dim> d_ff = reader.of_layers("feed_forward_length", n_layers);
    const std::vector<Dim> n_kv_heads = reader.of_layers("attention.head_count_kv", n_layers);
    const std::vector<bool> windows =
        reader.flags_of_layers("attention.sliding_window_pattern", n_layers);
    for (std::size_t n = 0; n < idx(n_layers); ++n) {
      LayerShape layer{.attention = with_kv_heads(windows[n] ? near : full, n_kv_heads[n])};
      detail::require(d_ff[n] > 0, "a feed_forward_length of 0", "more");
      layer.feed_forward = FeedForwardShape{.activation = Activation::kGeluTanh, .d_ff = d_ff[n]};
      config.layers.push_back(layer);
    }
    share_keys(reader, config.layers);
    return config;
  }

  /// @pre c.d_input > 0
  template <typename B, typename Reader>
  static LayerInputWeights<B> layer_inputs(Reader& reader, const ModelConfig& c) {
    const Dim all = ConfigReader::all_heads(static_cast<int>(c.layers.size()), c.d_input);
    return {.table = reader.unchanged("per_layer_token_embd.weight", c.n_vocab, all),
            .projection = reader.matrix("per_layer_model_proj.weight", all, c.d_model),
            .norm = reader.vector("per_layer_proj_norm.weight", c.d_input)};
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    const std::string layer = prefix(n);
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    weights.attention.wq = reader.matrix(layer + "attn_q.weight", a.d_q, c.d_model);
    weights.attention.q_norm = reader.vector(layer + "attn_q_norm.weight", a.d_head);
    if (a.keys_of < 0) {
      read_keys(reader, c, n, weights.attention);
    } else {  // files may have them all the same
      for (const char* unused : {"attn_k", "attn_v", "attn_k_norm", "attn_v_norm"}) {
        reader.leave(layer + unused + ".weight");
      }
    }
    weights.attention.wo = reader.matrix(layer + "attn_output.weight", c.d_model, a.d_q);
    weights.feed_forward = feed_forward<B>(reader, c, n);
    weights.feed_forward.norm = feed_forward_norm(reader, c, n);
    read_post_norms(reader, c, n, weights);
    if (c.d_input > 0) {
      weights.input = InputGateWeights<B>{
          .gate = reader.matrix(layer + "inp_gate.weight", c.d_input, c.d_model),
          .down = reader.matrix(layer + "proj.weight", c.d_model, c.d_input),
          .norm = reader.vector(layer + "post_norm.weight", c.d_model)};
    }
    const auto scale = reader.optional_numbers(layer + "layer_output_scale.weight", 1);
    if (!scale.empty()) weights.output_scale = scale[0];
    return weights;
  }

 private:
  /// A number that may be 0.
  static Dim optional_size(const ConfigReader& reader, std::string_view key) {
    return reader.number(key, 0.0) == 0.0 ? Dim(0) : reader.dimension(key);
  }

  /// Heads of queries in layers of one kind. @param kind  what the names of its keys end with
  static AttentionShape read_heads(const ConfigReader& reader, const std::string& kind) {
    AttentionShape a;
    a.n_heads = reader.dimension("attention.head_count");
    a.d_head = reader.dimension("attention.key_length" + kind, {}, kMostHead);
    detail::require(reader.dimension("attention.value_length" + kind, a.d_head) == a.d_head,
                    "heads of keys and values that differ in size", "equal sizes");
    a.d_q = reader.all_heads(a.n_heads, a.d_head);
    return a;
  }

  static RopeShape read_rope(const ConfigReader& reader, const std::string& kind, Dim d_head) {
    const Dim n_rot = reader.dimension("rope.dimension_count" + kind, d_head);
    detail::require(n_rot % 2 == 0 && n_rot <= d_head,
                    "rope.dimension_count" + kind + " " + std::to_string(n_rot),
                    "an even number up to the head's " + std::to_string(d_head));
    // Layers with a window have a usual base; that of the others is nobody's default.
    const double otherwise = kind.empty() ? 0.0 : 10000.0;
    return {.kind = RopeKind::kHalves,
            .n_rot = n_rot,
            .base = reader.positive("rope.freq_base" + kind, otherwise)};
  }

  /// The last layers read the keys and values of the last one before them that is of their kind.
  static void share_keys(const ConfigReader& reader, std::vector<LayerShape>& layers) {
    constexpr std::string_view kKey = "attention.shared_kv_layers";
    const int n_layers = static_cast<int>(layers.size());
    const int n_shared = optional_size(reader, kKey);
    const int first = std::max(0, n_layers - n_shared);
    for (int n = first; n < n_layers; ++n) {
      AttentionShape& a = layers[idx(n)].attention;
      int source = first - 1;
      while (source >= 0 && layers[idx(source)].attention.window != a.window) --source;
      const bool alike = source >= 0 && layers[idx(source)].attention.n_kv_heads == a.n_kv_heads;
      if (!alike) reader.refuse(kKey, std::to_string(n_shared), "an earlier layer of each kind");
      a.keys_of = source;
    }
  }

  template <typename B, typename Reader>
  static void read_keys(Reader& reader, const ModelConfig& c, int n, AttentionWeights<B>& to) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    to.wk = reader.matrix(prefix(n) + "attn_k.weight", a.d_kv, c.d_model);
    to.k_norm = reader.vector(prefix(n) + "attn_k_norm.weight", a.d_head);
    to.v_norm = reader.ones(a.d_head);
    // A file says it by leaving the tensor out.
    to.v_from_k = a.window == 0 && !reader.has(prefix(n) + "attn_v.weight");
    if (!to.v_from_k) to.wv = reader.matrix(prefix(n) + "attn_v.weight", a.d_kv, c.d_model);
  }
};

}  // namespace foredraft::inline v0::family
