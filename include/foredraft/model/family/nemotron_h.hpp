#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/family/mamba2.hpp>
#include <foredraft/model/layer_weights.hpp>

namespace foredraft::inline v0::family {

/// Nemotron-H. A layer is one of three and nothing else: a selective scan as in Mamba 2, attention
/// without rotation, or a feed-forward part of two matrices around the square of what is above 0.
/// Each has one norm, `attn_norm`. Time steps have no floor: transformers has one, which files do not
/// carry. Its mixtures of experts are another family.
/// @source NVIDIA 2025, arXiv:2504.03624
struct NemotronH : Llama {
  static constexpr std::string_view kName = "nemotron_h";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config;
    const Dim n_layers = reader.dimension("block_count", {}, kMostLayers);
    config.n_ctx = reader.dimension("context_length");
    config.d_model = reader.dimension("embedding_length");
    config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-5);
    config.ropes = {RopeShape{}};  // nothing turns
    const AttentionShape attention = read_heads(reader, config.d_model);
    refuse_unknown_steps(reader, attention.d_head);
    refuse_windows(reader, config.n_ctx);
    if (reader.flag("rope.scaling.finetuned", false)) {
      reader.refuse("rope.scaling.finetuned", "true", "queries and keys that do not turn");
    }
    const std::vector<Dim> n_kv_heads = reader.of_layers("attention.head_count_kv", n_layers);
    const std::vector<Dim> d_ff = reader.of_layers("feed_forward_length", n_layers);
    for (std::size_t n = 0; n < idx(n_layers); ++n) {
      LayerShape layer;
      detail::require(n_kv_heads[n] == 0 || d_ff[n] == 0,
                      "layer " + std::to_string(n) + " with heads and a feed-forward part",
                      "one of both");
      if (n_kv_heads[n] > 0) {
        layer.attention = with_kv_heads(attention, n_kv_heads[n]);
      } else if (d_ff[n] > 0) {
        layer.feed_forward =
            FeedForwardShape{.activation = Activation::kReluSquared, .d_ff = d_ff[n]};
      } else {
        layer.recurrent = Mamba2::scan(reader);
      }
      config.layers.push_back(layer);
    }
    return config;
  }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const LayerShape& shape = c.layers[idx(n)];
    if (shape.recurs()) return Mamba2::layer<B>(reader, c, n);
    LayerWeights<B> weights;
    if (shape.attends()) {
      weights.norm = norm(reader, c, n);
      weights.attention = attention<B>(reader, c, n);
    } else {
      const Dim d_ff = shape.feed_forward.d_ff;
      // What the activation is of is the gate; the file calls it "up".
      weights.feed_forward = FeedForwardWeights<B>{
          .norm = norm(reader, c, n),
          .gate = reader.matrix(prefix(n) + "ffn_up.weight", d_ff, c.d_model),
          .down = reader.matrix(prefix(n) + "ffn_down.weight", c.d_model, d_ff),
          .has_up = false};
    }
    return weights;
  }

 private:
  static AttentionShape read_heads(const ConfigReader& reader, Dim d_model) {
    AttentionShape a;
    a.n_heads = reader.dimension("attention.head_count");
    a.d_head = reader.dimension("attention.key_length",
                                std::clamp(d_model / a.n_heads, 1, kMostHead), kMostHead);
    detail::require(reader.dimension("attention.value_length", a.d_head) == a.d_head,
                    "heads of keys and values that differ in size", "equal sizes");
    a.d_q = reader.all_heads(a.n_heads, a.d_head);
    a.scale = 1.0f / std::sqrt(static_cast<float>(a.d_head));
    return a;
  }
};

}  // namespace foredraft::inline v0::family
