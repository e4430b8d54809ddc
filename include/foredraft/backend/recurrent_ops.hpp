#pragma once

#include <cstdint>
#include <span>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Arguments of the operators of recurrent layers, beside those of backend/ops.hpp. `W` is the
/// backend's Worker as there; `V` is how the cache stores states, see StateStorage in
/// backend/state_storage.hpp.
///
/// Each operator computes the rows of a sequence step by step, each row from what lies before it on
/// its own path. So a row is the same to the bit whatever else is in the pass.

/// A convolution over the newest `kernel` tokens, channel by channel, between two gates.
/// @source Liquid AI 2025, arXiv:2511.23404 (LFM2)
struct ShortConvShape {
  Dim width = 0;   ///< channels
  Dim kernel = 0;  ///< tokens that a row sees, its own included

  /// A token puts in what is convolved.
  StateShape state() const { return {.n_inputs = width, .window = kernel - 1}; }
};

/// Where what a recurrent layer keeps of one sequence lies in its storage, besides its SequenceRows:
/// each token has a row there for what it puts in, and nobody else works out which.
struct StateRows {
  /// Storage rows of the newest committed tokens, oldest first: all those that a row may read.
  std::span<const std::int32_t> committed = {};
  /// Storage row of each staged node.
  std::span<const std::int32_t> staged = {};
  /// How many of the newest committed tokens the kept states have not taken in yet.
  int unapplied = 0;
  /// The kept states have taken in nothing: they are zeros, whatever memory says.
  bool empty = true;

  /// Storage row of the token that lies `back` before row i of a sequence; -1 before its beginning.
  std::int32_t before(const SequenceRows& rows, int i, int back) const noexcept {
    const int above = rows.visible(i) - 1 - rows.size;  // staged tokens before row i
    if (back <= above) {
      if (rows.chain()) return staged[idx(rows.first_node + i - back)];
      return staged[idx(rows.path[idx(rows.path_begin[idx(i) + 1] - 1 - back)])];
    }
    const int n_committed = static_cast<int>(committed.size());
    const int older = back - above;  // 1: the newest committed token
    return older <= n_committed ? committed[idx(n_committed - older)] : -1;
  }
  /// Storage row of row i of a sequence.
  std::int32_t own(const SequenceRows& rows, int i) const noexcept {
    return staged[idx(rows.first_node + i)];
  }
};

}  // namespace foredraft::inline v0
