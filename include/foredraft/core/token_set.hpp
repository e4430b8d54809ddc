#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// A set of tokens of a vocabulary, a bit for each.
class TokenSet {
 public:
  TokenSet() = default;
  explicit TokenSet(int n_vocab) : n_vocab_(n_vocab), words_((idx(n_vocab) + 63) / 64) {}

  int vocab_size() const noexcept { return n_vocab_; }
  /// False for a token that the vocabulary does not have.
  bool contains(TokenId token) const noexcept {
    if (token < 0 || token >= n_vocab_) return false;
    return (words_[idx(token) / 64] >> (idx(token) % 64) & 1) != 0;
  }
  /// `token` has to be one of the vocabulary.
  void add(TokenId token) noexcept {
    words_[idx(token) / 64] |= std::uint64_t{1} << (idx(token) % 64);
  }
  /// All of another set, of the same vocabulary.
  void add(const TokenSet& others) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= others.words_[i];
  }
  void remove(TokenId token) noexcept {
    words_[idx(token) / 64] &= ~(std::uint64_t{1} << (idx(token) % 64));
  }
  void add_all() noexcept {
    std::fill(words_.begin(), words_.end(), ~std::uint64_t{0});
    if (n_vocab_ % 64 != 0) words_.back() = (std::uint64_t{1} << (n_vocab_ % 64)) - 1;
  }

  int size() const noexcept {
    int n = 0;
    for (const std::uint64_t word : words_) n += std::popcount(word);
    return n;
  }
  bool empty() const noexcept {
    return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
  }
  std::size_t bytes() const noexcept { return words_.size() * sizeof(std::uint64_t); }

  /// f(token) for each, ascending. @cost O(n_vocab / 64 + size)
  template <typename F>
  void for_each(F&& f) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
        f(static_cast<TokenId>(i * 64 + idx(std::countr_zero(word))));
      }
    }
  }

  friend bool operator==(const TokenSet&, const TokenSet&) = default;

 private:
  int n_vocab_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace foredraft::inline v0
