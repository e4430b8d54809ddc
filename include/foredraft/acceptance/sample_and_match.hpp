#pragma once

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Sample the target's token at each position and accept a draft as long as it is that token.
///
/// The sample at a position depends on p, the seed and the position, not on the draft. So the same
/// seed gives the same text with any drafter, any tree, or none, and the law is p whatever was
/// drafted. A drafter that samples its own law with the same key (Gumbel-max coupling) is right far
/// more often than chance. At temperature 0 it is Greedy.
/// @cost RowSampler::draw for each accepted token and the one behind it
struct SampleAndMatch {
  static constexpr Shape shape = Shape::kTree;
  static constexpr bool uses_law() noexcept { return false; }
  static constexpr bool lossless = true;

  RowNeed needs(const SamplingOptions& sampling) const noexcept {
    return RowSampler::need(sampling);
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    Verdict verdict;
    verdict.start();
    for (;;) {
      const RngKey key{Purpose::kTargetSample, rows.position_after(verdict.end()), 0};
      verdict.last = rows.draw(verdict.end(), key, rng);
      const NodeIndex child = draft.child_with(verdict.end(), verdict.last);
      if (child < 0) return verdict;
      verdict.accept(child);
    }
  }
};

static_assert(Acceptance<SampleAndMatch>);

}  // namespace foredraft::inline v0
