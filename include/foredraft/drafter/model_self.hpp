#pragma once

#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <foredraft/cache/overlay.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/target_info.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/model/partial_model.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// A base, so that the model is there before the drafter that refers to it, and stays where it is.
template <typename B>
struct OwnedPart {
  OwnedPart(Model<B>& whole, const std::vector<int>& layers)
      : part_(std::make_unique<PartialModel<B>>(whole, layers)) {}
  std::unique_ptr<PartialModel<B>> part_;
};

}  // namespace detail

/// Self-speculative decoding: the target drafts for itself with some of its layers. There is no
/// second model to load or to keep in memory, and none that has to read the prompt: the layers see
/// the target's own keys and values (Overlay).
///
///   auto cache = target.make_cache();
///   fd::SelfDrafter drafter{target, cache, fd::layers_without_second_quarter(target.config())};
///   fd::Decoder decoder{target, std::move(cache), std::move(drafter), fd::Greedy{}};
///
/// A draft token costs the share of the target's weights that these layers and the head have. So it
/// pays for models that were trained to end early (LayerSkip), and for those that can do without
/// many layers.
/// @tparam C the target's cache, the one that the decoder is made with
/// @cost depth forward passes of one row; no memory but activations
/// @source Zhang et al. 2023, arXiv:2309.08168; Elhoushi et al. 2024, arXiv:2404.16710
template <typename B, KeyValueCache C>
  requires Target<PartialModel<B>, Overlay<C>>
class SelfDrafter : private detail::OwnedPart<B>, public ModelDrafter<PartialModel<B>, Overlay<C>> {
  using Base = ModelDrafter<PartialModel<B>, Overlay<C>>;

 public:
  /// @param layers  those that draft, ascending
  /// @errors as PartialModel
  SelfDrafter(Model<B>& target, const std::vector<int>& layers, ModelDrafterSettings settings = {})
      : detail::OwnedPart<B>(target, layers),
        Base(*this->part_, Overlay<C>(), std::move(settings)) {}
  /// The same; the cache tells its type and is not looked at.
  SelfDrafter(Model<B>& target, const C&, const std::vector<int>& layers,
              ModelDrafterSettings settings = {})
      : SelfDrafter(target, layers, std::move(settings)) {}

  /// The model that drafts: for who makes its passes (SteppedDrafter).
  PartialModel<B>& part() noexcept { return *this->part_; }

  /// @errors kVocabularyMismatch; kInvalidOption for another target than the one whose layers these
  ///   are, as far as its sizes tell, or one with a cache of another type
  void attach(const TargetInfo& target) const {
    Base::attach(target);
    const TargetInfo own = this->part_->info();
    if (target.n_layers != own.n_layers || target.d_model != own.d_model) {
      throw Error(ErrorCode::kInvalidOption,
                  "a target of " + std::to_string(target.n_layers) + " layers",
                  "the target whose " + std::to_string(own.n_layers) + " layers draft", "");
    }
    if (target.cache != nullptr && *target.cache != typeid(C)) refuse();
  }

  /// Nothing: it sees what the target has read.
  std::optional<int> backlog(int) const noexcept { return 0; }

  /// What the model has read is no part of it.
  void restore(const typename Base::Snapshot& snapshot) {
    typename Base::Snapshot own;
    own.choice = snapshot.choice;
    Base::restore(own);
  }

  /// @errors kInvalidOption where the context has no cache of this type
  void propose(const Context& context, Limit limit, DraftTree& draft) {
    lay_over(context);
    Base::propose(context, limit, draft);
  }
  void begin(const Context& context, Limit limit, DraftTree& draft) {
    lay_over(context);
    Base::begin(context, limit, draft);
  }

 private:
  void lay_over(const Context& context) {
    C* cache = context.cache.get<C>();
    if (cache == nullptr) refuse();
    this->draft_cache().lay_over(*cache);
  }
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kInvalidOption, "a target with a cache of another type",
                "the type that the drafter reads",
                "name the type of the decoder's cache where the drafter is made");
  }
};

}  // namespace foredraft::inline v0
