#pragma once

#include <limits>

#include <foredraft/core/concepts.hpp>

namespace foredraft::inline v0 {

/// Proposes nothing: plain decoding through the same loop.
struct NoDraft {
  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  struct Snapshot {};

  int max_depth() const noexcept { return 0; }
  void propose(const Context&, Limit, DraftTree&) const noexcept {}
  void absorb(const PromptBlock&) const noexcept {}
  void commit(const Round&) const noexcept {}
  void truncate(int) const noexcept {}
  void reset() const noexcept {}
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) const noexcept {}
};

static_assert(Drafter<NoDraft>);

}  // namespace foredraft::inline v0
