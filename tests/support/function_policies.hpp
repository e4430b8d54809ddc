#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

/// Policies whose one interesting member is a function, so that a test writes down just that.

/// A drafter without any state.
template <foredraft::Shape S>
struct FunctionDrafter {
  static constexpr foredraft::Proposal proposal = foredraft::Proposal::kLaw;
  static constexpr foredraft::Shape shape = S;
  struct Snapshot {};
  using Function =
      std::function<void(const foredraft::Context&, foredraft::Limit, foredraft::DraftTree&)>;

  int max_depth() const noexcept { return foredraft::DraftTree::kMaxNodes - 1; }
  void propose(const foredraft::Context& context, foredraft::Limit limit,
               foredraft::DraftTree& draft) {
    if (function) function(context, limit, draft);
  }
  void absorb(const foredraft::PromptBlock&) const noexcept {}
  void commit(const foredraft::Round&) const noexcept {}
  void truncate(int) const noexcept {}
  void reset() const noexcept {}
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) const noexcept {}

  Function function;
};
using ChainFunction = FunctionDrafter<foredraft::Shape::kChain>;
using TreeFunction = FunctionDrafter<foredraft::Shape::kTree>;
static_assert(foredraft::Drafter<ChainFunction>);

/// An acceptance rule; `of` makes one from any other, so that tests of many rules need one decoder
/// type.
template <foredraft::Shape S>
struct FunctionRule {
  static constexpr foredraft::Shape shape = S;
  static constexpr bool uses_law = true;
  static constexpr bool lossless = false;
  using Function = std::function<foredraft::Verdict(const foredraft::DraftTree&,
                                                    const foredraft::RowSampler&, foredraft::Rng&)>;

  template <typename A>
  static FunctionRule of(const A& rule) {
    return {[rule](const auto& draft, const auto& rows, auto& rng) {
      return rule.verify(draft, rows, rng);
    }};
  }

  foredraft::RowNeed needs(const foredraft::SamplingOptions& sampling) const noexcept {
    return sampling.greedy() ? foredraft::RowNeed::kArgmax : foredraft::RowNeed::kLogits;
  }
  foredraft::Verdict verify(const foredraft::DraftTree& draft, const foredraft::RowSampler& rows,
                            foredraft::Rng& rng) const {
    return function(draft, rows, rng);
  }

  Function function;
};
using ChainRule = FunctionRule<foredraft::Shape::kChain>;
using TreeRule = FunctionRule<foredraft::Shape::kTree>;
static_assert(foredraft::Acceptance<ChainRule>);
