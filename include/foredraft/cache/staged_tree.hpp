#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The nodes that are staged behind a sequence's committed positions: which there are, what each of
/// them sees, and which survive a commit. Every cache has one, and adds where its rows lie.
/// @cost stage O(nodes), for a tree O(nodes * depth); commit O(nodes)
class StagedTree {
 public:
  /// Nodes on the way from a root to a node, each to itself included: those of node i of the range
  /// are nodes[begin[i]] .. nodes[begin[i + 1] - 1]. Both are empty where all that is staged is one
  /// chain.
  struct Paths {
    std::span<const NodeIndex> nodes = {};
    std::span<const std::int32_t> begin = {};  // [count + 1]
  };

  StagedTree() noexcept = default;
  explicit StagedTree(int max_size) : max_size_(max_size) {
    nodes_.reserve(idx(max_size));
    renumbered_.resize(idx(max_size));
  }

  int size() const noexcept { return static_cast<int>(nodes_.size()); }
  int max_size() const noexcept { return max_size_; }
  TokenId token(NodeIndex node) const noexcept { return nodes_[idx(node)].token; }
  NodeIndex parent(NodeIndex node) const noexcept { return nodes_[idx(node)].parent; }

  /// How many staged nodes a node follows.
  int depth(NodeIndex node) const noexcept {
    if (chain_) return node;
    return path_begin_[idx(node) + 1] - path_begin_[idx(node)] - 1;
  }

  /// Paths of the nodes first .. first + count - 1. Good until the next change.
  Paths paths(NodeIndex first, int count) const noexcept {
    if (chain_) return {};
    return {path_, std::span(path_begin_).subspan(idx(first), idx(count) + 1)};
  }

  /// @errors kInvalidDraft where there are too many nodes or a parent is not staged;
  ///   std::bad_alloc. Nothing has happened then
  void stage(std::span<const Node> nodes) {
    const int before = size();
    if (nodes.size() > idx(max_size_ - before)) {
      throw Error(ErrorCode::kInvalidDraft, std::to_string(nodes.size()) + " more staged nodes",
                  "at most " + std::to_string(max_size_) + " in all",
                  "make the cache with a larger max_staged");
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].parent >= kCommitted && nodes[i].parent < before + static_cast<int>(i)) continue;
      throw Error(ErrorCode::kInvalidDraft, "parent " + std::to_string(nodes[i].parent),
                  "a node staged before its child", "");
    }
    nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
    // Only reserving may throw: first make room, then describe the paths in it.
    try {
      if (!form_chain()) {
        path_begin_.reserve(nodes_.size() + 1);
        path_.reserve(total_path_length());
      }
    } catch (...) {
      nodes_.resize(idx(before));
      throw;
    }
    describe_paths();
  }

  /// The path's nodes are committed. The subtree below its end stays, renumbered in order, and the
  /// rest is dropped. move(from, to): what is kept of node `from` goes to the place that node `to`
  /// had, the path's first and then the survivors'. No place is overwritten before it was moved, or
  /// dropped.
  /// @param path  from a node with parent kCommitted downwards
  template <typename Move>
  void commit(std::span<const NodeIndex> path, Move&& move) noexcept {
    const auto place = [&](NodeIndex from, std::size_t to) {
      if (idx(from) != to) move(from, static_cast<NodeIndex>(to));
    };
    for (std::size_t i = 0; i < path.size(); ++i) place(path[i], i);
    const NodeIndex end = path.empty() ? kCommitted : path.back();
    NodeIndex kept = 0;
    for (NodeIndex i = 0; i < size(); ++i) {
      const auto [token, parent] = nodes_[idx(i)];
      const bool root = parent == end;
      const NodeIndex above = root ? kCommitted : parent < 0 ? kDropped : renumbered_[idx(parent)];
      renumbered_[idx(i)] = above == kDropped ? kDropped : kept;
      if (above == kDropped) continue;
      place(i, path.size() + idx(kept));  // indices only fall
      nodes_[idx(kept++)] = {token, above};
    }
    nodes_.resize(idx(kept));
    describe_paths();
  }

  void discard() noexcept {
    nodes_.clear();
    describe_paths();
  }

 private:
  static constexpr NodeIndex kDropped = -2;

  bool form_chain() const noexcept {
    for (int i = 0; i < size(); ++i) {
      if (parent(i) != i - 1) return false;
    }
    return true;
  }

  std::size_t total_path_length() const noexcept {
    std::size_t total = 0;
    for (int i = 0; i < size(); ++i) {
      for (NodeIndex node = i; node >= 0; node = parent(node)) ++total;
    }
    return total;
  }

  /// A path is its parent's path and the node itself.
  void describe_paths() noexcept {
    path_.clear();
    path_begin_.clear();
    chain_ = form_chain();
    if (chain_) return;
    path_begin_.push_back(0);
    for (NodeIndex i = 0; i < size(); ++i) {
      if (parent(i) >= 0) {
        const std::int32_t end = path_begin_[idx(parent(i)) + 1];
        for (std::int32_t j = path_begin_[idx(parent(i))]; j < end; ++j) {
          path_.push_back(path_[idx(j)]);
        }
      }
      path_.push_back(i);
      path_begin_.push_back(static_cast<std::int32_t>(path_.size()));
    }
  }

  int max_size_ = 0;
  bool chain_ = true;                     // all that is staged is one chain: no paths needed
  std::vector<Node> nodes_;               // [size]
  std::vector<NodeIndex> path_;           // of all nodes, one path behind the other
  std::vector<std::int32_t> path_begin_;  // [size + 1]
  std::vector<NodeIndex> renumbered_;     // [max_size] scratch of commit
};

}  // namespace foredraft::inline v0
