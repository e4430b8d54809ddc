#pragma once

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/constraint_path.hpp>

namespace foredraft::inline v0 {

/// Drafts what the call's constraint forces: the names and marks of a schema, the rest of a choice.
/// No model runs and nothing is looked up. Where the constraint leaves anything open, and without a
/// constraint, it drafts nothing.
///
/// The text is certain, the tokens that spell it are not: the target may prefer others, and the
/// last one may go on beyond what is forced. So it is a draft like any other, verified by the target.
/// @cost O(bytes that are forced)
struct ForcedTokens : StatelessDrafter {
  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;

  int max_depth() const noexcept { return DraftTree::kMaxNodes - 1; }
  /// Behind a model's draft it goes on with what is forced there.
  bool continues() const noexcept { return true; }

  void propose(const Context& context, Limit limit, DraftTree& draft) const {
    if (context.constraint == nullptr || limit.depth <= 0) return;
    ConstraintPath path = *context.constraint;
    for (const TokenId token : context.assumed) path.step(token);
    const int most = limit.depth < limit.nodes ? limit.depth : limit.nodes;
    for (const TokenId token : path.forced(most)) {
      draft.set_confidence(draft.extend(token), kSure);
    }
    // Tokens that go on beyond what is forced are common.
    if (draft.drafted() > 0) draft.set_confidence(draft.size() - 1, kLast);
  }

 private:
  static constexpr float kSure = 0.95f;
  static constexpr float kLast = 0.6f;
};

static_assert(Drafter<ForcedTokens>);

}  // namespace foredraft::inline v0
