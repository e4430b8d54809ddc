#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/cache/staged_tree.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What caches of keys and values share: a StagedTree over a RowStorage.
///
/// Position p is row p of the storage; staged node i lies i rows behind the committed ones. So a
/// chain is committed where it was written, and of a tree only what changes its place is copied.
/// All layers have one size and one tree of staged nodes, whichever rows they keep.
/// @see LinearCache, RotatingCache, HybridCache
template <RowStorage R>
class RowCache {
 public:
  using Rows = R;
  using value_type = typename Rows::value_type;

  struct Snapshot {
    int size = 0;
    std::vector<value_type> k;  // [n_layers, n_kv_heads, rows kept of size], as they are stored
    std::vector<value_type> v;  // the same, in a format of its own
    int sinks = 0;              // that rows of layers with a window saw

    static void parts(auto& self, auto& archive) {
      archive(self.size);
      archive(self.sinks);
      archive(self.k);
      archive(self.v);
    }
  };

  /// What is moved from is left without room for anything.
  RowCache(RowCache&& other) noexcept { swap(other); }
  RowCache& operator=(RowCache&& other) noexcept {
    RowCache(std::move(other)).swap(*this);
    return *this;
  }
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;
  ~RowCache() = default;

  int size() const noexcept { return rows_.size(); }
  int capacity() const noexcept { return capacity_; }
  int max_staged() const noexcept { return staged_.max_size(); }
  int staged() const noexcept { return staged_.size(); }

  /// @errors kInvalidDraft where there are too many nodes or a parent is not staged
  void stage(std::span<const Node> nodes) {
    staged_.stage(nodes);
    if constexpr (RingStorage<Rows>) rows_.stage(staged());
  }

  void commit(std::span<const NodeIndex> path) noexcept {
    commit(path, [](NodeIndex, NodeIndex) {});
  }

  void discard() noexcept { staged_.discard(); }

  /// Forget all positions from `n` on, and what is staged. Where a ring has lost rows that would be
  /// read again then, forget all there are: size() says which.
  void truncate(int n) noexcept {
    discard();
    if constexpr (RingStorage<Rows>) {
      if (n < size() && !holds(n)) n = 0;
    }
    rows_.truncate(n);
  }

  /// Whether truncate(n), n of at most size(), leaves n positions.
  bool holds(int n) const noexcept {
    if constexpr (RingStorage<Rows>) return rows_.holds(std::max(n, 0));
    return true;
  }

  Snapshot snapshot() const {
    Snapshot snapshot{size(), {}, {}, sinks_};
    rows_.copy_to(snapshot.k, snapshot.v);
    return snapshot;
  }

  /// @errors kContextOverflow where the snapshot comes from a larger cache; kInvalidOption where it
  /// comes from one of another shape, or that keeps other rows
  void restore(const Snapshot& snapshot) {
    if (snapshot.size > capacity_) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.size) + " positions",
                  "at most " + std::to_string(capacity_), "");
    }
    const std::size_t keys = rows_.key_elements(snapshot.size);
    const std::size_t values = rows_.value_elements(snapshot.size);
    if (snapshot.size < 0 || snapshot.k.size() != keys || snapshot.v.size() != values) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(snapshot.k.size()) + " keys and " +
                      std::to_string(snapshot.v.size()) + " values",
                  std::to_string(keys) + " and " + std::to_string(values) + " for " +
                      std::to_string(snapshot.size) + " positions of this cache",
                  "restore it in a cache of the same kind, format and model");
    }
    if (snapshot.size > 0 && snapshot.sinks != sinks_) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of a text with " + std::to_string(snapshot.sinks) + " sinks",
                  std::to_string(sinks_) + ", as this cache has", "");
    }
    discard();
    rows_.restore(snapshot.size, snapshot.k, snapshot.v);
  }

  // For targets: see KeyValueCache.

  typename Rows::Layer layer(int layer) noexcept { return rows_.layer(layer); }
  SequenceRows rows(NodeIndex first, int count, int first_row) const noexcept {
    const StagedTree::Paths paths = staged_.paths(first, count);
    return {first_row, count, first, size(), paths.nodes, paths.begin};
  }
  Position position(NodeIndex node) const noexcept { return size() + staged_.depth(node); }
  TokenId token(NodeIndex node) const noexcept { return staged_.token(node); }

 protected:
  /// @param rings  layers with a window keep only what may be read again
  /// @param with_states  it is part of a cache that keeps the states of recurrent layers
  RowCache(const CacheShape& shape, Dim n_ctx, Dim max_staged, bool rings, bool with_states = false)
      : capacity_(n_ctx > 0 ? n_ctx : shape.n_ctx) {
    if (!shape.states.empty() && !with_states) {
      throw Error(ErrorCode::kInvalidOption,
                  "a model with " + std::to_string(shape.states.size()) + " recurrent layers",
                  "a cache that keeps their states", "use a HybridCache");
    }
    if ((shape.layers.empty() && shape.states.empty()) || capacity_ < 1 || max_staged < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    const int n_rows = capacity_ + max_staged;
    if constexpr (RingStorage<Rows>) {
      rows_ = Rows(shape, n_rows, n_ctx > 0, rings ? int{max_staged} : 0);
    } else {
      rows_ = Rows(shape, n_rows, n_ctx > 0);
    }
    staged_ = StagedTree(max_staged);
    const auto has_window = [](const KeyValueShape& layer) { return layer.window > 0; };
    if (std::any_of(shape.layers.begin(), shape.layers.end(), has_window)) sinks_ = shape.sinks;
  }

  /// @param also  called as also(from, to) where a node takes the place of another, see
  ///   StagedTree::commit
  template <typename Also>
  void commit(std::span<const NodeIndex> path, Also&& also) noexcept {
    staged_.commit(path, [&](NodeIndex from, NodeIndex to) {
      rows_.move(size() + from, size() + to);
      also(from, to);
    });
    rows_.commit(static_cast<int>(path.size()));
  }

 private:
  RowCache() noexcept = default;
  void swap(RowCache& other) noexcept {
    std::swap(capacity_, other.capacity_);
    std::swap(rows_, other.rows_);
    std::swap(staged_, other.staged_);
    std::swap(sinks_, other.sinks_);
  }

  int capacity_ = 0;
  Rows rows_;
  StagedTree staged_;
  int sinks_ = 0;  // 0 where no layer has a window
};

}  // namespace foredraft::inline v0
