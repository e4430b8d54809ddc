#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/recurrent_weights.hpp>

namespace foredraft::inline v0::family {

/// LFM2. Most layers are a short convolution between two gates; the others are attention as in Llama,
/// with a norm on each head of queries and keys. The norm before the head is called
/// `token_embd_norm`.
/// @source Liquid AI 2025, arXiv:2511.23404
struct Lfm2 : Llama {
  static constexpr std::string_view kName = "lfm2";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config;
    const Dim n_layers = reader.dimension("block_count", {}, kMostLayers);
    config.n_ctx = reader.dimension("context_length");
    config.d_model = reader.dimension("embedding_length");
    config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-5);
    config.output_norm = "token_embd_norm.weight";
    const FeedForwardShape feed_forward{.d_ff = reader.dimension("feed_forward_length")};
    const Dim n_heads = reader.dimension("attention.head_count");
    const Dim d_head = reader.dimension(
        "attention.key_length", std::clamp(config.d_model / n_heads, 1, kMostHead), kMostHead);
    const Dim n_rot = reader.dimension("rope.dimension_count", d_head);
    detail::require(n_rot % 2 == 0 && n_rot <= d_head,
                    "rope.dimension_count " + std::to_string(n_rot),
                    "an even number up to the head's " + std::to_string(d_head));
    detail::require(reader.dimension("attention.value_length", d_head) == d_head,
                    "heads of keys and values that differ in size", "equal sizes");
    config.ropes = {{RopeKind::kHalves, n_rot, reader.positive("rope.freq_base", 1e6),
                     read_rope_scale(reader)}};
    refuse_unknown_steps(reader, d_head);
    refuse_windows(reader, config.n_ctx);
    const ShortConvShape conv{.width = config.d_model,
                              .kernel = reader.dimension("shortconv.l_cache", {}, kMostTaps)};
    // A layer without heads for keys and values is a convolution.
    for (const Dim n_kv_heads : reader.of_layers("attention.head_count_kv", n_layers)) {
      LayerShape layer{.feed_forward = feed_forward};
      if (n_kv_heads == 0) {
        layer.recurrent = conv;
      } else {
        layer.attention = read_heads(reader, n_heads, n_kv_heads, d_head);
      }
      config.layers.push_back(layer);
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const LayerShape& shape = c.layers[idx(n)];
    if (shape.attends()) {
      LayerWeights<B> weights = Llama::layer<B>(reader, c, n);
      read_head_norms(reader, c, n, weights);
      return weights;
    }
    const ShortConvShape& conv = std::get<ShortConvShape>(shape.recurrent);
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    ShortConvWeights<B> mixer{
        .in = reader.matrix(prefix(n) + "shortconv.in_proj.weight", conv.d_in(), c.d_model),
        .kernel = reader.transposed(prefix(n) + "shortconv.conv.weight", conv.width, conv.kernel),
        .out = reader.matrix(prefix(n) + "shortconv.out_proj.weight", c.d_model, conv.width)};
    weights.recurrent = std::move(mixer);
    weights.feed_forward = feed_forward<B>(reader, c, n);
    weights.feed_forward.norm = feed_forward_norm(reader, c, n);
    return weights;
  }

 private:
  static AttentionShape read_heads(const ConfigReader& reader, Dim n_heads, Dim n_kv_heads,
                                   Dim d_head) {
    AttentionShape a{.n_heads = n_heads, .d_head = d_head};
    a.d_q = reader.all_heads(n_heads, d_head);
    a.scale = 1.0f / std::sqrt(static_cast<float>(int{d_head}));
    return with_kv_heads(a, n_kv_heads);
  }
};

}  // namespace foredraft::inline v0::family
