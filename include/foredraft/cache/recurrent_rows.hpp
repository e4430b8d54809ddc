#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Which rows of a StateStorage belong to which tokens of a sequence: those of the newest committed
/// tokens, as far back as a row reads, then those of the staged nodes, in order; the others are free.
///
/// A commit exchanges numbers of rows and copies nothing that lies in them. No row of a committed
/// token that may still be read is ever free, so nothing staged can be written there.
/// @cost commit and applied() O(rows), an exchange of numbers each; nothing allocates
template <StateStorage V>
class RecurrentRows {
 public:
  struct Snapshot {
    std::vector<float> values = {};  // see StateStorage::copy_to
    int n_rows = 0;
    int unapplied = 0;
    bool with_state = false;

    static void parts(auto& self, auto& archive) {
      archive(self.values);
      archive(self.n_rows);
      archive(self.unapplied);
      archive(self.with_state);
    }
  };

  RecurrentRows() noexcept = default;
  /// @errors kOutOfMemory
  RecurrentRows(const CacheShape& shape, int max_staged)
      : window_(window_of(shape)),
        replays_(replays(shape)),
        states_(shape, rows_of(shape, max_staged)),
        order_(idx(rows_of(shape, max_staged))) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  /// Bytes for passes of up to max_staged nodes.
  static double bytes(const CacheShape& shape, int max_staged) noexcept {
    return V::bytes(shape, rows_of(shape, max_staged));
  }

  /// Nodes that there are rows for.
  int room() const noexcept { return static_cast<int>(order_.size()) - held_; }
  typename V::Layer layer(int i) noexcept { return states_.layer(i); }
  StateRows rows() const noexcept {
    const std::span<const std::int32_t> order = order_;
    return {order.first(idx(held_)), order.subspan(idx(held_)), unapplied_, empty_};
  }

  /// Staged node `to` is what node `from` was, and the other way round.
  void move(NodeIndex from, NodeIndex to) noexcept {
    std::swap(order_[idx(held_ + from)], order_[idx(held_ + to)]);
  }

  /// The first n staged nodes are committed, in this order.
  void commit(int n) noexcept {
    held_ += n;
    if (replays_) {
      unapplied_ += n;
    } else if (n > 0) {
      empty_ = false;
    }
    let_go();
  }

  /// A pass has let the state take in all that is committed.
  void applied() noexcept {
    if (unapplied_ == 0) return;
    unapplied_ = 0;
    empty_ = false;
    if constexpr (NotesApplied<V>) states_.applied();
    let_go();
  }

  /// Nothing is committed.
  void forget() noexcept {
    held_ = unapplied_ = 0;
    empty_ = true;
  }

  Snapshot snapshot() const {
    Snapshot snapshot{{}, held_, unapplied_, !empty_};
    states_.copy_to(rows().committed, snapshot.with_state, snapshot.values);
    return snapshot;
  }

  /// @param size  committed positions that it was made at
  /// @errors kInvalidOption where it comes from another kind of storage, shape or size
  void check(const Snapshot& snapshot, int size) const {
    const bool counts = snapshot.unapplied >= 0 && snapshot.unapplied <= size &&
                        (replays_ || snapshot.unapplied == 0) &&
                        snapshot.n_rows == std::min(size, most_held(snapshot.unapplied)) &&
                        snapshot.n_rows <= static_cast<int>(order_.size()) &&
                        snapshot.with_state == (size > snapshot.unapplied);
    if (counts && snapshot.values.size() == states_.elements(snapshot.n_rows, snapshot.with_state))
      return;
    throw Error(ErrorCode::kInvalidOption,
                "a snapshot with states of " + std::to_string(snapshot.values.size()) + " values",
                "states as this cache keeps them at " + std::to_string(size) + " positions",
                "restore it in a cache of the same kind, model and max_staged");
  }
  /// @pre check(snapshot, its size) did not throw
  void restore(const Snapshot& snapshot) noexcept {
    held_ = snapshot.n_rows;
    unapplied_ = snapshot.unapplied;
    empty_ = !snapshot.with_state;
    states_.restore(rows().committed, snapshot.with_state, snapshot.values);
  }

 private:
  static int window_of(const CacheShape& shape) noexcept {
    int window = V::replays ? 0 : 1;  // with slots, the newest token's is the state
    for (const StateShape& layer : shape.states) window = std::max<int>(window, layer.window);
    return window;
  }
  /// Whether there are states that commits leave behind.
  static bool replays(const CacheShape& shape) noexcept {
    return V::replays && std::any_of(shape.states.begin(), shape.states.end(),
                                     [](const StateShape& layer) { return layer.n_heads > 0; });
  }
  static int rows_of(const CacheShape& shape, int max_staged) noexcept {
    const int window = window_of(shape);
    // A whole pass may be committed and wait for the next, which has as many rows.
    return max_staged + (replays(shape) ? std::max(window, max_staged) : window);
  }

  int most_held(int unapplied) const noexcept { return std::max(window_, unapplied); }

  /// Rows of committed tokens that nothing reads any more are free.
  void let_go() noexcept {
    const int left = held_ - most_held(unapplied_);
    if (left <= 0) return;
    std::rotate(order_.begin(), order_.begin() + left, order_.end());
    held_ -= left;
  }

  int window_ = 0;        // committed tokens whose rows the next one reads
  bool replays_ = false;  // commits are applied to the state by the next pass
  V states_;
  std::vector<std::int32_t> order_;  // rows: of committed tokens, of staged nodes, free
  int held_ = 0;                     // of committed tokens
  int unapplied_ = 0;
  bool empty_ = true;  // no token is in the state
};

}  // namespace foredraft::inline v0
