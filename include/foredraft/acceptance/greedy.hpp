#pragma once

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Accept a draft as long as it is the target's best token. For temperature 0.
/// @cost O(nodes)
struct Greedy {
  static constexpr Shape shape = Shape::kTree;
  static constexpr bool uses_law() noexcept { return false; }
  static constexpr bool lossless = true;

  RowNeed needs(const SamplingOptions& sampling) const {
    if (sampling.argmax_suffices()) return RowNeed::kArgmax;
    if (sampling.greedy()) return RowNeed::kLogits;
    throw Error(ErrorCode::kInvalidOption, "a temperature above 0 with greedy acceptance",
                "temperature 0", "use SampleAndMatch or RejectionSampling to sample");
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng&) const {
    Verdict verdict;
    verdict.start();
    for (;;) {
      verdict.last = rows.argmax(verdict.end());
      const NodeIndex child = draft.child_with(verdict.end(), verdict.last);
      if (child < 0) return verdict;
      verdict.accept(child);
    }
  }
};

static_assert(Acceptance<Greedy>);

}  // namespace foredraft::inline v0
