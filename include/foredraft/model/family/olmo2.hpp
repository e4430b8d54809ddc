#pragma once

#include <cstddef>
#include <string_view>

#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// OLMo 2 and 3: Llama with its norms behind attention and the
/// feed-forward part instead of before them, and a norm on all heads of queries together, and of
/// keys. In OLMo 3 three layers of four see a window.
/// @source OLMo Team 2024, arXiv:2501.00656
struct Olmo2 : Llama {
  static constexpr std::string_view kName = "olmo2";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config = decoder(reader, RopeKind::kHalves, {.rope_scaling = "yarn"});
    const bool windows = reader.number("attention.sliding_window", 0) != 0;
    const Dim window = windows ? reader.dimension("attention.sliding_window") : Dim(0);
    const Dim period = reader.dimension("attention.sliding_window_pattern", 4);
    // Longer contexts stretch the positions of full layers only.
    RopeShape near = config.ropes.front();
    near.scale = near.magnitude = 1.0;
    near.stretch.clear();
    if (windows) config.ropes.push_back(near);
    for (std::size_t n = 0; n < config.layers.size(); ++n) {
      AttentionShape& attention = config.layers[n].attention;
      attention.norms_all_heads = true;
      if (!windows || (n + 1) % idx(period) == 0) continue;
      attention.window = window;
      attention.rope = 1;
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const AttentionShape& a = c.layers[idx(n)].attention;
    LayerWeights<B> weights;
    weights.attention = attention<B>(reader, c, n);
    weights.attention.q_norm = reader.vector(prefix(n) + "attn_q_norm.weight", a.d_q);
    weights.attention.k_norm = reader.vector(prefix(n) + "attn_k_norm.weight", a.d_kv);
    weights.feed_forward = feed_forward<B>(reader, c, n);
    read_post_norms(reader, c, n, weights);
    return weights;
  }
};

}  // namespace foredraft::inline v0::family
