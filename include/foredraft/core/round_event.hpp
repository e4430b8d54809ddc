#pragma once

#include <cstdint>
#include <span>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/stats.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

class RowSampler;

/// A round that has just become final, for whoever watches (Options::observer). What it refers to is
/// valid during the call only.
struct RoundEvent {
  std::int64_t number = 0;  ///< of the call, from 0
  Position anchor_position = 0;
  const DraftTree& draft;
  std::span<const NodeIndex> path;  ///< node 0, and the drafted nodes that became final
  /// What became final: the drafted tokens of the path and one more, unless the text ended before it.
  std::span<const Emitted> emitted;
  /// The target's rows: p behind each node of the draft, at temperature 0 its best token.
  const RowSampler& rows;
  Seconds seconds;  ///< of this round; `total` is the sum of its parts, `prefill` 0
};

}  // namespace foredraft::inline v0
