#pragma once

#include <string>
#include <string_view>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_stack.hpp>

namespace foredraft::inline v0::family {

/// Qwen 3 with a mixture of experts in place of the feed-forward part.
/// @source Qwen Team 2025, arXiv:2505.09388; Shazeer et al. 2017, arXiv:1701.06538
struct Qwen3Moe : Llama {
  static constexpr std::string_view kName = "qwen3moe";
  static constexpr bool kMixesExperts = true;

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config = full_attention(reader, RopeKind::kHalves, {.rope_scaling = "yarn"});
    const Dim n_experts = reader.dimension("expert_count", {}, kMostExperts);
    const Dim n_used = reader.dimension("expert_used_count", {}, n_experts);
    const Dim d_ff = reader.dimension("expert_feed_forward_length");
    // All experts lie in one matrix, each in whole panels.
    (void)ConfigReader::all_heads(n_experts, d_ff);
    (void)ConfigReader::all_heads(n_experts, config.d_model);
    for (const auto& [key, size] :
         {std::pair("expert_feed_forward_length", d_ff), {"embedding_length", config.d_model}}) {
      if (size % 16 != 0) reader.refuse(key, std::to_string(size), "a multiple of 16");
    }
    if (reader.number("expert_shared_count", 0) != 0) {
      reader.refuse("expert_shared_count", "not 0", "experts that rows choose, and no others");
    }
    for (LayerShape& layer : config.layers) {
      layer.feed_forward.d_ff = d_ff;
      layer.feed_forward.n_experts = n_experts;
      layer.feed_forward.n_used = n_used;
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    const FeedForwardShape& f = c.layers[idx(n)].feed_forward;
    const Dim all_ff = ConfigReader::all_heads(f.n_experts, f.d_ff);
    const Dim all_model = ConfigReader::all_heads(f.n_experts, c.d_model);
    const std::string layer = prefix(n);
    LayerWeights<B> weights{
        .attn_norm = reader.vector(layer + "attn_norm.weight", c.d_model),
        .wq = reader.matrix(layer + "attn_q.weight", a.d_q, c.d_model),
        .wk = reader.matrix(layer + "attn_k.weight", a.d_kv, c.d_model),
        .wv = reader.matrix(layer + "attn_v.weight", a.d_kv, c.d_model),
        .wo = reader.matrix(layer + "attn_output.weight", c.d_model, a.d_q),
        .q_bias = {},
        .k_bias = {},
        .v_bias = {},
        .ffn_norm = reader.vector(layer + "ffn_norm.weight", c.d_model),
        .gate = reader.matrix(layer + "ffn_gate_exps.weight", all_ff, c.d_model),
        .up = reader.matrix(layer + "ffn_up_exps.weight", all_ff, c.d_model),
        .down = reader.matrix(layer + "ffn_down_exps.weight", all_model, f.d_ff),
        .router = reader.unchanged(layer + "ffn_gate_inp.weight", f.n_experts, c.d_model),
    };
    read_head_norms(reader, c, n, weights);
    return weights;
  }

 private:
  /// Far more than any model has; each pass keeps a score for each.
  static constexpr int kMostExperts = 1 << 12;
};

}  // namespace foredraft::inline v0::family
