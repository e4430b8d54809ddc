#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// The width of experts stands in a key of its own.
inline constexpr std::string_view kExpertWidth = "expert_feed_forward_length";

/// Layers whose feed-forward parts are experts, all of the width that the shape has already.
inline void read_expert_shapes(const ConfigReader& reader, ModelConfig& config) {
  // Far more than any model has; each pass keeps a score for each.
  constexpr int kMostExperts = 1 << 12;
  const Dim n_experts = reader.dimension("expert_count", {}, kMostExperts);
  const Dim n_used = reader.dimension("expert_used_count", {}, n_experts);
  const Dim d_ff = config.layers.front().feed_forward.d_ff;
  (void)ConfigReader::all_heads(n_experts, d_ff);
  (void)ConfigReader::all_heads(n_experts, config.d_model);
  for (const auto& [key, size] :
       {std::pair(kExpertWidth, d_ff), {"embedding_length", config.d_model}}) {
    if (size % kExpertMultiple == 0) continue;
    reader.refuse(key, std::to_string(size), "a multiple of " + std::to_string(kExpertMultiple));
  }
  for (LayerShape& layer : config.layers) {
    layer.feed_forward.n_experts = n_experts;
    layer.feed_forward.n_used = n_used;
  }
}

/// Some rows of each of n_runs that have `length` rows.
inline std::vector<int> rows_of_runs(int n_runs, int length, int first, int count) {
  std::vector<int> rows;
  for (int run = 0; run < n_runs; ++run) {
    for (int i = 0; i < count; ++i) rows.push_back(run * length + first + i);
  }
  return rows;
}

/// Gate and up are tensors of their own, or one, in which each expert has its gate first.
/// @param layer  what the names of its tensors begin with
template <typename B, typename Reader>
void read_experts(Reader& reader, Dim d_model, const FeedForwardShape& f, const std::string& layer,
                  FeedForwardWeights<B>& to) {
  const Dim all_ff = ConfigReader::all_heads(f.n_experts, f.d_ff);
  const Dim all_model = ConfigReader::all_heads(f.n_experts, d_model);
  if (const std::string both = layer + "ffn_gate_up_exps.weight"; reader.has(both)) {
    const Dim all_rows = all_ff + all_ff;
    const auto half = [&](int first) {
      return rows_of_runs(f.n_experts, 2 * int{f.d_ff}, first, f.d_ff);
    };
    to.gate = reader.picked(both, all_rows, d_model, half(0), false);
    to.up = reader.picked(both, all_rows, d_model, half(f.d_ff), true);
  } else {
    to.gate = reader.matrix(layer + "ffn_gate_exps.weight", all_ff, d_model);
    to.up = reader.matrix(layer + "ffn_up_exps.weight", all_ff, d_model);
  }
  to.down = reader.matrix(layer + "ffn_down_exps.weight", all_model, f.d_ff);
  to.router = reader.unchanged(layer + "ffn_gate_inp.weight", f.n_experts, d_model);
}

/// An expert that all rows take besides, as much of it as its own score says.
inline void read_shared_expert(const ConfigReader& reader, ModelConfig& config) {
  const Dim d_shared = reader.dimension("expert_shared_feed_forward_length");
  for (LayerShape& layer : config.layers) layer.feed_forward.d_shared = d_shared;
}

template <typename B, typename Reader>
void read_shared_expert(Reader& reader, Dim d_model, Dim d_shared, const std::string& layer,
                        FeedForwardWeights<B>& to) {
  to.shared = SharedExpertWeights<B>{
      .score = reader.unchanged(layer + "ffn_gate_inp_shexp.weight", 1, d_model),
      .gate = reader.matrix(layer + "ffn_gate_shexp.weight", d_shared, d_model),
      .up = reader.matrix(layer + "ffn_up_shexp.weight", d_shared, d_model),
      .down = reader.matrix(layer + "ffn_down_shexp.weight", d_model, d_shared)};
}

/// Qwen 3 with a mixture of experts in place of the feed-forward part.
/// @source Qwen Team 2025, arXiv:2505.09388; Shazeer et al. 2017, arXiv:1701.06538
struct Qwen3Moe : Llama {
  static constexpr std::string_view kName = "qwen3moe";
  static constexpr bool kMixesExperts = true;

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config =
        full_attention(reader, RopeKind::kHalves, {.rope_scaling = "yarn", .d_ff = kExpertWidth});
    if (reader.number("expert_shared_count", 0) != 0) {
      reader.refuse("expert_shared_count", "not 0", "experts that rows choose, and no others");
    }
    read_expert_shapes(reader, config);
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights;
    weights.norm = norm(reader, c, n);
    weights.attention = attention<B>(reader, c, n);
    weights.feed_forward.norm = feed_forward_norm(reader, c, n);
    read_experts<B>(reader, c.d_model, c.layers[idx(n)].feed_forward, prefix(n),
                    weights.feed_forward);
    read_head_norms(reader, c, n, weights);
    return weights;
  }
};

}  // namespace foredraft::inline v0::family
