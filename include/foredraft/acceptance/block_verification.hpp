#pragma once

#include <algorithm>
#include <array>

#include <foredraft/acceptance/residual.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Verify a chain as one block: not each token for itself, but each prefix of the draft is tested,
/// and the longest that passes is accepted. Likely tokens make good for unlikely ones before them,
/// so that on average it accepts at least as many tokens as RejectionSampling, with the same law.
///
/// With P the target's and Q the draft's law, R_0 = 1 and
///   R_i = min(1, R_{i-1} P_i(d_i) / Q_i(d_i))          what the prefix d_1..d_i is worth
///   S_i = sum over x of max(R_i P_{i+1}(x) - Q_{i+1}(x), 0)
/// the prefix of length i passes with probability S_i / (S_i + 1 - R_i), the whole draft with its
/// R. Behind an accepted prefix comes a token of max(R_i P_{i+1} - Q_{i+1}, 0) renormalised, behind
/// the whole draft one of P. A shorter prefix may pass where a longer one does not, and the other
/// way round: all tests are independent, and stopping at the first failure would be biased.
/// @cost a row of p, O(n_vocab), for each node of the draft
/// @source Sun et al. 2024, arXiv:2403.10444, Alg. 2
struct BlockVerification {
  static constexpr Shape shape = Shape::kChain;
  static constexpr bool uses_law() noexcept { return true; }
  static constexpr bool lossless = true;

  RowNeed needs(const SamplingOptions& sampling) const noexcept {
    return RowSampler::need(sampling);
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    const Position anchor = rows.anchor_position();
    const Prefixes prefixes = weigh(draft, rows);

    // A chain: node i has depth i. The longest first, so that no test behind it is needed.
    NodeIndex accepted = draft.drafted();
    while (accepted > 0 &&
           !rng.bernoulli({Purpose::kAccept, anchor, accepted}, prefixes.passes[idx(accepted)])) {
      --accepted;
    }

    Verdict verdict;
    verdict.start();
    for (NodeIndex node = 1; node <= accepted; ++node) verdict.accept(node);
    const Law* last = &rows.law(accepted);
    Law found;
    Law rest;
    if (accepted < draft.drafted()) {
      const Law& q = law_of_next(draft, accepted, found);
      last = &(rest = residual(prefixes.worth[idx(accepted)], *last, q));
    }
    verdict.last =
        last->ids[rng.categorical({Purpose::kResidual, anchor, accepted}, last->ids, last->p)];
    return verdict;
  }

 private:
  struct Prefixes {
    std::array<double, DraftTree::kMaxNodes> worth;   // R_i
    std::array<double, DraftTree::kMaxNodes> passes;  // probability that the prefix passes
  };

  static Prefixes weigh(const DraftTree& draft, const RowSampler& rows) {
    Prefixes prefixes;
    Law found;
    double worth = 1.0;
    for (NodeIndex node = 0; node < draft.drafted(); ++node) {
      const Law& p = rows.law(node);
      const Law& q = law_of_next(draft, node, found);
      const double mass = residual_mass(worth, p, q);
      const double either = mass + (1.0 - worth);
      prefixes.worth[idx(node)] = worth;
      prefixes.passes[idx(node)] = either > 0 ? mass / either : 1.0;
      const double ratio = likelihood_ratio(p(draft.token(node + 1)), q, draft.token(node + 1));
      // Nothing is worth less than nothing: 0 times a ratio that overflows must stay 0.
      worth = worth > 0 ? std::min(1.0, worth * ratio) : 0.0;
    }
    prefixes.worth[idx(draft.drafted())] = worth;
    prefixes.passes[idx(draft.drafted())] = worth;
    return prefixes;
  }

  /// Q of the token behind `node`; `found` is room for that of a token that was not drawn.
  static const Law& law_of_next(const DraftTree& draft, NodeIndex node, Law& found) {
    if (draft.siblings(node) != Siblings::kPointMass) return draft.law(node);
    return found = point_mass(draft.token(node + 1));
  }
};

static_assert(Acceptance<BlockVerification>);

}  // namespace foredraft::inline v0
