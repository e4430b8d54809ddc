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
#include <foredraft/cache/storage.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Keys and values of every position, in order: the cache of full attention.
///
/// The row of position p is row p of its storage; staged node i lies i rows behind the committed
/// ones. So a chain is committed where it was written, and of a tree only what changes its place is
/// copied.
/// @tparam S  how rows are stored: float, f16 or q8_0 (32 values in 34 bytes, heads of a multiple of
/// 64 dimensions only) in the host's memory, or a backend's RowStorage
/// @cost stage O(nodes), for a tree O(nodes * depth); commit of a chain as RowStorage::commit, of a
/// tree O(rows moved * layers) more
template <typename S>
  requires RowStorage<RowsIn<S>>
class LinearCache {
 public:
  using Rows = RowsIn<S>;
  using value_type = typename Rows::value_type;

  struct Snapshot {
    int size = 0;
    std::vector<value_type> k;  // [n_layers, n_kv_heads, size, row_elements(d_head)]
    std::vector<value_type> v;  // the same
  };

  /// @param n_ctx positions it can hold, all of which take memory as soon as a few are used, because
  /// they lie in huge pages; 0: as many as the model was trained for, and only those that are used
  /// take memory
  /// @param max_staged most nodes of a pass, the block size of prefill included
  /// @errors kInvalidOption, kOutOfMemory, and what the storage refuses
  explicit LinearCache(const CacheShape& shape, Dim n_ctx = 0, Dim max_staged = 512)
      : capacity_(n_ctx > 0 ? n_ctx : shape.n_ctx) {
    if (shape.layers.empty() || capacity_ < 1 || max_staged < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    rows_ = Rows(shape, capacity_ + max_staged, n_ctx > 0);
    staged_ = StagedTree(max_staged);
  }

  /// What is moved from is left without room for anything.
  LinearCache(LinearCache&& other) noexcept { swap(other); }
  LinearCache& operator=(LinearCache&& other) noexcept {
    LinearCache(std::move(other)).swap(*this);
    return *this;
  }
  LinearCache(const LinearCache&) = delete;
  LinearCache& operator=(const LinearCache&) = delete;
  ~LinearCache() = default;

  int size() const noexcept { return rows_.size(); }
  int capacity() const noexcept { return capacity_; }
  int max_staged() const noexcept { return staged_.max_size(); }
  int staged() const noexcept { return staged_.size(); }
  /// Bytes that a cache with these dimensions takes when it is full.
  static double full_bytes(const CacheShape& shape, int n_ctx) noexcept {
    return Rows::bytes(shape, n_ctx);
  }

  /// @errors kInvalidDraft where there are too many nodes or a parent is not staged
  void stage(std::span<const Node> nodes) { staged_.stage(nodes); }

  void commit(std::span<const NodeIndex> path) noexcept {
    staged_.commit(path,
                   [&](NodeIndex from, NodeIndex to) { rows_.move(size() + from, size() + to); });
    rows_.commit(static_cast<int>(path.size()));
  }

  void discard() noexcept { staged_.discard(); }

  /// Forget all positions from `n` on, and what is staged.
  void truncate(int n) noexcept {
    discard();
    rows_.truncate(n);
  }

  Snapshot snapshot() const {
    Snapshot snapshot{size(), {}, {}};
    rows_.copy_to(snapshot.k, snapshot.v);
    return snapshot;
  }

  /// @errors kContextOverflow where the snapshot comes from a larger cache; kInvalidOption where it
  /// comes from one of another shape
  void restore(const Snapshot& snapshot) {
    if (snapshot.size > capacity_) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.size) + " positions",
                  "at most " + std::to_string(capacity_), "");
    }
    const std::size_t elements = rows_.elements(snapshot.size);
    if (snapshot.size < 0 || snapshot.k.size() != elements || snapshot.v.size() != elements) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(snapshot.k.size()) + " keys and " +
                      std::to_string(snapshot.v.size()) + " values",
                  std::to_string(elements) + " of each for " + std::to_string(snapshot.size) +
                      " positions of this cache",
                  "restore it in a cache of the same model");
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

 private:
  LinearCache() noexcept = default;
  void swap(LinearCache& other) noexcept {
    std::swap(capacity_, other.capacity_);
    std::swap(rows_, other.rows_);
    std::swap(staged_, other.staged_);
  }

  int capacity_ = 0;
  Rows rows_;
  StagedTree staged_;
};

}  // namespace foredraft::inline v0
