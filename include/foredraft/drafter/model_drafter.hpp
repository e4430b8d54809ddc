#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <foredraft/drafter/model_tree_drafter.hpp>

namespace foredraft::inline v0 {

struct ModelDrafterSettings {
  DraftSampling sampling = DraftSampling::kAuto;
  /// The law that drafts are drawn from; absent: as the target is sampled.
  std::optional<SamplingOptions> law = {};
  /// The choice between drawn and argmax drafts, where kAuto leaves it open.
  DraftChoice choice = DraftChoice();
  /// As in ModelTreeSettings.
  int tail = std::numeric_limits<int>::max();
};

/// A smaller model of the same vocabulary drafts a chain, which is the tree with one branch.
/// @cost depth forward passes of the draft model with one row each
/// @source Leviathan et al. 2023, arXiv:2211.17192
template <typename T, Cache C = DraftCacheFor<T>>
  requires Target<T, C>
class ModelDrafter : public ModelTreeDrafter<T, C> {
  using Base = ModelTreeDrafter<T, C>;

 public:
  static constexpr Shape shape = Shape::kChain;

  /// @param n_ctx positions of its cache; 0: as many as it was trained for
  explicit ModelDrafter(T& model, ModelDrafterSettings settings = {}, int n_ctx = 0)
      : Base(model, one_branch(std::move(settings)), n_ctx) {}
  ModelDrafter(T& model, C cache, ModelDrafterSettings settings)
      : Base(model, std::move(cache), one_branch(std::move(settings))) {}

 private:
  static ModelTreeSettings one_branch(ModelDrafterSettings settings) {
    return {.branching = std::vector<int>(DraftTree::kMaxNodes - 1, 1),
            // One draw is a draw of either kind; every rule for drawn drafts knows this one.
            .siblings = Siblings::kIndependent,
            .sampling = settings.sampling,
            .law = std::move(settings.law),
            .choice = settings.choice,
            .tail = settings.tail};
  }
};

}  // namespace foredraft::inline v0
