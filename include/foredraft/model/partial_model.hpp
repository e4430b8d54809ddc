#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/model.hpp>

namespace foredraft::inline v0 {

/// Some layers of a model between its embedding and its head: a target that costs less and knows the
/// same tokens. On rows that the whole model has computed (Overlay) it drafts for that model, with no
/// other weights: see SelfDrafter.
///
/// Which layers can be done without depends on the model. One that was trained to end early does
/// with the first ones; others lose least without some in the middle.
template <typename B>
class PartialModel {
 public:
  static constexpr bool row_exact = true;

  /// @param model  referred to: it has to outlive this
  /// @param layers  those that are run, ascending
  /// @errors kInvalidOption for other layers than the model has, and for one without the layer whose
  ///   keys and values it reads; kUnsupportedModel for a model with recurrent layers
  PartialModel(Model<B>& model, const std::vector<int>& layers)
      : model_(&model), runs_(model.config().layers.size(), false) {
    const std::vector<LayerShape>& shapes = model.config().layers;
    for (const LayerShape& shape : shapes) {
      if (!shape.recurs()) continue;
      throw Error(ErrorCode::kUnsupportedModel, "some layers of a model with recurrent ones",
                  "a model with attention alone", "draft without a model, or with another one");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const int layer = layers[i];
      if (layer < 0 || idx(layer) >= shapes.size() || (i > 0 && layer <= layers[i - 1])) {
        throw Error(ErrorCode::kInvalidOption, "layer " + std::to_string(layer),
                    "layers of 0 to " + std::to_string(shapes.size() - 1) + ", ascending", "");
      }
      const int keys_of = shapes[idx(layer)].attention.keys_of;
      if (keys_of >= 0 && runs_[idx(keys_of)] == 0) {
        throw Error(ErrorCode::kInvalidOption, "layer " + std::to_string(layer) + " alone",
                    "layer " + std::to_string(keys_of) + " with it, whose keys it reads", "");
      }
      runs_[idx(layer)] = true;
    }
    if (layers.empty()) {
      throw Error(ErrorCode::kInvalidOption, "no layer at all", "one or more", "");
    }
  }

  int vocab_size() const noexcept { return model_->vocab_size(); }
  TargetInfo info() const { return model_->info(); }
  Model<B>& whole() const noexcept { return *model_; }
  int size() const noexcept { return static_cast<int>(std::ranges::count(runs_, 1)); }

  /// @errors as Model::forward
  template <KeyValueCache C>
    requires Target<Model<B>, C>
  void forward(std::span<Request<C>> requests) {
    model_->forward_some(requests, runs_);
  }

 private:
  Model<B>* model_;
  std::vector<std::uint8_t> runs_;  // [layers]
};

/// All layers but the second quarter, and of that those whose keys others read: what models that were
/// not trained for this miss least, of the choices that were tried.
inline std::vector<int> layers_without_second_quarter(const ModelConfig& config) {
  const auto n_layers = static_cast<int>(config.layers.size());
  std::vector<bool> kept(config.layers.size());
  for (int layer = n_layers - 1; layer >= 0;
       --layer) {  // the keys that a layer reads lie before it
    if (layer == 0 || layer < n_layers / 4 || layer >= n_layers / 2) kept[idx(layer)] = true;
    const int keys_of = config.layers[idx(layer)].attention.keys_of;
    if (kept[idx(layer)] && keys_of >= 0) kept[idx(keys_of)] = true;
  }
  std::vector<int> layers;
  for (int layer = 0; layer < n_layers; ++layer) {
    if (kept[idx(layer)]) layers.push_back(layer);
  }
  return layers;
}

}  // namespace foredraft::inline v0
