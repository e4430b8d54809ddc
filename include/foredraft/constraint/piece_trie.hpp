#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The bytes of all tokens of a vocabulary as a tree: a node for each beginning of a token. Nodes
/// come in the order in which a walk meets them, so a walk that leaves out what is below a node goes
/// on at a later one.
class PieceTrie {
 public:
  /// @param piece  bytes of a token; tokens without any (control tokens, say) are not in the tree
  /// @cost O(bytes of all tokens), once a vocabulary
  PieceTrie(int n_vocab, const std::function<std::string(TokenId)>& piece) : n_vocab_(n_vocab) {
    begin_of_.reserve(idx(n_vocab) + 1);
    for (TokenId token = 0; token < n_vocab; ++token) {
      begin_of_.push_back(bytes_.size());
      bytes_ += piece(token);
      if (bytes_.size() > begin_of_.back()) tokens_.push_back(token);
    }
    begin_of_.push_back(bytes_.size());
    std::sort(tokens_.begin(), tokens_.end(), [this](TokenId a, TokenId b) {
      return std::pair(bytes(a), a) < std::pair(bytes(b), b);
    });
    grow();
  }

  int vocab_size() const noexcept { return n_vocab_; }
  /// Of a token of the vocabulary.
  std::string_view bytes(TokenId token) const noexcept {
    const std::size_t begin = begin_of_[idx(token)];
    return std::string_view(bytes_).substr(begin, begin_of_[idx(token) + 1] - begin);
  }

  /// Walk all tokens that go on from a state.
  /// @param step  step(state, byte): the state behind, negative where there is none
  /// @param take  take(token) for each token all of whose bytes have a state
  template <typename Step, typename Take>
  void walk(int start, Step&& step, Take&& take) const {
    std::vector<int> states(idx(depth_) + 1, start);
    std::size_t i = 0;
    while (i < nodes_.size()) {
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

  /// Longest tokens that spell the beginning of `text`, one behind the other, at most `most` of them.
  std::vector<TokenId> spell(std::string_view text, int most) const {
    std::vector<TokenId> tokens;
    while (!text.empty() && tokens.size() < idx(most)) {
      const TokenId token = longest(text);
      if (token < 0) break;
      tokens.push_back(token);
      text.remove_prefix(bytes(token).size());
    }
    return tokens;
  }

 private:
  struct Node {
    std::uint8_t byte;
    std::uint32_t depth;  // bytes before
    std::size_t skip;     // the next node that is not below
    std::size_t tokens;   // place of the first token that ends here, or later
  };

  std::span<const TokenId> tokens_of(std::size_t i) const noexcept {
    const std::size_t end = i + 1 < nodes_.size() ? nodes_[i + 1].tokens : tokens_.size();
    return std::span(tokens_).subspan(nodes_[i].tokens, end - nodes_[i].tokens);
  }

  void grow() {
    std::vector<std::size_t> open;  // nodes of the beginning of the last token
    std::string_view last;
    for (std::size_t t = 0; t < tokens_.size(); ++t) {
      const std::string_view piece = bytes(tokens_[t]);
      std::size_t common = 0;
      while (common < std::min(last.size(), piece.size()) && last[common] == piece[common])
        ++common;
      for (; open.size() > common; open.pop_back()) nodes_[open.back()].skip = nodes_.size();
      for (std::size_t i = common; i < piece.size(); ++i) {
        open.push_back(nodes_.size());
        nodes_.push_back(
            {static_cast<std::uint8_t>(piece[i]), static_cast<std::uint32_t>(i), 0, t});
      }
      depth_ = std::max(depth_, static_cast<int>(piece.size()));
      last = piece;
    }
    for (const std::size_t node : open) nodes_[node].skip = nodes_.size();
  }

  /// -1 where no token begins the text.
  TokenId longest(std::string_view text) const noexcept {
    TokenId found = -1;
    std::size_t begin = 0;
    std::size_t end = nodes_.size();
    for (const char c : text) {
      std::size_t i = begin;
      while (i < end && nodes_[i].byte != static_cast<std::uint8_t>(c)) i = nodes_[i].skip;
      if (i >= end) break;
      if (const auto tokens = tokens_of(i); !tokens.empty()) found = tokens.front();
      begin = i + 1;
      end = nodes_[i].skip;
    }
    return found;
  }

  int n_vocab_;
  int depth_ = 0;
  std::string bytes_;                  // of all tokens
  std::vector<std::size_t> begin_of_;  // [n_vocab + 1]
  std::vector<TokenId> tokens_;        // by their bytes
  std::vector<Node> nodes_;
};

}  // namespace foredraft::inline v0
