#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/control/acceptance_estimate.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// What a round costs, in tokens: the time that its pass takes longer than one of a single row,
/// in which the text would have grown by so many.
/// @shape price [rows + 1], entry 1 is 0
using Prices = std::array<double, DraftTree::kMaxNodes + 1>;

/// The drafts of several drafters for one round as one tree of point masses: what two of them agree
/// on is there once, and each node has the probability that its whole path is accepted. Of that tree
/// the part is verified that is worth most: expected tokens less the price of their rows.
/// @cost O(n^2) of n nodes, in arrays of its own. Behind a pass all memory is cold, so of these no more is
/// touched than there are nodes.
class MergedDraft {
 public:
  static constexpr int kMost = 256;

  void clear() noexcept { size_ = 1; }

  /// Take in the draft of a drafter, whose node 0 is node `root` of this tree. Nodes beyond kMost are
  /// left out.
  /// @return here, the deepest node of that draft; the first of several
  int add(const DraftTree& draft, std::uint8_t origin, const AcceptanceEstimate& estimate,
          int root = 0) noexcept {
    std::array<int, DraftTree::kMaxNodes> here;  // node of `draft` -> node of this tree
    here[0] = root;
    NodeIndex deepest = 0;
    for (NodeIndex node = 1; node < draft.size(); ++node) {
      const int parent = here[idx(draft.parent(node))];
      if (parent < 0) {
        here[idx(node)] = -1;
        continue;
      }
      const double rate = estimate.rate(draft.confidence(node), draft.depth(node));
      here[idx(node)] = child(parent, draft.token(node), origin, draft.confidence(node), rate);
      if (here[idx(node)] > 0 && draft.depth(node) > draft.depth(deepest)) deepest = node;
    }
    return here[idx(deepest)];
  }

  /// The tokens from the anchor to `node`, the anchor not counted.
  void path_to(int node, std::vector<TokenId>& tokens) const {
    tokens.resize(idx(items_[idx(node)].depth));
    for (std::size_t i = tokens.size(); i > 0; node = items_[idx(node)].parent) {
      tokens[--i] = items_[idx(node)].token;
    }
  }

  /// The value of the best part, in tokens beyond the one that any pass makes: 0 where nothing is
  /// worth its price. write() then adds that part to a draft that holds its anchor alone.
  double choose(Limit limit, Shape shape, const Prices& price) noexcept {
    share();
    chosen_size_ = 0;
    return shape == Shape::kChain ? choose_chain(limit, price) : choose_tree(limit, price);
  }
  void write(DraftTree& draft) const {
    std::array<NodeIndex, kMost> there;
    there[0] = 0;
    for (const int i : std::span(chosen_).first(idx(chosen_size_))) {
      const Item& item = items_[idx(i)];
      const NodeIndex node = draft.add(there[idx(item.parent)], item.token);
      draft.set_origin(node, item.origin);
      draft.set_confidence(node, item.confidence);
      there[idx(i)] = node;
    }
  }

  /// Nodes of the part that was chosen.
  int chosen() const noexcept { return chosen_size_; }

 private:
  struct Item {
    TokenId token = 0;
    int parent = 0;
    int depth = 0;
    std::uint8_t origin = 0;
    float confidence = DraftTree::kUnknown;
    double rate = 1;  // accepted, if the parent was
    double path = 1;  // accepted with all before it
  };

  int child(int parent, TokenId token, std::uint8_t origin, float confidence,
            double rate) noexcept {
    for (int i = parent + 1; i < size_; ++i) {
      Item& item = items_[idx(i)];
      if (item.parent != parent || item.token != token) continue;
      if (rate > item.rate) item.rate = rate, item.origin = origin, item.confidence = confidence;
      return i;
    }
    if (size_ == kMost) return -1;
    items_[idx(size_)] = {token, parent, items_[idx(parent)].depth + 1, origin, confidence,
                          rate,  0};
    return size_++;
  }

  /// Path probabilities. Of siblings at most one is accepted, so where estimates of several drafters
  /// add up to more than 1 they share it.
  void share() noexcept {
    std::array<double, kMost> claimed;
    std::fill_n(claimed.begin(), size_, 0.0);
    for (int i = 1; i < size_; ++i) claimed[idx(items_[idx(i)].parent)] += items_[idx(i)].rate;
    for (int i = 1; i < size_; ++i) {
      Item& item = items_[idx(i)];
      item.path =
          items_[idx(item.parent)].path * item.rate / std::max(1.0, claimed[idx(item.parent)]);
    }
  }

  double choose_chain(Limit limit, const Prices& price) noexcept {
    std::array<double, kMost> expected;
    expected[0] = 0;
    double best = 0;
    int end = 0;
    for (int i = 1; i < size_; ++i) {
      const Item& item = items_[idx(i)];
      expected[idx(i)] = expected[idx(item.parent)] + item.path;
      if (item.depth > limit.depth || item.depth > limit.nodes) continue;
      const double value = expected[idx(i)] - price[idx(item.depth + 1)];
      if (value > best) best = value, end = i;
    }
    chosen_size_ = items_[idx(end)].depth;
    for (int i = end, at = chosen_size_; i > 0; i = items_[idx(i)].parent) chosen_[idx(--at)] = i;
    return best;
  }

  /// Most probable nodes first. A parent is never less probable than its child, and comes first
  /// where they are equal; so every beginning of that order is a tree.
  double choose_tree(Limit limit, const Prices& price) noexcept {
    int n = 0;
    for (int i = 1; i < size_; ++i) {
      if (items_[idx(i)].depth <= limit.depth) chosen_[idx(n++)] = i;
    }
    std::sort(chosen_.begin(), chosen_.begin() + n, [this](int a, int b) {
      const double left = items_[idx(a)].path;
      const double right = items_[idx(b)].path;
      return left != right ? left > right : a < b;
    });
    double expected = 0;
    double best = 0;
    for (int i = 0; i < std::min(n, std::min(limit.nodes, DraftTree::kMaxNodes - 1)); ++i) {
      expected += items_[idx(chosen_[idx(i)])].path;
      const double value = expected - price[idx(i + 2)];
      if (value > best) best = value, chosen_size_ = i + 1;
    }
    return best;
  }

  int size_ = 1;  // item 0 is the anchor
  std::array<Item, kMost> items_{};
  std::array<int, kMost> chosen_{};
  int chosen_size_ = 0;
};

}  // namespace foredraft::inline v0
