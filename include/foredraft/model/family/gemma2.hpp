#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include <foredraft/backend/ops.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Gemma 2. Llama with soft-caps on scores and logits, norms behind attention and the feed-forward
/// part, gates of GELU, and an embedding times sqrt(d_model). Every second layer, from the first on,
/// sees a window.
///
/// Files hold the weights of norms with the 1 that the family adds to them.
/// @source Gemma Team 2024, arXiv:2408.00118
struct Gemma2 : Llama {
  static constexpr std::string_view kName = "gemma2";

  static ModelConfig config(const ConfigReader& reader) {
    constexpr std::string_view kScores = "attn_logit_softcapping";
    constexpr std::string_view kLogits = "final_logit_softcapping";
    ModelConfig config = decoder(reader, RopeKind::kHalves, {.keys = {kScores, kLogits}});
    config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
    // Early files lack the keys, and have the caps of the paper.
    config.logit_softcap = static_cast<float>(reader.positive(kLogits, 30.0));
    const auto softcap = static_cast<float>(reader.positive(kScores, 50.0));
    const Dim window = reader.dimension("attention.sliding_window", 4096);
    for (std::size_t n = 0; n < config.layers.size(); ++n) {
      config.layers[n].feed_forward.activation = Activation::kGeluTanh;
      AttentionShape& attention = config.layers[n].attention;
      attention.softcap = softcap;
      if (n % 2 == 0) attention.window = window;
      if (config.layers.size() == kLayersOf27B) {
        attention.scale =
            std::sqrt(static_cast<float>(attention.n_heads) / static_cast<float>(config.d_model));
      }
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = Llama::layer<B>(reader, c, n);
    read_post_norms(reader, c, n, weights);
    return weights;
  }

 private:
  /// The 27B model scales scores by the share of a head in d_model, which is not the size of its
  /// heads. Its files do not say so; nothing else has as many layers.
  static constexpr std::size_t kLayersOf27B = 46;
};

}  // namespace foredraft::inline v0::family
