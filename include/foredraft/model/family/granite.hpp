#pragma once

#include <string_view>

#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>

namespace foredraft::inline v0::family {

/// Granite 3 and the dense ones of Granite 4: Llama with factors on the embedding, on scores, on
/// what each part adds to the residual stream, and on the logits.
/// @source IBM Granite Team 2024, Granite 3.0 Language Models; the factors come from Yang et al.
///   2022, arXiv:2203.03466
struct Granite : Llama {
  static constexpr std::string_view kName = "granite";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config = full_attention(
        reader, RopeKind::kAdjacent,
        {.keys = {"embedding_scale", "attention.scale", "residual_scale", "logit_scale"}});
    // The key of models of mixed layers that do without rotation.
    if (!reader.flag("rope.scaling.finetuned", true)) {
      reader.refuse("rope.scaling.finetuned", "false", "queries and keys that turn");
    }
    config.embedding_scale = factor(reader, "embedding_scale", 1.0f);
    config.logit_scale = 1.0f / factor(reader, "logit_scale", 1.0f);  // files hold the divisor
    for (LayerShape& layer : config.layers) {
      layer.attention.scale = factor(reader, "attention.scale", layer.attention.scale);
      layer.attention.residual = factor(reader, "residual_scale", 1.0f);
      layer.feed_forward.residual = layer.attention.residual;
    }
    return config;
  }

 private:
  /// 0 stands for "none", as in other families.
  static float factor(const ConfigReader& reader, std::string_view key, float otherwise) {
    if (reader.number(key, 0.0) == 0.0) return otherwise;
    return static_cast<float>(reader.positive(key, 0.0));
  }
};

}  // namespace foredraft::inline v0::family
