#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// A token and its bytes, or some of them. Ordered by the bytes.
struct TokenPiece {
  std::string_view bytes;
  TokenId token;
  friend auto operator<=>(const TokenPiece&, const TokenPiece&) = default;
};

/// Tokens by their bytes, as a tree: a node for each beginning of a token. Nodes come in the order in
/// which a walk meets them, so a walk that leaves out what is below a node goes on at a later one.
class TokenTree {
 public:
  TokenTree() = default;
  /// @param pieces  none without bytes, in any order
  /// @cost O(all bytes), and sorting the pieces where they are not yet
  explicit TokenTree(std::vector<TokenPiece> pieces) {
    if (!std::is_sorted(pieces.begin(), pieces.end())) std::sort(pieces.begin(), pieces.end());
    tokens_.reserve(pieces.size());
    std::vector<std::uint32_t> open;  // nodes of the beginning of the last token
    std::string_view last;
    for (const auto& [piece, token] : pieces) {
      std::size_t common = 0;
      while (common < std::min(last.size(), piece.size()) && last[common] == piece[common])
        ++common;
      for (; open.size() > common; open.pop_back()) nodes_[open.back()].skip = size();
      for (std::size_t i = common; i < piece.size(); ++i) {
        open.push_back(size());
        nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()),
                          static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(piece[i])});
      }
      tokens_.push_back(token);
      depth_ = std::max(depth_, piece.size());
      last = piece;
    }
    for (const std::uint32_t node : open) nodes_[node].skip = size();
  }

  /// Walk all tokens that go on from a state.
  /// @param step  step(state, byte): the state behind, negative where there is none
  /// @param take  take(token) for each token all of whose bytes have a state
  template <typename Step, typename Take>
  void walk(int start, Step&& step, Take&& take) const {
    std::vector<int> states(depth_ + 1, start);
    std::uint32_t i = 0;
    while (i < size()) {
      const Node& node = nodes_[i];
      const int state = step(states[node.depth], node.byte);
      if (state < 0) {
        i = node.skip;
        continue;
      }
      states[node.depth + 1] = state;
      for (const TokenId token : tokens_of(i)) take(token);
      ++i;
    }
  }

  /// The longest token that `text` begins with; -1 where none does.
  TokenId longest(std::string_view text) const noexcept {
    TokenId found = -1;
    std::uint32_t begin = 0;
    std::uint32_t end = size();
    for (const char c : text) {
      std::uint32_t i = begin;
      while (i < end && nodes_[i].byte != static_cast<std::uint8_t>(c)) i = nodes_[i].skip;
      if (i >= end) break;
      if (const auto tokens = tokens_of(i); !tokens.empty()) found = tokens.front();
      begin = i + 1;
      end = nodes_[i].skip;
    }
    return found;
  }

 private:
  struct Node {
    std::uint32_t skip;    // the next node that is not below
    std::uint32_t tokens;  // place of the first token that ends here, or later
    std::uint32_t depth;   // bytes before
    std::uint8_t byte;
  };

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  std::span<const TokenId> tokens_of(std::uint32_t i) const noexcept {
    const std::size_t end = i + 1 < size() ? nodes_[i + 1].tokens : tokens_.size();
    return std::span(tokens_).subspan(nodes_[i].tokens, end - nodes_[i].tokens);
  }

  std::size_t depth_ = 0;
  std::vector<TokenId> tokens_;  // by their bytes
  std::vector<Node> nodes_;
};

}  // namespace foredraft::inline v0
