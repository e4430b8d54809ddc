#pragma once

#include <algorithm>
#include <span>
#include <string>

#include <foredraft/backend/host_states.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/cache/recurrent_rows.hpp>
#include <foredraft/cache/row_cache.hpp>
#include <foredraft/cache/storage.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Of a cache that Model::make_cache() makes.
struct CacheOptions {
  Dim n_ctx = 0;  ///< positions that layers without a window can hold; 0: what the model can use
  Dim max_staged = 0;  ///< most nodes of a pass; 0: what suits the model's layers
  Dim sinks = 0;       ///< first positions that rows of layers with a window read besides
};

/// The cache for every model: keys and values for the layers with attention, in rings where they
/// have a window, as in a RotatingCache; states for the recurrent ones; one tree of staged nodes for
/// all. Which layers there are follows from the model's shape, so a model of attention alone and one
/// without any run on it too.
///
/// A rejected draft costs nothing: what staged tokens put in and their states lie where no committed
/// one does. What a state has taken in cannot be taken out again: truncate(n) below size() forgets
/// all, where there is a recurrent layer, and size() says so. restore() goes back to a snapshot.
/// @tparam S  how keys and values are stored, as in LinearCache
/// @tparam V  how states are kept: Replay or Slots, or a backend's StateStorage
/// @cost as RotatingCache; states: docs/design/states.md
template <typename S, StateStorage V = Replay>
  requires RingStorage<RowsIn<S>>
class HybridCache : public RowCache<RowsIn<S>> {
  using Base = RowCache<RowsIn<S>>;

 public:
  using States = V;

  struct Snapshot : Base::Snapshot {
    typename RecurrentRows<V>::Snapshot states = {};

    static void parts(auto& self, auto& archive) {
      Base::Snapshot::parts(self, archive);
      archive(self.states);
    }
  };

  /// @param n_ctx as in LinearCache: positions that layers without a window can hold
  /// @param max_staged most nodes of a pass, the block size of prefill included; 0: 512, as in other
  ///   caches, or 64 where a layer has states, because each node takes rows, and with Slots a state,
  ///   in every such layer
  /// @errors kInvalidOption, kOutOfMemory, and what the storages refuse
  explicit HybridCache(const CacheShape& shape, Dim n_ctx = 0, Dim max_staged = 0)
      : Base(shape, n_ctx, staged_or_default(shape, max_staged), true, true),
        recurrent_(!shape.states.empty()),
        states_(shape, this->max_staged()) {}

  /// Nodes of a pass, where 0 asks for what suits the shape: each of them may keep a state.
  static int staged_or_default(const CacheShape& shape, int max_staged = 0) noexcept {
    if (max_staged > 0) return max_staged;
    const bool with_states = std::any_of(shape.states.begin(), shape.states.end(),
                                         [](const StateShape& layer) { return layer.n_heads > 0; });
    return with_states ? 64 : 512;
  }

  /// Bytes that a cache with these dimensions takes when it is full.
  static double full_bytes(const CacheShape& shape, int n_ctx, int max_staged = 0) noexcept {
    max_staged = staged_or_default(shape, max_staged);
    return RowsIn<S>::bytes(shape, n_ctx + max_staged, max_staged) +
           RecurrentRows<V>::bytes(shape, max_staged);
  }

  /// @errors kInvalidDraft, as RowCache, and where nodes were committed that no pass has seen
  void stage(std::span<const Node> nodes) {
    if (recurrent_ && nodes.size() > idx(states_.room() - this->staged())) {
      throw Error(ErrorCode::kInvalidDraft, std::to_string(nodes.size()) + " more staged nodes",
                  "at most " + std::to_string(states_.room() - this->staged()),
                  "forward what is staged before it is committed");
    }
    Base::stage(nodes);
  }

  void commit(std::span<const NodeIndex> path) noexcept {
    Base::commit(path, [&](NodeIndex from, NodeIndex to) {
      if (recurrent_) states_.move(from, to);
    });
    if (recurrent_) states_.commit(static_cast<int>(path.size()));
  }

  void truncate(int n) noexcept {
    if (n < this->size() && !holds(n)) n = 0;
    Base::truncate(n);
    if (this->size() == 0) states_.forget();
  }

  /// As in RowCache; where there is a recurrent layer, of size() and 0 alone.
  bool holds(int n) const noexcept {
    return (!recurrent_ || n <= 0 || n == this->size()) && Base::holds(n);
  }

  Snapshot snapshot() const {
    Snapshot snapshot;
    static_cast<typename Base::Snapshot&>(snapshot) = Base::snapshot();
    if (recurrent_) snapshot.states = states_.snapshot();
    return snapshot;
  }

  /// @errors as RowCache, and kInvalidOption where its states are kept in another way
  void restore(const Snapshot& snapshot) {
    if (recurrent_) states_.check(snapshot.states, snapshot.size);
    Base::restore(snapshot);
    if (recurrent_) states_.restore(snapshot.states);
  }

  // For targets: see StateCache.

  StateRows states() const noexcept { return states_.rows(); }
  typename V::Layer state_layer(int i) noexcept { return states_.layer(i); }
  void applied() noexcept { states_.applied(); }

 private:
  bool recurrent_;
  RecurrentRows<V> states_;
};

}  // namespace foredraft::inline v0
