#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What comes before a row: all final tokens, then the draft from the anchor's child down to `node`.
struct History {
  std::span<const TokenId> tokens = {};
  const DraftTree* draft = nullptr;
  NodeIndex node = 0;
  /// Mirostat's bound on surprise at this row. @units bits
  double most_surprise = std::numeric_limits<double>::infinity();
  /// Older tokens, of which only the number is known.
  std::size_t forgotten = 0;
};

/// The newest tokens of a text, side by side: a ring of twice the room in which each stands twice.
class TokenRing {
 public:
  /// @param capacity  how many are kept
  explicit TokenRing(std::size_t capacity = 0) : capacity_(capacity), tokens_(2 * capacity) {}

  /// @cost O(1), no allocation
  void push(TokenId token) noexcept {
    if (capacity_ > 0) {
      const std::size_t place = n_ % capacity_;
      tokens_[place] = tokens_[place + capacity_] = token;
    }
    ++n_;
  }

  /// Tokens that were ever pushed.
  std::size_t size() const noexcept { return n_; }
  std::size_t capacity() const noexcept { return capacity_; }
  /// The newest of them, the oldest first. Good until the next push.
  std::span<const TokenId> newest() const noexcept {
    if (capacity_ == 0) return {};
    return std::span(tokens_).subspan(n_ > capacity_ ? n_ % capacity_ : 0, std::min(n_, capacity_));
  }

 private:
  std::size_t capacity_;
  std::size_t n_ = 0;
  std::vector<TokenId> tokens_;  // [2 * capacity]
};

/// That text from its end: [0] is the newest token.
class Lookback {
 public:
  /// Both the tokens and the draft must outlive the use. @cost O(depth of the node)
  explicit Lookback(const History& history) noexcept
      : tokens_(history.tokens), forgotten_(history.forgotten) {
    for (NodeIndex node = history.node; node > 0; node = history.draft->parent(node)) {
      drafted_[n_drafted_++] = history.draft->token(node);
    }
  }

  std::size_t size() const noexcept { return n_drafted_ + tokens_.size(); }
  /// Position of the token that comes next.
  std::size_t position() const noexcept { return forgotten_ + size(); }
  TokenId operator[](std::size_t i) const noexcept {
    return i < n_drafted_ ? drafted_[i] : tokens_[tokens_.size() - 1 - (i - n_drafted_)];
  }

  /// How many tokens a transform sees that looks back on `last_n`; -1: on all.
  std::size_t reach(int last_n) const noexcept {
    return last_n < 0 ? size() : std::min(idx(last_n), size());
  }

  /// The text without its newest `skip` tokens ends with `words`.
  bool ends_with(std::span<const TokenId> words, std::size_t skip = 0) const noexcept {
    if (words.size() + skip > size()) return false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if ((*this)[skip + i] != words[words.size() - 1 - i]) return false;
    }
    return true;
  }

 private:
  std::span<const TokenId> tokens_;
  std::size_t forgotten_;
  std::array<TokenId, DraftTree::kMaxNodes> drafted_;
  std::size_t n_drafted_ = 0;
};

}  // namespace foredraft::inline v0
