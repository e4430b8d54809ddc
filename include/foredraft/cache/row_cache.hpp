#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/cache/row_copies.hpp>
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
    int sinks = 0;    // that rows of layers with a window saw
    int formats = 0;  // of rows: see formats_in_use()
    SharedRows<value_type> rows;

    static void parts(auto& self, auto& archive) {
      archive(self.size);
      archive(self.sinks);
      archive(self.formats);
      archive(self.rows);
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
    copies_.truncate(n);
  }

  /// Whether truncate(n), n of at most size(), leaves n positions.
  bool holds(int n) const noexcept {
    if constexpr (RingStorage<Rows>) return rows_.holds(std::max(n, 0));
    return true;
  }

  /// Shares the copies of rows that were copied before, by whole RowCopies::kRows, where there is no
  /// ring.
  /// @cost a copy of the other rows
  Snapshot snapshot() const {
    Snapshot snapshot{size(), sinks_, formats_in_use(), copies_.held()};
    // A ring has only the newest rows: one copy of all that is left.
    const int step = keeps_all() ? RowCopies<value_type>::kRows : size();
    for (int row = static_cast<int>(snapshot.rows.size()) * step; row < size(); row += step) {
      auto copy = std::make_shared<RowCopy<value_type>>();
      copy->n = std::min(step, size() - row);
      rows_.copy_to(row, row + copy->n, copy->k, copy->v);
      snapshot.rows.push_back(std::move(copy));
    }
    if (keeps_all()) copies_.hold(snapshot.rows);
    return snapshot;
  }

  /// @errors kContextOverflow where the snapshot comes from a larger cache; kInvalidOption where it
  /// comes from one of another shape, or that keeps other rows
  /// @cost a copy of the rows but for the beginning that snapshot and cache share
  void restore(const Snapshot& snapshot) {
    check(snapshot);
    copies_.reserve(snapshot.rows.size());
    discard();
    const std::size_t common = copies_.common(snapshot.rows);
    rows_.truncate(static_cast<int>(common) * RowCopies<value_type>::kRows);
    for (std::size_t i = common; i < snapshot.rows.size(); ++i) {
      const RowCopy<value_type>& copy = *snapshot.rows[i];
      rows_.append(copy.n, copy.k, copy.v);
    }
    if (keeps_all()) copies_.hold(snapshot.rows);
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

  /// Rows may be copied a part at a time: none is written over by a later one.
  bool keeps_all() const noexcept {
    if constexpr (RingStorage<Rows>) return rows_.keeps_all();
    return true;
  }

  /// A number for each pair of formats that a storage may have; 0 where it has but one.
  int formats_in_use() const noexcept {
    if constexpr (StoresInFormats<Rows>) {
      const RowFormats formats = rows_.formats();
      return 1 + static_cast<int>(formats.k) + (static_cast<int>(formats.v) << 8);
    } else {
      return 0;
    }
  }

  void check(const Snapshot& snapshot) const {
    if (snapshot.size > capacity_) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.size) + " positions",
                  "at most " + std::to_string(capacity_), "");
    }
    const auto refuse = [&] {
      throw Error(ErrorCode::kInvalidOption, "a snapshot of other rows than this cache has",
                  std::to_string(rows_.key_elements(1)) + " elements of keys and " +
                      std::to_string(rows_.value_elements(1)) + " of values a position",
                  "restore it in a cache of the same kind, format and model");
    };
    if (snapshot.size > 0 && snapshot.formats != formats_in_use()) {
      throw Error(ErrorCode::kInvalidOption, "a snapshot of rows in another format",
                  "the format of this cache", "restore it in a cache of the same format");
    }
    int size = 0;
    std::size_t keys = 0, values = 0;
    for (const auto& copy : snapshot.rows) {
      if (copy == nullptr || copy->n < 1 || copy->n > snapshot.size - size ||
          copy->k.size() != rows_.key_elements(copy->n) ||
          copy->v.size() != rows_.value_elements(copy->n)) {
        refuse();
      }
      size += copy->n;
      keys += copy->k.size();
      values += copy->v.size();
    }
    // Parts fit a ring as long as it has lost none of their rows.
    if (size != snapshot.size || keys != rows_.key_elements(size) ||
        values != rows_.value_elements(size)) {
      refuse();
    }
    if (snapshot.size > 0 && snapshot.sinks != sinks_) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of a text with " + std::to_string(snapshot.sinks) + " sinks",
                  std::to_string(sinks_) + ", as this cache has", "");
    }
  }

  void swap(RowCache& other) noexcept {
    std::swap(capacity_, other.capacity_);
    std::swap(rows_, other.rows_);
    std::swap(staged_, other.staged_);
    std::swap(sinks_, other.sinks_);
    std::swap(copies_, other.copies_);
  }

  int capacity_ = 0;
  Rows rows_;
  StagedTree staged_;
  int sinks_ = 0;                         // 0 where no layer has a window
  mutable RowCopies<value_type> copies_;  // what snapshot() remembers
};

}  // namespace foredraft::inline v0
