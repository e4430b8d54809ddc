#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// Rules that accept drafts the target might not have written. They trade the law for speed: the
/// text depends on the drafter.
namespace lossy {

/// The deepest node that is acceptable with all its ancestors; among equally deep ones the
/// likeliest path, then the first node. Behind it comes the target's best token.
/// @param law_of  p behind a node
/// @param least_of  of such a p, the probability that an acceptable token has to exceed
template <typename LawOf, typename LeastOf>
Verdict longest_acceptable(const DraftTree& draft, const RowSampler& rows, LawOf&& law_of,
                           LeastOf&& least_of) {
  struct Reached {
    bool accepted = false;
    double log_p = 0;  // of the path
  };
  std::array<Reached, DraftTree::kMaxNodes> reached{};
  const auto at = [&](NodeIndex node) -> Reached& { return reached[idx(node)]; };
  at(0).accepted = true;
  NodeIndex best = 0;
  for (NodeIndex node = 0; node < draft.size(); ++node) {  // parents come before their children
    if (!at(node).accepted) continue;
    const bool deeper = draft.depth(node) > draft.depth(best);
    const bool likelier = draft.depth(node) == draft.depth(best) && at(node).log_p > at(best).log_p;
    if (deeper || likelier) best = node;
    NodeIndex child = draft.first_child(node);
    if (child < 0) continue;
    const Law& p = law_of(node);
    const double least = least_of(p);
    for (; child >= 0; child = draft.next_child(node, child)) {
      const TokenId token = draft.token(child);
      at(child) = {p(token) > least, at(node).log_p + std::log(p(token))};
    }
  }
  Verdict verdict;
  verdict.start();
  std::array<NodeIndex, DraftTree::kMaxNodes> path{};
  for (NodeIndex node = best; node > 0; node = draft.parent(node)) {
    path[idx(draft.depth(node))] = node;
  }
  for (int depth = 1; depth <= draft.depth(best); ++depth) {
    verdict.accept(path[idx(depth)]);
  }
  verdict.last = rows.argmax(best);
  return verdict;
}

/// Accept draft d where p(d) > min(epsilon, delta exp(-H(p))): where the target is unsure, with a
/// large entropy H, less likely tokens pass. At temperature 0 it is Greedy.
/// @cost O(n_vocab) for each node with an accepted parent
/// @source Cai et al. 2024 (Medusa), arXiv:2401.10774, section 2.3.1
struct TypicalAcceptance {
  static constexpr Shape shape = Shape::kTree;
  static constexpr bool uses_law() noexcept { return false; }
  static constexpr bool lossless = false;

  double epsilon = 0.09;
  double delta = 0.3;

  RowNeed needs(const SamplingOptions& sampling) const noexcept {
    return RowSampler::need(sampling);
  }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng&) const {
    return longest_acceptable(
        draft, rows, [&](NodeIndex node) -> const Law& { return rows.law(node); },
        [this](const Law& p) { return threshold(p); });
  }

 private:
  double threshold(const Law& p) const noexcept {
    double entropy = 0;
    for (const double x : p.p) entropy -= x * std::log(x);
    return std::min(epsilon, delta * std::exp(-entropy));
  }
};

/// Accept a draft among the target's `top_k` best tokens whose log probability is within `delta` of
/// the best one. For phases of a text whose exact words matter little, such as a model's thinking.
/// The temperature plays no part: what is not drafted is the target's best token.
/// @units delta in nats
/// @cost O(n_vocab) for each node with an accepted parent
/// @source relaxed acceptance of TensorRT-LLM's speculative decoding for DeepSeek-R1
struct RelaxedAcceptance {
  static constexpr Shape shape = Shape::kTree;
  static constexpr bool uses_law() noexcept { return false; }
  static constexpr bool lossless = false;

  int top_k = 10;
  double delta = 0.6;

  RowNeed needs(const SamplingOptions&) const noexcept { return RowNeed::kLogits; }

  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng&) const {
    const SamplingOptions best = rows.options().ranking(top_k);
    return longest_acceptable(
        draft, rows, [&](NodeIndex node) -> const Law& { return rows.law(node, best); },
        [this](const Law& p) {
          const double greatest = *std::max_element(p.p.begin(), p.p.end());
          // Within delta, the border included.
          return std::nextafter(greatest * std::exp(-delta), 0.0);
        });
  }
};

static_assert(Acceptance<TypicalAcceptance> && Acceptance<RelaxedAcceptance>);

}  // namespace lossy
}  // namespace foredraft::inline v0
