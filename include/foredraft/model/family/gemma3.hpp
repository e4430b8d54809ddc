#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Gemma 3. Llama with a norm on each head of queries and keys, norms behind attention and the
/// feed-forward part, gates of GELU, and an embedding times sqrt(d_model). Five layers of six see a
/// window and turn by a base of their own; the sixth sees all positions.
///
/// Files hold the weights of norms with the 1 that the family adds to them.
/// @source Gemma Team 2025, arXiv:2503.19786
struct Gemma3 : Llama {
  static constexpr std::string_view kName = "gemma3";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config = decoder(reader, RopeKind::kHalves);
    config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
    // Converters name the bases in two ways. That of full layers is nobody's default.
    RopeShape& far = config.ropes.front();
    far.base = reader.positive("rope.freq_base", reader.number("rope.global.freq_base", 0.0));
    // Longer contexts stretch the positions of full layers only.
    RopeShape near = far;
    near.base =
        reader.positive("rope.freq_base_swa", reader.number("rope.local.freq_base", 10000.0));
    near.scale = 1.0;
    config.ropes.push_back(near);
    const Dim window = reader.dimension("attention.sliding_window");
    const Dim period = reader.dimension("attention.sliding_window_pattern", 6);
    for (std::size_t n = 0; n < config.layers.size(); ++n) {
      auto& [attention, feed_forward, recurrent] = config.layers[n];
      feed_forward.activation = Activation::kGeluTanh;
      if (config.layers.size() == kLayersOf27B) {
        attention.scale =
            std::sqrt(static_cast<float>(attention.n_heads) / static_cast<float>(config.d_model));
      }
      if ((n + 1) % idx(period) == 0) continue;
      attention.window = window;
      attention.rope = 1;
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = Llama::layer<B>(reader, c, n);
    read_head_norms(reader, c, n, weights);
    read_post_norms(reader, c, n, weights);
    return weights;
  }

 private:
  /// The 27B model scales scores by the share of a head in d_model, which is not the size of its
  /// heads. Its files do not say so; nothing else has as many layers.
  static constexpr std::size_t kLayersOf27B = 62;
};

}  // namespace foredraft::inline v0::family
