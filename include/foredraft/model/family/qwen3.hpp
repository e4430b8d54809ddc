#pragma once

#include <string_view>

#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Qwen 3: Qwen 2 with a norm on each head of queries and keys, and without biases.
/// @source Qwen Team 2025, arXiv:2505.09388
struct Qwen3 : Llama {
  static constexpr std::string_view kName = "qwen3";

  static ModelConfig config(const ConfigReader& reader) {
    return full_attention(reader, RopeKind::kHalves, {.rope_scaling = "yarn"});
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = Llama::layer<B>(reader, c, n);
    read_head_norms(reader, c, n, weights);
    return weights;
  }
};

}  // namespace foredraft::inline v0::family
