#pragma once

#include <foredraft/acceptance/residual.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Accept draft d with probability min(1, p(d) / q(d)); after a rejection go on with the residual,
/// max(p - q, 0) renormalised, in place of p; where no draft is left, emit a token of what p has
/// become.
///
/// On a chain that is speculative sampling. On a tree the siblings are offered in turn, each to
/// what the rejection of those before it has left of p. How they were made decides q:
///  - point mass: q is certain of each, so the test is p(d) and the residual is p without d;
///  - independent: the same q for each (multi-round rejection of SpecInfer);
///  - without replacement: q without the siblings before (Sequoia).
/// A drawn token that a transform of p forbids has p(d) = 0 and is rejected like any other.
/// @cost where nothing is cut off, a probability for each node that is reached, and a draw: O(n_vocab
/// / Scores::kRun) each if the target hands over sums. With cuts, and for a second sibling, a row of
/// p, O(n_vocab), and O(support) for each rejection
/// @source Leviathan et al. 2023, arXiv:2211.17192, Alg. 1; Miao et al. 2023, arXiv:2305.09781,
/// Alg. 2; Chen et al. 2024, arXiv:2402.12374, Alg. 2 (p target, q draft)
struct RejectionSampling {
  static constexpr Shape shape = Shape::kTree;
  static constexpr bool uses_law() noexcept { return true; }
  static constexpr bool lossless = true;

  RowNeed needs(const SamplingOptions& sampling) const noexcept {
    return RowSampler::need_with_probability(sampling);
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    Verdict verdict;
    verdict.start();
    while (descend(draft, rows, rng, verdict)) {
    }
    return verdict;
  }

 private:
  /// Offer the children of the path's end. True where one is accepted, else `last` is decided.
  static bool descend(const DraftTree& draft, const RowSampler& rows, Rng& rng, Verdict& verdict) {
    const NodeIndex node = verdict.end();
    const Position anchor = rows.anchor_position();
    const RngKey draw{Purpose::kResidual, anchor, node};
    NodeIndex child = draft.first_child(node);
    if (child < 0) {
      verdict.last = rows.draw(node, draw, rng);
      return false;
    }
    const Siblings made = draft.siblings(node);
    const Law* q = &draft.law(node);
    Law rest_of_q;
    const auto accepted = [&](double p) {
      if (made == Siblings::kPointMass) q = &(rest_of_q = point_mass(draft.token(child)));
      const double ratio = likelihood_ratio(p, *q, draft.token(child));
      if (!rng.bernoulli({Purpose::kAccept, anchor, child}, ratio)) return false;
      verdict.accept(child);
      return true;
    };
    if (accepted(rows.probability(node, draft.token(child)))) return true;
    NodeIndex next = draft.next_child(node, child);
    if (next < 0) {  // always on a chain
      verdict.last = draw_residual(rows, node, *q, draw, rng);
      return false;
    }
    Law p = residual(1.0, rows.law(node), *q);
    for (; next >= 0; next = draft.next_child(node, next)) {
      if (made == Siblings::kWithoutReplacement) q = &(rest_of_q = without(*q, draft.token(child)));
      child = next;
      if (accepted(p(draft.token(child)))) return true;
      p = residual(1.0, p, *q);
    }
    verdict.last = p.ids[rng.categorical(draw, p.ids, p.p)];
    return false;
  }
};

/// The names by which the field knows it on trees of independent siblings, and of siblings without
/// replacement.
using MultiRoundRejection = RejectionSampling;
using WithoutReplacement = RejectionSampling;

static_assert(Acceptance<RejectionSampling>);

}  // namespace foredraft::inline v0
