#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Values under sequences of tokens, found by what a text begins with.
///
/// A radix tree: an edge carries all tokens up to the next branch or value, so a long prompt is one
/// node and beginnings that several share are stored once.
/// @cost each call O(tokens + nodes on the way * log children)
template <typename V>
class TokenTrie {
 public:
  /// In place of what was there under the same tokens.
  void put(std::span<const TokenId> tokens, V value) {
    Node* node = &root_;
    while (!tokens.empty()) {
      std::unique_ptr<Node>& slot = node->children[tokens.front()];
      if (!slot) {
        slot = std::make_unique<Node>();
        slot->edge.assign(tokens.begin(), tokens.end());
        slot->parent = node;
      }
      const std::size_t common = common_length(slot->edge, tokens);
      if (common < slot->edge.size()) split(slot, common);
      node = slot.get();
      tokens = tokens.subspan(common);
    }
    size_ += node->value ? 0 : 1;
    node->value = std::move(value);
  }

  /// The value of most tokens with which `tokens` begins; null where there is none.
  V* deepest(std::span<const TokenId> tokens) noexcept {
    Node* node = &root_;
    V* found = nullptr;
    for (;;) {
      if (node->value) found = &*node->value;
      if (tokens.empty()) return found;
      const auto child = node->children.find(tokens.front());
      if (child == node->children.end()) return found;
      node = child->second.get();
      if (common_length(node->edge, tokens) < node->edge.size()) return found;
      tokens = tokens.subspan(node->edge.size());
    }
  }

  /// Forget the value under exactly these tokens. @return whether there was one
  bool erase(std::span<const TokenId> tokens) noexcept {
    Node* node = &root_;
    while (!tokens.empty()) {
      const auto child = node->children.find(tokens.front());
      if (child == node->children.end()) return false;
      node = child->second.get();
      if (common_length(node->edge, tokens) < node->edge.size()) return false;
      tokens = tokens.subspan(node->edge.size());
    }
    if (!node->value) return false;
    node->value.reset();
    --size_;
    while (node->parent != nullptr && !node->value && node->children.empty()) {
      Node* const parent = node->parent;
      parent->children.erase(node->edge.front());
      node = parent;
    }
    return true;
  }

  /// Values.
  std::size_t size() const noexcept { return size_; }

 private:
  struct Node {
    std::vector<TokenId> edge;  // from the parent; empty for the root alone
    Node* parent = nullptr;
    std::map<TokenId, std::unique_ptr<Node>> children;  // by the first token of their edge
    std::optional<V> value;
  };

  static std::size_t common_length(std::span<const TokenId> a,
                                   std::span<const TokenId> b) noexcept {
    return idx(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  }

  /// A node behind the first n tokens of the edge that leads to `slot`.
  static void split(std::unique_ptr<Node>& slot, std::size_t n) {
    auto middle = std::make_unique<Node>();
    const auto border = slot->edge.begin() + static_cast<std::ptrdiff_t>(n);
    middle->edge.assign(slot->edge.begin(), border);
    middle->parent = slot->parent;
    std::unique_ptr<Node>& below = middle->children[*border];
    slot->edge.erase(slot->edge.begin(), border);
    slot->parent = middle.get();
    below = std::move(slot);
    slot = std::move(middle);
  }

  Node root_;
  std::size_t size_ = 0;
};

}  // namespace foredraft::inline v0
