#pragma once

#include <string>
#include <variant>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How queries and keys turn with their position.
struct RopeShape {
  RopeKind kind = RopeKind::kAdjacent;
  Dim n_rot = 0;
  double base = 10000.0;
  double scale = 1.0;                ///< positions are multiplied by it (linear scaling)
  double magnitude = 1.0;            ///< what has turned is multiplied by it
  std::vector<double> stretch = {};  ///< [n_rot / 2]: frequencies are divided by it; or empty
  bool factored = true;  ///< frequencies are divided by the file's factors, if it has some
};

struct AttentionShape {
  Dim n_heads = 0;
  Dim n_kv_heads = 0;
  Dim d_head = 0;
  Dim d_q = 0;                   ///< n_heads * d_head
  Dim d_kv = 0;                  ///< n_kv_heads * d_head
  float scale = 1.0f;            ///< of the scores
  int rope = 0;                  ///< which of ModelConfig::ropes
  Dim window = 0;                ///< newest positions that a row sees, its own included; 0: all
  float softcap = 0.0f;          ///< scores are softcap * tanh(score / softcap); 0: as they are
  float residual = 1.0f;         ///< factor on what is added to x
  bool norms_all_heads = false;  ///< norms on q and k, if any, are of all heads together
  int keys_of = -1;              ///< an earlier layer whose keys and values it reads; -1: its own
  bool gated = false;            ///< what is attended to is multiplied by the sigmoid of a gate
};

struct FeedForwardShape {
  Activation activation = Activation::kSilu;
  Dim d_ff = 0;           ///< 0: the layer has no such part
  float residual = 1.0f;  ///< factor on what is added to x
  Dim n_experts = 0;      ///< of a mixture, each of d_ff; 0: the part is one
  Dim n_used = 0;         ///< experts that a row takes
  Dim d_shared = 0;       ///< d_ff of an expert that all rows take besides; 0: there is none
};

/// What a recurrent layer computes in place of attention; std::monostate: it is attention.
using RecurrentShape =
    std::variant<std::monostate, ShortConvShape, SelectiveScanShape, GatedDeltaNetShape>;

/// Each layer has a shape of its own, so a file must not choose any number of them.
inline constexpr int kMostLayers = 1 << 16;

/// A layer: attention or a recurrent part, then a gated feed-forward part, each with a norm before
/// it, and behind it where there are weights for one. It may lack either.
struct LayerShape {
  AttentionShape attention = {};
  FeedForwardShape feed_forward = {};
  RecurrentShape recurrent = {};  ///< in place of attention, where it is one

  bool recurs() const noexcept { return !std::holds_alternative<std::monostate>(recurrent); }
  bool attends() const noexcept { return !recurs() && attention.n_kv_heads > 0; }
  /// Whether it attends to keys and values of its own.
  bool stores() const noexcept { return attends() && attention.keys_of < 0; }
};

/// What a layer keeps where it is recurrent. @pre layer.recurs()
inline StateShape state_shape(const LayerShape& layer) {
  StateShape shape;
  std::visit(
      [&](const auto& recurrent) {
        if constexpr (requires { recurrent.state(); }) shape = recurrent.state();
      },
      layer.recurrent);
  return shape;
}

/// What the decoder template has to know of a model beyond its weights. A family makes it
/// (model/family/); nothing behind it asks for the family's name.
struct ModelConfig {
  std::string family = {};  ///< as `general.architecture` spells it
  Dim n_vocab = 0;
  Dim n_ctx = 0;  ///< positions it was trained for
  Dim d_model = 0;
  float norm_epsilon = 1e-5f;
  float embedding_scale = 1.0f;
  float logit_scale = 1.0f;
  float logit_softcap = 0.0f;  ///< logits are softcap * tanh(logit / softcap); 0: as they are
  std::vector<RopeShape> ropes = {};  ///< each kind of turning that a layer uses
  std::vector<LayerShape> layers = {};
  Dim d_input = 0;           ///< of the embedding that each layer has besides; 0: there are none
  float input_scale = 1.0f;  ///< of these embeddings. @see EmbedLayersArgs
  float input_norm_epsilon = 0.0f;  ///< of what is added to them
  bool needs_rope_factors = false;  ///< a file without them is not whole
  int n_left_layers = 0;            ///< behind them, whose tensors are left unread
  /// The tensor of factors that frequencies are divided by, if the file has it, and one with the
  /// factors of other contexts, which is left unread.
  std::string rope_factors = "rope_freqs.weight";
  std::string other_rope_factors = {};
  std::string output_norm = "output_norm.weight";  ///< the tensor's name

  CacheShape cache_shape() const {
    CacheShape shape({}, n_ctx);
    for (const LayerShape& layer : layers) {
      if (layer.recurs()) shape.states.push_back(state_shape(layer));
      if (!layer.stores()) continue;
      const AttentionShape& a = layer.attention;
      shape.layers.push_back(
          KeyValueShape{.n_kv_heads = a.n_kv_heads, .d_head = a.d_head, .window = a.window});
    }
    return shape;
  }
};

}  // namespace foredraft::inline v0
