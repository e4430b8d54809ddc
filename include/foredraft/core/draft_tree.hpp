#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How the children of one node were chosen. An acceptance rule has to know it to keep the target's
/// law.
enum class Siblings : std::uint8_t {
  kPointMass,           ///< found by any means; right for every token, needs no q
  kIndependent,         ///< independent draws from q
  kWithoutReplacement,  ///< drawn from q in this order, each draw without the tokens before it
};

/// A sparse probability vector: ids ascending and distinct, p[i] the probability of ids[i].
struct Law {
  std::vector<TokenId> ids;
  std::vector<double> p;

  std::size_t size() const noexcept { return ids.size(); }
  void clear() noexcept { ids.clear(), p.clear(); }
  void reserve(std::size_t n) { ids.reserve(n), p.reserve(n); }

  /// Probability of `token`, 0 outside the support. @cost O(log size)
  double operator()(TokenId token) const noexcept {
    std::size_t low = 0;
    std::size_t high = ids.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (ids[middle] < token) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < ids.size() && ids[low] == token ? p[low] : 0.0;
  }
};

/// What a drafter proposes for one round: a tree of tokens behind the anchor. A chain is the tree
/// with one branch.
///
/// Node 0 is the anchor, the newest final token. Parents come before children. Position of a node:
/// position of the anchor + depth(node). The loop owns the tree and drafters fill it in place;
/// buffers are kept from round to round.
///
/// q holds only for tokens whose being offered was decided before they were drawn. A drafter that
/// drops, re-ranks or picks among drawn tokens because of what they are must hand them on as point
/// mass.
class DraftTree {
 public:
  /// A row's ancestors fit one 64-bit mask word.
  static constexpr int kMaxNodes = 64;
  /// Confidence of a node of which nothing was said.
  static constexpr float kUnknown = -1.0f;

  /// Drop everything but a fresh anchor.
  void reset(TokenId anchor) noexcept {
    size_ = deepest_ = 0;
    push({anchor, kCommitted}, 0);
  }

  /// Propose `token` after `parent`. Returns its node.
  /// @errors kInvalidDraft where the tree is full or the parent does not exist
  NodeIndex add(NodeIndex parent, TokenId token) {
    if (size() == kMaxNodes) {
      throw Error(ErrorCode::kInvalidDraft, "more than 64 nodes", "at most 64 nodes in a draft",
                  "stop at Limit::nodes");
    }
    check_parent(parent);
    return push({token, parent}, depth_[idx(parent)] + 1);
  }

  /// Propose `token` after the deepest node added so far, as a chain drafter does.
  NodeIndex extend(TokenId token) { return add(size() - 1, token); }

  /// Say that the children of `parent` are drawn from q. Call it before the first of them is added.
  /// Fill the returned law; the tree keeps its memory for later rounds.
  /// @errors kInvalidDraft where the parent does not exist
  Law& drawn_from(NodeIndex parent, Siblings siblings = Siblings::kIndependent) {
    check_parent(parent);
    siblings_[idx(parent)] = siblings;
    laws_[idx(parent)].clear();
    return laws_[idx(parent)];
  }

  /// Say that the nodes from `first` on come from drafter `origin` of several. Whoever combines
  /// drafters numbers them; 0 where nobody does.
  void set_origin(NodeIndex first, std::uint8_t origin) noexcept {
    std::fill(origin_.begin() + first, origin_.begin() + size_, origin);
  }

  /// Say how sure the drafter is that `node` is accepted if its parent is, from 0 to 1. It need not be
  /// a true probability, only greater where tokens are accepted more often: a controller learns what
  /// each value is worth. A node that nobody speaks of has kUnknown.
  void set_confidence(NodeIndex node, float confidence) noexcept {
    confidence_[idx(node)] = confidence;
  }

  /// Remove the nodes from `count` on, which leaves a valid tree because parents come first.
  void truncate(int count) noexcept {
    if (count < 1 || count >= size_) return;
    size_ = count;
    find_deepest();
  }

  /// Keep the nodes whose bits are set, in their order: with a node its ancestors, so node 0 always.
  void keep_only(std::uint64_t nodes) noexcept {
    std::array<NodeIndex, kMaxNodes> place{};
    int kept = 0;
    for (NodeIndex node = 0; node < size_; ++node) {
      if ((nodes >> node & 1) == 0) continue;
      const auto from = idx(node);
      const auto to = idx(place[from] = kept++);
      if (to == from) continue;
      nodes_[to] = {nodes_[from].token, place[idx(nodes_[from].parent)]};
      depth_[to] = depth_[from];
      origin_[to] = origin_[from];
      confidence_[to] = confidence_[from];
      siblings_[to] = siblings_[from];
      std::swap(laws_[to], laws_[from]);
    }
    size_ = kept;
    find_deepest();
  }

  int size() const noexcept { return size_; }
  /// Drafted tokens: every node but the anchor.
  int drafted() const noexcept { return size() - 1; }
  std::span<const Node> nodes() const noexcept { return {nodes_.data(), idx(size_)}; }
  TokenId token(NodeIndex node) const noexcept { return nodes_[idx(node)].token; }
  NodeIndex parent(NodeIndex node) const noexcept { return nodes_[idx(node)].parent; }
  int depth(NodeIndex node) const noexcept { return depth_[idx(node)]; }
  int origin(NodeIndex node) const noexcept { return origin_[idx(node)]; }
  float confidence(NodeIndex node) const noexcept { return confidence_[idx(node)]; }
  Siblings siblings(NodeIndex parent) const noexcept { return siblings_[idx(parent)]; }
  /// q of the children of `parent`; meaningless where they are point mass.
  const Law& law(NodeIndex parent) const noexcept { return laws_[idx(parent)]; }

  int max_depth() const noexcept { return deepest_; }

  bool is_chain() const noexcept { return max_depth() == drafted(); }

  /// First child of `parent` behind node `after`, or -1. @cost O(nodes), at most 64 steps
  NodeIndex next_child(NodeIndex parent, NodeIndex after) const noexcept {
    for (NodeIndex node = after + 1; node < size(); ++node) {
      if (nodes_[idx(node)].parent == parent) return node;
    }
    return -1;
  }
  NodeIndex first_child(NodeIndex parent) const noexcept { return next_child(parent, parent); }

  /// Child of `parent` that proposes `token`, or -1.
  NodeIndex child_with(NodeIndex parent, TokenId token) const noexcept {
    for (NodeIndex node = first_child(parent); node >= 0; node = next_child(parent, node)) {
      if (nodes_[idx(node)].token == token) return node;
    }
    return -1;
  }

 private:
  void check_parent(NodeIndex parent) const {
    if (parent >= 0 && parent < size()) return;
    throw Error(ErrorCode::kInvalidDraft, "parent " + std::to_string(parent),
                "a node below " + std::to_string(size()), "add parents before their children");
  }

  NodeIndex push(Node node, int depth) noexcept {
    nodes_[idx(size_)] = node;
    depth_[idx(size_)] = depth;
    origin_[idx(size_)] = 0;
    confidence_[idx(size_)] = kUnknown;
    siblings_[idx(size_)] = Siblings::kPointMass;
    deepest_ = std::max(deepest_, depth);
    return size_++;
  }

  void find_deepest() noexcept {
    deepest_ = *std::max_element(depth_.begin(), depth_.begin() + size_);
  }

  int size_ = 0;
  int deepest_ = 0;
  std::array<Node, kMaxNodes> nodes_{};
  std::array<int, kMaxNodes> depth_{};
  std::array<std::uint8_t, kMaxNodes> origin_{};
  std::array<float, kMaxNodes> confidence_{};
  std::array<Siblings, kMaxNodes> siblings_{};                        // of the node's children
  std::vector<Law> laws_ = std::vector<Law>(std::size_t{kMaxNodes});  // of the node's children
};

}  // namespace foredraft::inline v0
