#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/round.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Of a draft model's tree whose shape follows what the model is sure of.
struct BestFirstSettings {
  int children = 3;  ///< of a node, at most
  int beam = 4;      ///< nodes of a level that get children, at most
  /// Of a path, as the draft model sees it: a token behind a less probable one is neither drafted
  /// nor followed.
  float min_probability = 0.03f;
  int max_nodes = 24;  ///< of a draft, at most
};

/// @errors kInvalidOption
inline void check(const BestFirstSettings& s) {
  const auto within = [](int value) { return value >= 1 && value < DraftTree::kMaxNodes; };
  if (within(s.children) && within(s.beam) && within(s.max_nodes) && s.min_probability >= 0 &&
      s.min_probability < 1) {
    return;
  }
  throw Error(ErrorCode::kInvalidOption, "settings of a best-first tree out of range",
              "children, beam and max_nodes from 1 to 63, min_probability from 0 to 1", "");
}

/// A tree of point masses that grows level by level where its paths are likeliest. A level takes one
/// pass of the draft model, with a row for each node that it follows; of the others it takes the
/// tokens and no more. Where the model is sure that is a chain, where it is not the tree is wide.
///
/// What was drafted decides about what comes, so no token may be a draw from q.
/// @cost O(children * beam) a level, beside the passes
/// @source Li et al. 2024 (EAGLE-2), arXiv:2406.16858
class BestFirstTree {
 public:
  /// Begin a draft, of which `draft` holds the anchor.
  /// @param limit  of `stop_below` the paths to a level count together; nothing is drafted or followed
  ///   below `prune_below`
  /// @param rows   of the draft model at most, the anchor's counted
  void begin(const DraftTree& draft, const BestFirstSettings& settings, const Limit& limit,
             int rows) noexcept {
    settings_ = settings;
    settings_.min_probability = std::max(settings.min_probability, limit.prune_below);
    depth_ = limit.depth;
    rows_ = std::min(rows, DraftTree::kMaxNodes);
    nodes_ = std::min({limit.nodes, settings.max_nodes, DraftTree::kMaxNodes - 1});
    stop_below_ = limit.stop_below;
    followed_.reset(draft.token(0));
    level_ = 0;
    first_ = depth_ > 0 && nodes_ > 0 ? 0 : 1;
    path_[0] = 1;
    node_of_[0] = row_of_[0] = 0;
  }

  /// The nodes that the draft model has to see, the anchor first.
  const DraftTree& followed() const noexcept { return followed_; }
  /// Some of them have yet to get their children.
  bool open() const noexcept { return first_ < followed_.size(); }

  /// Give these their children, and choose whom to follow.
  /// @param add  add(node, row, count, draft) gives node `node` of the draft, which is `row` of
  ///   followed(), up to `count` children, the best first, each with its confidence
  template <typename Add>
  void grow(DraftTree& draft, Add&& add) {
    const NodeIndex newest = draft.size();
    for (; first_ < followed_.size(); ++first_) {
      const NodeIndex node = node_of_[idx(first_)];
      const NodeIndex child = draft.size();
      const int room = DraftTree::kMaxNodes - child;
      if (room > 0) add(node, first_, std::min(settings_.children, room), draft);
      for (NodeIndex i = child; i < draft.size(); ++i) {
        path_[idx(i)] = path_[idx(node)] * std::clamp(draft.confidence(i), 0.0f, 1.0f);
      }
      // The first token of all is kept, whatever it is worth: without it there would be no draft.
      const NodeIndex least = newest == 1 ? std::max(child, 2) : child;
      while (draft.size() > least && path_[idx(draft.size() - 1)] < settings_.min_probability) {
        draft.truncate(draft.size() - 1);
      }
    }
    ++level_;
    follow(draft, newest);
    if (!open()) keep_best(draft);
  }

 private:
  /// Of the nodes from `newest` on the likeliest, in their order.
  void follow(const DraftTree& draft, NodeIndex newest) {
    if (level_ >= depth_) return;
    std::array<NodeIndex, DraftTree::kMaxNodes> best;
    int n = 0;
    for (NodeIndex i = newest; i < draft.size(); ++i) {
      if (path_[idx(i)] >= settings_.min_probability) best[idx(n++)] = i;
    }
    if (n > settings_.beam) {
      std::stable_sort(best.begin(), best.begin() + n,
                       [this](NodeIndex a, NodeIndex b) { return path_[idx(a)] > path_[idx(b)]; });
      n = settings_.beam;
      std::sort(best.begin(), best.begin() + n);
    }
    float reached = 0;
    for (int i = 0; i < n; ++i) reached += path_[idx(best[idx(i)])];
    if (reached < stop_below_) return;
    for (int i = 0; i < n && followed_.size() < rows_; ++i) {
      const NodeIndex node = best[idx(i)];
      const NodeIndex row = followed_.add(row_of_[idx(draft.parent(node))], draft.token(node));
      row_of_[idx(node)] = row;
      node_of_[idx(row)] = node;
    }
  }

  /// As many as may be verified. A child is never likelier than its parent, and comes behind it, so
  /// what is kept is a tree.
  void keep_best(DraftTree& draft) const noexcept {
    const int n = draft.drafted();
    if (n <= nodes_) return;
    std::array<NodeIndex, DraftTree::kMaxNodes> order;
    for (int i = 0; i < n; ++i) order[idx(i)] = i + 1;
    std::sort(order.begin(), order.begin() + n, [this](NodeIndex a, NodeIndex b) {
      return path_[idx(a)] != path_[idx(b)] ? path_[idx(a)] > path_[idx(b)] : a < b;
    });
    std::uint64_t keep = 1;
    for (int i = 0; i < nodes_; ++i) keep |= std::uint64_t{1} << order[idx(i)];
    draft.keep_only(keep);
  }

  BestFirstSettings settings_;
  int depth_ = 0;
  int nodes_ = 0;
  int rows_ = 0;
  float stop_below_ = 0;
  int level_ = 0;
  DraftTree followed_;
  NodeIndex first_ = 0;                                    // of followed_, without children so far
  std::array<float, DraftTree::kMaxNodes> path_{};         // of each node of the draft
  std::array<NodeIndex, DraftTree::kMaxNodes> row_of_{};   // draft -> followed_
  std::array<NodeIndex, DraftTree::kMaxNodes> node_of_{};  // followed_ -> draft
};

}  // namespace foredraft::inline v0
