#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/token_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/token_set.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// The bytes of all tokens of a vocabulary, for walks over those that a grammar allows.
///
/// Most tokens of a vocabulary are plain: whole characters, none of which means anything inside a
/// string of JSON. Where a grammar takes any of these characters alike, plain tokens are allowed by
/// their length, and need no walk.
class PieceTrie {
 public:
  /// Characters of a plain token. Longer ones are few.
  static constexpr int kMostPlain = 24;

  /// @param piece  bytes of a token; tokens without any are allowed nowhere (control_bytes() gives
  /// some to control tokens)
  /// @cost O(bytes of all tokens), once a vocabulary
  PieceTrie(int n_vocab, const std::function<std::string(TokenId)>& piece) : n_vocab_(n_vocab) {
    begin_of_.reserve(idx(n_vocab) + 1);
    std::vector<TokenId> all, others;
    plain_.assign(kMostPlain + 1, TokenSet(n_vocab));
    for (TokenId token = 0; token < n_vocab; ++token) {
      begin_of_.push_back(bytes_.size());
      bytes_ += piece(token);
      const std::string_view added = std::string_view(bytes_).substr(begin_of_.back());
      if (added.empty()) continue;
      all.push_back(token);
      const int characters = plain_characters(added);
      if (characters == 0) others.push_back(token);
      for (int n = std::max(characters, 1); characters != 0 && n <= kMostPlain; ++n) {
        plain_[idx(n)].add(token);
      }
    }
    begin_of_.push_back(bytes_.size());
    const auto bytes_of = [this](TokenId token) { return bytes(token); };
    all_ = TokenTree(std::move(all), bytes_of);
    others_ = TokenTree(std::move(others), bytes_of);
  }

  int vocab_size() const noexcept { return n_vocab_; }
  /// Of a token of the vocabulary.
  std::string_view bytes(TokenId token) const noexcept {
    const std::size_t begin = begin_of_[idx(token)];
    return std::string_view(bytes_).substr(begin, begin_of_[idx(token) + 1] - begin);
  }

  /// All tokens.
  const TokenTree& all() const noexcept { return all_; }
  /// Plain tokens of at most so many characters.
  const TokenSet& plain(int characters) const noexcept { return plain_[idx(characters)]; }
  /// Tokens that are not plain.
  const TokenTree& others() const noexcept { return others_; }

  /// Longest tokens that spell the beginning of `text`, one behind the other, at most `most` of them.
  std::vector<TokenId> spell(std::string_view text, int most) const {
    std::vector<TokenId> tokens;
    while (!text.empty() && tokens.size() < idx(most)) {
      const TokenId token = all_.longest(text);
      if (token < 0) break;
      tokens.push_back(token);
      text.remove_prefix(bytes(token).size());
    }
    return tokens;
  }

 private:
  /// Of a plain token; 0 for another one.
  static int plain_characters(std::string_view text) noexcept {
    int n = 0;
    for (; !text.empty(); ++n) {
      const std::size_t length = valid_utf8_character(text);
      const auto byte = static_cast<unsigned char>(text[0]);
      if (length == 0 || byte < 0x20 || byte == '"' || byte == '\\' || n == kMostPlain) return 0;
      text.remove_prefix(length);
    }
    return n;
  }

  int n_vocab_;
  std::string bytes_;                  // of all tokens
  std::vector<std::size_t> begin_of_;  // [n_vocab + 1]
  TokenTree all_, others_;
  std::vector<TokenSet> plain_;  // [kMostPlain + 1]
};

}  // namespace foredraft::inline v0
