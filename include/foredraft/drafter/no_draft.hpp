#pragma once

#include <foredraft/core/concepts.hpp>

namespace foredraft::inline v0 {

/// Proposes nothing: plain decoding through the same loop.
struct NoDraft : StatelessDrafter {
  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  static constexpr bool controls = true;  // nothing is always enough

  int max_depth() const noexcept { return 0; }
  void propose(const Context&, Limit, DraftTree&) const noexcept {}
};

static_assert(Drafter<NoDraft>);

}  // namespace foredraft::inline v0
