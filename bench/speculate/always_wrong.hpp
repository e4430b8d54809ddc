#pragma once

#include <algorithm>

#include <foredraft/core/concepts.hpp>

namespace bench {

namespace fd = ::foredraft;

/// Sure of all it drafts, and never right: with the models that are measured the last token of the
/// vocabulary is padding, which no answer has.
struct AlwaysWrong : fd::StatelessDrafter {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;

  int max_depth() const noexcept { return 16; }
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < std::min(limit.depth, limit.nodes); ++i) {
      draft.set_confidence(draft.extend(context.n_vocab - 1), 1.0f);
    }
  }
};

}  // namespace bench
