#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/constraint/character_kind.hpp>
#include <foredraft/constraint/plain_tokens.hpp>
#include <foredraft/constraint/token_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The bytes of all tokens of a vocabulary, for walks over those that a grammar allows.
class PieceTrie {
 public:
  /// @param piece  bytes of a token; tokens without any are allowed nowhere (control_bytes() gives
  /// some to control tokens)
  /// @cost O(bytes of all tokens) and sorting them, once a vocabulary
  PieceTrie(int n_vocab, const std::function<std::string(TokenId)>& piece)
      : bytes_of_(idx(n_vocab)) {
    std::string bytes;
    std::vector<std::size_t> ends;
    for (TokenId token = 0; token < n_vocab; ++token) {
      bytes += piece(token);
      ends.push_back(bytes.size());
    }
    for (TokenId token = 0; token < n_vocab; ++token) {
      const std::size_t begin = token == 0 ? 0 : ends[idx(token) - 1];
      const auto of_token = std::string_view(bytes).substr(begin, ends[idx(token)] - begin);
      if (!of_token.empty()) pieces_.push_back({of_token, token});
    }
    std::sort(pieces_.begin(), pieces_.end());
    keep_bytes(bytes.size());
    all_ = TokenTree(pieces_);
    plain_in_json_ = std::make_unique<const PlainTokens>(plain(CharacterKind::plain_in_json()));
  }
  PieceTrie(const PieceTrie&) = delete;
  PieceTrie& operator=(const PieceTrie&) = delete;

  int vocab_size() const noexcept { return static_cast<int>(bytes_of_.size()); }
  /// Of a token of the vocabulary.
  std::string_view bytes(TokenId token) const noexcept { return bytes_of_[idx(token)]; }

  /// All tokens.
  const TokenTree& all() const noexcept { return all_; }
  /// Most tokens of a vocabulary are plain in a string of JSON.
  const PlainTokens& plain_in_json() const noexcept { return *plain_in_json_; }
  /// The tokens of another kind of characters.
  PlainTokens plain(const CharacterKind& kind) const { return {kind, vocab_size(), pieces_}; }

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
  /// In the order of the pieces, which is how they are read.
  void keep_bytes(std::size_t size) {
    bytes_.reserve(size);
    for (TokenPiece& piece : pieces_) {
      const std::size_t begin = bytes_.size();
      bytes_.insert(bytes_.end(), piece.bytes.begin(), piece.bytes.end());
      piece.bytes = {bytes_.data() + begin, piece.bytes.size()};
      bytes_of_[idx(piece.token)] = piece.bytes;
    }
  }

  std::vector<char> bytes_;                 // of all tokens, not moved any more
  std::vector<std::string_view> bytes_of_;  // [n_vocab]
  std::vector<TokenPiece> pieces_;
  TokenTree all_;
  std::unique_ptr<const PlainTokens> plain_in_json_;
};

}  // namespace foredraft::inline v0
