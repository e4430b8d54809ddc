#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/types.hpp>
#include <foredraft/core/utf8.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// A text with U+2581 for each space, and before it where `space_prefix` asks for one.
inline std::string with_space_marks(std::string_view text, bool space_prefix) {
  std::string with_marks(space_prefix ? kSpaceMark : std::string_view());
  for (const char c : text) c == ' ' ? with_marks.append(kSpaceMark) : with_marks.append(1, c);
  return with_marks;
}

/// Pair merges in the way of SentencePiece: a text begins as its characters, and as long as any two
/// neighbours spell a token together, the one of highest score (of equal ones the leftmost) is
/// formed. Spaces are written U+2581, so words are not cut beforehand. A character without a token
/// becomes its bytes, and a byte without a token the unknown token.
///
/// Bytes that are not UTF-8 are encoded as bytes. A U+2581 of the text itself comes back as a
/// space.
/// @source Kudo and Richardson 2018, arXiv:1808.06226, its model type BPE with byte fallback
class SentencePieceEncoder {
 public:
  /// Appends the tokens of a text of less than 1 GiB. `space_prefix` puts one space before it.
  /// @cost O(n log n) in its bytes
  static void encode(const Vocabulary& vocabulary, std::string_view text, bool space_prefix,
                     std::vector<TokenId>& out) {
    if (text.empty()) return;
    Work work{vocabulary, with_space_marks(text, space_prefix), {}, {}};
    work.run();
    for (std::uint32_t i = 0; i != kEnd; i = work.symbols[i].next) {
      append(vocabulary, work.text_of(work.symbols[i]), out);
    }
  }

 private:
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

  struct Symbol {
    std::uint32_t begin, length;   // length 0: merged into its left neighbour
    std::uint32_t previous, next;  // kEnd at the ends
  };

  struct Candidate {
    float score;
    std::uint32_t left, length;  // length of both parts together

    /// Order of a heap whose front is the merge to apply next.
    bool operator<(const Candidate& other) const noexcept {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  struct Work {
    const Vocabulary& vocabulary;
    std::string text;
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;

    std::string_view text_of(const Symbol& symbol) const {
      return std::string_view(text).substr(symbol.begin, symbol.length);
    }

    void run() {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t length =
            std::max<std::size_t>(1, valid_utf8_character(std::string_view(text).substr(at)));
        const auto i = static_cast<std::uint32_t>(symbols.size());
        symbols.push_back(
            {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(length), i - 1, i + 1});
        at += length;
      }
      symbols.back().next = kEnd;
      for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
      while (!candidates.empty()) {
        std::pop_heap(candidates.begin(), candidates.end());
        const Candidate best = candidates.back();
        candidates.pop_back();
        apply(best);
      }
    }

    void consider(std::uint32_t left) {
      const Symbol& first = symbols[left];
      const std::uint32_t length = first.length + symbols[first.next].length;
      if (length > vocabulary.longest_text()) return;
      const auto id = token_of(vocabulary, std::string_view(text).substr(first.begin, length));
      if (id == kNoToken) return;
      candidates.push_back({vocabulary.score(id), left, length});
      std::push_heap(candidates.begin(), candidates.end());
    }

    void apply(const Candidate& merge) {
      Symbol& left = symbols[merge.left];
      // Candidates stay in the heap when their symbols merge otherwise. Symbols only grow or
      // vanish, so the length tells.
      if (left.length == 0 || left.next == kEnd) return;
      Symbol& right = symbols[left.next];
      if (left.length + right.length != merge.length) return;
      left.length = merge.length;
      left.next = right.next;
      right.length = 0;
      if (left.next != kEnd) symbols[left.next].previous = merge.left;
      if (left.previous != kEnd) consider(left.previous);
      if (left.next != kEnd) consider(merge.left);
    }
  };

  static constexpr TokenId kNoToken = -1;

  /// The token that text can form: no control tokens, and no byte tokens by their spelling
  /// `<0x41>`.
  static TokenId token_of(const Vocabulary& vocabulary, std::string_view text) {
    const auto id = vocabulary.find(text);
    if (!id || !vocabulary.is_text(*id) || vocabulary.kind(*id) == TokenKind::kByte)
      return kNoToken;
    return *id;
  }

  static void append(const Vocabulary& vocabulary, std::string_view symbol,
                     std::vector<TokenId>& out) {
    if (const TokenId id = token_of(vocabulary, symbol); id != kNoToken) return out.push_back(id);
    for (const char c : symbol) {
      const auto byte = vocabulary.byte_token(static_cast<unsigned char>(c));
      // A vocabulary without all bytes has an unknown token.
      out.push_back(byte ? *byte : vocabulary.unknown().value());
    }
  }
};

}  // namespace foredraft::inline v0
