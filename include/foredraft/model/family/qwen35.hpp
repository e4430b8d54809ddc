#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/family/qwen3moe.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/recurrent_weights.hpp>

namespace foredraft::inline v0::family {

/// Qwen 3.5: three layers of four are a gated delta net, every fourth is attention with a gate, of
/// whose heads a part turns. The norm before the feed-forward part is called `post_attention_norm`.
/// Positions of text are the same in all sections of a rotation. Layers that only predict further
/// tokens, behind the others, are left unread.
/// @source Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464; Qiu et al. 2025, arXiv:2505.06708;
///   the model code of transformers
struct Qwen35 : Llama {
  static constexpr std::string_view kName = "qwen35";

  static ModelConfig config(const ConfigReader& reader) {
    return hybrid(reader, "feed_forward_length", true);
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = mixer<B>(reader, c, n);
    weights.feed_forward = feed_forward<B>(reader, c, n);
    weights.feed_forward.norm = post_attention_norm(reader, c, n);
    return weights;
  }

 protected:
  /// @param d_ff   the key with the width of feed-forward parts
  /// @param tiled  as in GatedDeltaNetShape
  static ModelConfig hybrid(const ConfigReader& reader, std::string_view d_ff, bool tiled) {
    ModelConfig config =
        full_attention(reader, RopeKind::kHalves, {.rope_scaling = "yarn", .d_ff = d_ff});
    const auto n_layers = static_cast<int>(config.layers.size());
    config.n_left_layers = n_predicting(reader, n_layers);
    config.layers.resize(idx(n_layers - config.n_left_layers));
    if (reader.has("attention.recurrent_layers")) {
      reader.refuse("attention.recurrent_layers", "a list", "full_attention_interval");
    }
    const int interval = reader.dimension("full_attention_interval", 4);
    const GatedDeltaNetShape delta_net = read_delta_net(reader, tiled);
    for (std::size_t n = 0; n < config.layers.size(); ++n) {
      LayerShape& layer = config.layers[n];
      layer.attention.gated = (n + 1) % idx(interval) == 0;
      if (layer.attention.gated) continue;
      layer.attention = {};
      layer.recurrent = delta_net;
    }
    return config;
  }

  /// The norm before the feed-forward part.
  template <typename Reader>
  static auto post_attention_norm(Reader& reader, const ModelConfig& c, int n) {
    return reader.vector(prefix(n) + "post_attention_norm.weight", c.d_model);
  }

  /// A layer without its feed-forward part.
  template <typename B, typename Reader>
  static LayerWeights<B> mixer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    if (c.layers[idx(n)].attends()) {
      read_gated_attention<B>(reader, c, n, weights);
    } else {
      weights.recurrent = delta_net_weights<B>(reader, c, n);
    }
    return weights;
  }

  /// Without what lies in tensors that Qwen 3 Next takes apart.
  template <typename B, typename Reader>
  static GatedDeltaNetWeights<B> delta_net_weights(Reader& reader, const ModelConfig& c, int n) {
    const auto& s = std::get<GatedDeltaNetShape>(c.layers[idx(n)].recurrent);
    const std::string layer = prefix(n);
    GatedDeltaNetWeights<B> weights;
    if (!reader.has(layer + "ssm_in.weight")) {
      weights.qkv = reader.matrix(layer + "attn_qkv.weight", s.d_conv(), c.d_model);
      weights.gate = reader.matrix(layer + "attn_gate.weight", s.width, c.d_model);
    }
    if (!reader.has(layer + "ssm_ba.weight")) {
      weights.beta = reader.matrix(layer + "ssm_beta.weight", s.n_heads, c.d_model);
      weights.alpha = reader.matrix(layer + "ssm_alpha.weight", s.n_heads, c.d_model);
    }
    weights.kernel = reader.transposed(layer + "ssm_conv1d.weight", s.d_conv(), s.kernel);
    weights.dt_bias = reader.vector(layer + "ssm_dt.bias", s.n_heads);
    weights.decay = reader.vector(layer + "ssm_a", s.n_heads);
    weights.head_norm = reader.vector(layer + "ssm_norm.weight", s.d_value);
    weights.out = reader.matrix(layer + "ssm_out.weight", c.d_model, s.width);
    return weights;
  }

 private:
  static int n_predicting(const ConfigReader& reader, int n_layers) {
    if (reader.number("nextn_predict_layers", 0) == 0) return 0;
    return reader.dimension("nextn_predict_layers", {}, n_layers - 1);
  }

  static GatedDeltaNetShape read_delta_net(const ConfigReader& reader, bool tiled) {
    GatedDeltaNetShape s{.tiled = tiled};
    s.kernel = reader.dimension("ssm.conv_kernel", {}, kMostTaps);
    s.width = reader.dimension("ssm.inner_size");
    s.n_heads = reader.dimension("ssm.time_step_rank");
    s.n_key_heads = reader.dimension("ssm.group_count");
    s.d_key = reader.dimension("ssm.state_size");
    detail::require(s.width % s.n_heads == 0 && s.n_heads % s.n_key_heads == 0,
                    std::to_string(s.width) + " channels, " + std::to_string(s.n_heads) +
                        " heads, " + std::to_string(s.n_key_heads) + " key heads",
                    "each a multiple of the next");
    s.d_value = s.width / s.n_heads;
    // What the shape multiplies later must fit a dimension, too.
    const Dim all_keys = reader.all_heads(s.n_key_heads, s.d_key);
    (void)reader.all_heads(s.d_key, s.d_value);
    (void)reader.all_heads(8, std::max({int{s.width}, int{all_keys}, int{s.n_heads}}));
    return s;
  }

  /// A head's rows of queries are followed by those of its gate.
  template <typename B, typename Reader>
  static void read_gated_attention(Reader& reader, const ModelConfig& c, int n,
                                   LayerWeights<B>& to) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    const std::string layer = prefix(n);
    const Dim both = ConfigReader::all_heads(2, a.d_q);
    const auto half = [&](int first) {
      return rows_of_runs(a.n_heads, 2 * int{a.d_head}, first, a.d_head);
    };
    AttentionWeights<B>& w = to.attention;
    w.wq = reader.picked(layer + "attn_q.weight", both, c.d_model, half(0), false);
    w.gate = reader.picked(layer + "attn_q.weight", both, c.d_model, half(a.d_head), true);
    w.wk = reader.matrix(layer + "attn_k.weight", a.d_kv, c.d_model);
    w.wv = reader.matrix(layer + "attn_v.weight", a.d_kv, c.d_model);
    w.wo = reader.matrix(layer + "attn_output.weight", c.d_model, a.d_q);
    read_head_norms(reader, c, n, to);
  }
};

/// Qwen 3.5 with a mixture of experts, and one that all rows take.
struct Qwen35Moe : Qwen35 {
  static constexpr std::string_view kName = "qwen35moe";
  static constexpr bool kMixesExperts = true;

  static ModelConfig config(const ConfigReader& reader) { return mixture(reader, true); }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = mixer<B>(reader, c, n);
    const FeedForwardShape& f = c.layers[idx(n)].feed_forward;
    weights.feed_forward.norm = post_attention_norm(reader, c, n);
    read_experts<B>(reader, c.d_model, f, prefix(n), weights.feed_forward);
    read_shared_expert<B>(reader, c.d_model, f.d_shared, prefix(n), weights.feed_forward);
    return weights;
  }

 protected:
  /// @param tiled  as in GatedDeltaNetShape
  static ModelConfig mixture(const ConfigReader& reader, bool tiled) {
    ModelConfig config = hybrid(reader, kExpertWidth, tiled);
    read_expert_shapes(reader, config);
    read_shared_expert(reader, config);
    return config;
  }
};

}  // namespace foredraft::inline v0::family
