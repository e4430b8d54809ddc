#pragma once

#include <algorithm>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Verify a chain against the target: accept draft d with probability min(1, p(d) / q(d)); on the
/// first rejection emit a token of the residual, max(p - q, 0) renormalised; after full acceptance
/// a bonus token of p.
///
/// A point-mass draft is the case q(d) = 1: accept with p(d), residual p without d. A token drawn
/// from q that a transform of p forbids has p(d) = 0 and is rejected; the residual follows as for
/// any other.
/// @cost O(support of p and q) a verified token
/// @source Leviathan et al. 2023, arXiv:2211.17192, Alg. 1 (p target, q draft)
struct RejectionSampling {
  static constexpr Shape shape = Shape::kChain;
  static constexpr bool uses_law = true;
  static constexpr bool lossless = true;

  RowNeed needs(const SamplingOptions& sampling) const noexcept {
    return sampling.greedy() ? RowNeed::kArgmax : RowNeed::kLogits;
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    Verdict verdict;
    verdict.start();
    for (;;) {
      const NodeIndex node = verdict.end();
      const Law& p = rows.law(node);
      const NodeIndex child = draft.first_child(node);
      if (child < 0) {
        verdict.last = draw(rows, node, p.ids, p.p, rng);
        return verdict;
      }
      const TokenId token = draft.token(child);
      const bool drawn = draft.siblings(node) != Siblings::kPointMass;
      const double q = drawn ? draft.law(node)(token) : 1.0;
      if (drawn && !(q > 0)) {
        throw Error(ErrorCode::kInvalidDraft, "a drawn token whose q is 0",
                    "a token of q's support",
                    "hand over the very law that the token was drawn from");
      }
      const RngKey accept{Purpose::kAccept, rows.anchor_position(), child};
      if (!rng.bernoulli(accept, std::min(1.0, p(token) / q))) {
        std::vector<double> weights = drawn ? residual(p, draft.law(node)) : without(p, token);
        // Rejection has probability 1 - sum min(p, q), which is the residual's mass: it can only be
        // empty where rounding made a rejection possible that exact arithmetic excludes. Then p
        // itself is as right.
        const bool empty =
            std::all_of(weights.begin(), weights.end(), [](double w) { return w <= 0; });
        verdict.last = draw(rows, node, p.ids, empty ? p.p : weights, rng);
        return verdict;
      }
      verdict.accept(child);
    }
  }

 private:
  static TokenId draw(const RowSampler& rows, NodeIndex node, std::span<const TokenId> ids,
                      std::span<const double> weights, Rng& rng) {
    return ids[rng.categorical({Purpose::kResidual, rows.anchor_position(), node}, ids, weights)];
  }

  /// max(p - q, 0) on the support of p, not renormalised: a draw does that.
  static std::vector<double> residual(const Law& p, const Law& q) {
    std::vector<double> weights(p.size());
    std::size_t j = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      while (j < q.size() && q.ids[j] < p.ids[i]) ++j;
      const double drafted = j < q.size() && q.ids[j] == p.ids[i] ? q.p[j] : 0.0;
      weights[i] = std::max(p.p[i] - drafted, 0.0);
    }
    return weights;
  }

  static std::vector<double> without(const Law& p, TokenId token) {
    std::vector<double> weights = p.p;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p.ids[i] == token) weights[i] = 0.0;
    }
    return weights;
  }
};

static_assert(Acceptance<RejectionSampling>);

}  // namespace foredraft::inline v0
