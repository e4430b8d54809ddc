#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/drafter/suffix_tree.hpp>

namespace foredraft::inline v0 {

/// How drafts are made of a suffix tree.
struct SuffixDraftRules {
  Shape shape = Shape::kChain;
  double max_spec_factor = 1.0;  ///< drafted tokens for each token of the match
  double min_token_prob = 0.1;   ///< least probability of a drafted token, from the match on
  int n_vocab = 0;               ///< tokens that may be drafted
  Limit limit = {};
};

/// The draft with the greatest number of tokens that can be expected to be accepted, of all matches
/// of a text's end in one or more suffix trees.
///
/// A match of n tokens drafts up to n * max_spec_factor tokens: along the most frequent
/// continuation (a chain), or always the likeliest node next (a tree). A node's probability is the
/// product of the frequencies on its way, count of a string over count of the string before, and
/// the score of a draft is the sum of its nodes' probabilities. In the tree of the text itself its
/// own end counts as an occurrence that is followed by nothing. So one earlier occurrence is worth
/// 1/2, and n that agree n / (n + 1).
/// @cost O(n log n) for each match that may be best, n the drafted tokens
/// @source Oliaro et al. 2024, "SuffixDecoding", arXiv:2411.04975
class SuffixDraft {
 public:
  void clear() noexcept {
    best_.size = 0;
    best_.score = 0;
  }
  /// Expected number of accepted tokens.
  double score() const noexcept { return best_.score; }

  /// Look at all matches in one tree. What was found before stays where it is as good; of equal
  /// drafts that of the longest match.
  /// @param matches [length - 1]: where the text's last `length` tokens are
  void consider(const SuffixTree& tree, std::span<const SuffixTree::Locus> matches,
                const SuffixDraftRules& rules) {
    int seen_count = 0;
    int seen_depth = 0;
    for (auto length = static_cast<int>(matches.size()); length >= 1; --length) {
      const SuffixTree::Locus at = matches[idx(length - 1)];
      const double worth = length * rules.max_spec_factor + 1e-6;
      const int depth = std::min(rules.limit.depth, tree.depth() - length);
      int nodes = rules.limit.nodes;
      if (worth < nodes) nodes = static_cast<int>(worth);
      if (rules.shape == Shape::kChain) nodes = std::min(nodes, depth);
      if (nodes <= best_.score) continue;
      // Where a shorter string occurs as often as the longer one, it occurs at the same places and
      // only has less to draft.
      const int count = tree.count(at);
      if (count == seen_count && depth == seen_depth) continue;
      seen_count = count;
      seen_depth = depth;
      draw(tree, at, count, {depth, nodes}, rules);
      if (drawn_.score > best_.score) std::swap(drawn_, best_);
    }
  }

  /// Add what was found to a draft that holds the anchor.
  void add_to(DraftTree& draft) const {
    for (int i = 0; i < best_.size; ++i) {
      const Item& item = best_.items[idx(i)];
      draft.set_confidence(draft.add(item.parent, item.token), item.frequency);
    }
  }

 private:
  struct Item {
    TokenId token = 0;
    NodeIndex parent = 0;
    float frequency = 0;  // after its parent
  };
  struct Draft {
    double score = 0;
    int size = 0;
    std::array<Item, DraftTree::kMaxNodes> items;
  };
  /// What may be drafted next.
  struct Open {
    double probability = 1;
    int order = 0;  // of equally likely ones the first that was found
    int depth = 0;
    int count = 0;
    SuffixTree::Locus at;
    Item item;
    friend bool operator<(const Open& a, const Open& b) noexcept {
      return a.probability != b.probability ? a.probability < b.probability : a.order > b.order;
    }
  };

  void draw(const SuffixTree& tree, SuffixTree::Locus at, int count, Limit limit,
            const SuffixDraftRules& rules) {
    drawn_.size = 0;
    drawn_.score = 0;
    open_.clear();
    order_ = 0;
    open(tree, {.count = count, .at = at, .item = {}}, limit.nodes, rules);
    while (!open_.empty() && drawn_.size < limit.nodes) {
      std::pop_heap(open_.begin(), open_.end());
      Open next = open_.back();
      open_.pop_back();
      const int left = limit.nodes - drawn_.size;
      // None that is left is likelier.
      if (drawn_.score + next.probability * left <= best_.score) return;
      drawn_.score += next.probability;
      drawn_.items[idx(drawn_.size++)] = next.item;
      next.item.parent = drawn_.size;
      if (next.depth < limit.depth) open(tree, next, left - 1, rules);
    }
  }

  /// What follows a node: at most `most` of them can be drafted.
  void open(const SuffixTree& tree, const Open& node, int most, const SuffixDraftRules& rules) {
    if (rules.shape == Shape::kChain) most = std::min(most, 1);
    if (most == 0) return;
    tree.continuations(node.at, [&](TokenId token, SuffixTree::Locus at, int count) {
      const double frequency = static_cast<double>(count) / node.count;
      const double probability = node.probability * frequency;
      if (probability < rules.min_token_prob) return false;
      if (token >= rules.n_vocab) return true;
      open_.push_back({probability,
                       order_++,
                       node.depth + 1,
                       count,
                       at,
                       {token, node.item.parent, static_cast<float>(frequency)}});
      std::push_heap(open_.begin(), open_.end());
      return --most > 0;
    });
  }

  Draft best_;
  Draft drawn_;
  std::vector<Open> open_;  // a heap
  int order_ = 0;
};

}  // namespace foredraft::inline v0
