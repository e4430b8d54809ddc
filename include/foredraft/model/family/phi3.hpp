#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Phi 3, 3.5 and 4: Llama with queries, keys and values in one tensor, and gate and up in another.
///
/// Models of long contexts have two sets of factors on the frequencies: for texts up to the context
/// of their first training, and for longer ones. A row must turn alike in a short text and in a long
/// one, so a model is one of the two: that of short texts here, and its context ends where they do.
/// @source Abdin et al. 2024, arXiv:2404.14219; Ding et al. 2024, arXiv:2402.13753
struct Phi3 : Llama {
  static constexpr std::string_view kName = "phi3";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config =
        decoder(reader, RopeKind::kHalves,
                {.keys = {"rope.scaling.attn_factor"}, .rope_scaling = "longrope"});
    const AttentionShape& a = config.layers.front().attention;
    const int d_ff = config.layers.front().feed_forward.d_ff;
    detail::require(std::max(a.d_q + a.d_kv + a.d_kv, d_ff + d_ff) <= Dim::kMost,
                    "matrices side by side that are wider than any", "smaller ones");
    const double factor = reader.number("rope.scaling.attn_factor", 1.0);
    if (factor != 0) {
      config.ropes.front().magnitude = reader.positive("rope.scaling.attn_factor", 1.0);
    }
    config.rope_factors = "rope_factors_short.weight";
    config.other_rope_factors = "rope_factors_long.weight";
    const Dim original = reader.dimension("rope.scaling.original_context_length", config.n_ctx);
    config.n_ctx = std::min(int{config.n_ctx}, int{original});
    const bool windows = reader.number("attention.sliding_window", 0) != 0;
    const Dim window = windows ? reader.dimension("attention.sliding_window") : Dim(0);
    if (window < config.n_ctx) {
      for (LayerShape& layer : config.layers) layer.attention.window = window;
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    const Dim d_ff = c.layers[idx(n)].feed_forward.d_ff;
    const std::string layer = prefix(n);
    const std::string qkv = layer + "attn_qkv.weight";
    const std::string gate_up = layer + "ffn_up.weight";
    const Dim d_qkv = a.d_q + a.d_kv + a.d_kv;
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    weights.attention =
        AttentionWeights<B>{.wq = reader.rows(qkv, d_qkv, c.d_model, 0, a.d_q),
                            .wk = reader.rows(qkv, d_qkv, c.d_model, a.d_q, a.d_kv),
                            .wv = reader.rows(qkv, d_qkv, c.d_model, a.d_q + a.d_kv, a.d_kv),
                            .wo = reader.matrix(layer + "attn_output.weight", c.d_model, a.d_q)};
    weights.feed_forward =
        FeedForwardWeights<B>{.norm = feed_forward_norm(reader, c, n),
                              .gate = reader.rows(gate_up, d_ff + d_ff, c.d_model, 0, d_ff),
                              .up = reader.rows(gate_up, d_ff + d_ff, c.d_model, d_ff, d_ff),
                              .down = reader.matrix(layer + "ffn_down.weight", c.d_model, d_ff)};
    return weights;
  }
};

}  // namespace foredraft::inline v0::family
