#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include <foredraft/backend/row_storage.hpp>
#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// A cache without committed rows of its own: those of another cache, and staged rows of its own
/// behind them. For a drafter that reads what the target has computed, such as one that runs some of
/// the target's layers: it has nothing to catch up with, no prompt to read and no memory of its own.
///
/// Its rows are staged where the other cache stages its own. So it is laid over that cache between
/// two turns of the target, with nothing staged, and the target's next turn drops what it staged.
/// Committed rows are never written.
///
/// A Cache, but for what only the owner of the rows can do: commit(path) moves no row and drops all
/// that is staged. The owner commits the same tokens, and until it is laid over the cache again
/// nothing can be staged. truncate(n) and restore() only forget; the limits are those of the cache
/// below. States of recurrent layers are not for it: they change as a whole.
/// @tparam C the cache below, of a target with attention alone
/// @source of its use: Zhang et al. 2023, arXiv:2309.08168; Elhoushi et al. 2024, arXiv:2404.16710
template <KeyValueCache C>
class Overlay {
 public:
  using Base = C;
  using Rows = typename C::Rows;
  using value_type = typename Rows::value_type;
  struct Snapshot {
    static void parts(auto&, auto&) {}
  };

  /// See the rows of `base` as they are now. It must be where it is while anything is staged here.
  void lay_over(C& base) noexcept {
    base_ = &base;
    size_ = base.size();
    capacity_ = base.capacity();
    max_staged_ = base.max_staged();
    staged_ = 0;
  }

  int size() const noexcept { return size_; }
  int capacity() const noexcept { return capacity_; }
  int max_staged() const noexcept { return max_staged_; }
  int staged() const noexcept { return staged_; }

  /// @errors as the cache below; kInvalidDraft where there is none, or where somebody else has
  ///   committed or staged meanwhile
  void stage(std::span<const Node> nodes) {
    const bool as_left =
        base_ != nullptr && base_->size() == size_ && (staged_ == 0 || base_->staged() == staged_);
    if (!as_left) {
      throw Error(ErrorCode::kInvalidDraft,
                  "nodes for an overlay of no cache, or of an earlier one",
                  "lay_over() once in each round", "");
    }
    if (staged_ == 0) base_->discard();
    base_->stage(nodes);
    staged_ = base_->staged();
  }

  void commit(std::span<const NodeIndex> path) noexcept {
    size_ += static_cast<int>(path.size());
    discard();
  }
  void discard() noexcept { staged_ = 0; }
  void truncate(int n) noexcept {
    size_ = std::clamp(n, 0, size_);
    discard();
  }
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) noexcept { truncate(0); }

  TokenId token(NodeIndex node) const noexcept { return base_->token(node); }
  Position position(NodeIndex node) const noexcept { return base_->position(node); }
  SequenceRows rows(NodeIndex first, int count, int first_row) const noexcept {
    return base_->rows(first, count, first_row);
  }
  typename Rows::Layer layer(int layer) noexcept { return base_->layer(layer); }

 private:
  C* base_ = nullptr;
  // Copies, so that whoever asks between two rounds needs no cache below.
  int size_ = 0;
  int capacity_ = std::numeric_limits<int>::max();
  int max_staged_ = DraftTree::kMaxNodes;
  int staged_ = 0;
};

}  // namespace foredraft::inline v0
