#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/constraint/character_kind.hpp>
#include <foredraft/constraint/token_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/token_set.hpp>

namespace foredraft::inline v0 {

/// Tokens by the characters of one kind that they begin with. Where a grammar takes any of these
/// characters alike, what follows them is all that matters: tokens of nothing else, the plain ones,
/// are allowed by their length, and of the others only the rest of their bytes need a walk.
class PlainTokens {
 public:
  /// Characters that are counted. Longer tokens are few.
  static constexpr int kMost = 24;

  /// @cost O(bytes of all tokens) and kMost sets of tokens: some milliseconds for 152k tokens
  PlainTokens(CharacterKind kind, int n_vocab, std::span<const TokenPiece> pieces)
      : kind_(kind), up_to_(kMost + 1, TokenSet(n_vocab)) {
    std::vector<std::vector<TokenPiece>> others(kMost + 1);
    for (const auto& [bytes, token] : pieces) {
      const CharacterKind::Run run = kind.run(bytes, kMost);
      if (run.bytes == bytes.size()) {
        up_to_[idx(run.characters)].add(token);
      } else {
        others[idx(run.characters)].push_back({bytes.substr(run.bytes), token});
      }
    }
    for (std::size_t n = 1; n < up_to_.size(); ++n) up_to_[n].add(up_to_[n - 1]);
    for (const TokenSet& set : up_to_) sizes_.push_back(set.size());
    for (std::vector<TokenPiece>& some : others) others_.emplace_back(std::move(some));
  }

  const CharacterKind& kind() const noexcept { return kind_; }
  /// Plain tokens of at most so many characters.
  const TokenSet& up_to(int characters) const noexcept { return up_to_[idx(characters)]; }
  /// How many these are.
  int size(int characters) const noexcept { return sizes_[idx(characters)]; }
  /// Tokens that begin with so many characters of the kind, by the bytes behind these.
  const TokenTree& behind(int characters) const noexcept { return others_[idx(characters)]; }

 private:
  CharacterKind kind_;
  // Each [kMost + 1].
  std::vector<TokenSet> up_to_;
  std::vector<int> sizes_;
  std::vector<TokenTree> others_;
};

}  // namespace foredraft::inline v0
