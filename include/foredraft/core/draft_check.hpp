#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/reduce.hpp>

namespace foredraft::inline v0 {

/// A q has to be a law, or the rules that divide by it make a law of their own.
/// @errors kInvalidDraft
inline void check_law(const Law& q) {
  bool valid = q.ids.size() == q.p.size();
  for (std::size_t i = 0; valid && i < q.size(); ++i) {
    valid = q.p[i] >= 0 && (i == 0 || q.ids[i - 1] < q.ids[i]);  // false for NaN too
  }
  const double total = sum(q.p);
  if (valid && std::abs(total - 1.0) < 1e-6) return;
  throw Error(ErrorCode::kInvalidDraft, "a q that is no law, with sum " + std::to_string(total),
              "ascending ids, probabilities that sum to 1",
              "hand over the very law that the tokens were drawn from");
}

/// What a drafter made of an empty draft behind `context.end()`.
/// @errors kInvalidDraft where the drafter broke its contract
inline void check_draft(const DraftTree& draft, const Context& context, Limit limit, Shape shape) {
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw Error(ErrorCode::kInvalidDraft, found, expected, "the drafter breaks its contract");
  };
  if (draft.token(0) != context.end()) {
    refuse("another anchor", "the newest final token at node 0");
  }
  if (draft.drafted() > limit.nodes || draft.max_depth() > limit.depth) {
    refuse(
        "a draft of " + std::to_string(draft.drafted()) + " nodes, depth " +
            std::to_string(draft.max_depth()),
        "at most " + std::to_string(limit.nodes) + " nodes, depth " + std::to_string(limit.depth));
  }
  if (shape == Shape::kChain && !draft.is_chain()) {
    refuse("a tree of a drafter that is said to make chains", "each node behind the one before");
  }
  for (const Node& node : draft.nodes().subspan(1)) {
    if (node.token >= 0 && node.token < context.n_vocab) continue;
    refuse("drafted token " + std::to_string(node.token),
           "a token below " + std::to_string(context.n_vocab));
  }
  for (NodeIndex node = 0; context.uses_law && node < draft.size(); ++node) {
    const bool drawn = draft.siblings(node) != Siblings::kPointMass;
    if (drawn && draft.first_child(node) >= 0) check_law(draft.law(node));
  }
}

}  // namespace foredraft::inline v0
