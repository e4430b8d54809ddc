#pragma once

#include <functional>
#include <utility>

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0::testing {

/// Policies whose one interesting member is a function, so that a test writes down just that.

/// A drafter without any state.
template <Shape S>
struct FunctionDrafter : StatelessDrafter {
  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = S;
  using Function = std::function<void(const Context&, Limit, DraftTree&)>;

  FunctionDrafter() = default;
  FunctionDrafter(Function draft)  // NOLINT(google-explicit-constructor): written as a function
      : function(std::move(draft)) {}

  int max_depth() const noexcept { return DraftTree::kMaxNodes - 1; }
  void propose(const Context& context, Limit limit, DraftTree& draft) {
    if (function) function(context, limit, draft);
  }

  Function function;
};
using ChainFunction = FunctionDrafter<Shape::kChain>;
using TreeFunction = FunctionDrafter<Shape::kTree>;
static_assert(Drafter<ChainFunction>);

/// An acceptance rule; `of` makes one from any other, so that tests of many rules need one decoder
/// type.
template <Shape S>
struct FunctionRule {
  static constexpr Shape shape = S;
  static constexpr bool uses_law() noexcept { return true; }
  static constexpr bool lossless = false;
  using Function = std::function<Verdict(const DraftTree&, const RowSampler&, Rng&)>;

  template <typename A>
  static FunctionRule of(const A& rule) {
    return {[rule](const auto& draft, const auto& rows, auto& rng) {
              return rule.verify(draft, rows, rng);
            },
            [rule](const SamplingOptions& sampling) { return rule.needs(sampling); }};
  }

  RowNeed needs(const SamplingOptions& sampling) const {
    if (needed) return needed(sampling);
    return sampling.argmax_suffices() ? RowNeed::kArgmax : RowNeed::kLogits;
  }
  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    return function(draft, rows, rng);
  }

  Function function;
  std::function<RowNeed(const SamplingOptions&)> needed = {};  // empty: what p takes
};
using ChainRule = FunctionRule<Shape::kChain>;
using TreeRule = FunctionRule<Shape::kTree>;
static_assert(Acceptance<ChainRule>);

}  // namespace foredraft::inline v0::testing
