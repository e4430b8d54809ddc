#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// Whether a trimmed head keeps a token whatever its count: control and end tokens, of which no
/// text has many though every text has some, and text that the tokenizer never splits.
inline bool always_in_head(const Vocabulary& vocabulary, TokenId id) {
  const TokenKind kind = vocabulary.kind(id);
  return kind == TokenKind::kControl || kind == TokenKind::kUserDefined || vocabulary.is_end(id);
}

/// The `n` tokens of a vocabulary that a trimmed head keeps: those that always stay, then by
/// descending count, then in the order of the tokenizer. That order is single bytes first, then by
/// id: a tokenizer is trained by merging the most frequent pair first, so lower ids are the more
/// frequent pieces.
/// @shape counts [<= n_vocab], by id, the rest 0; result ascending, [n]
/// @errors kInvalidOption where n is below what always stays and one more, or leaves nothing out;
///   kTokenOutOfRange for a count beyond the vocabulary
/// @cost O(n_vocab log n_vocab)
/// @source trimming by frequency: Zhao et al. 2025, arXiv:2502.14856
inline std::vector<TokenId> most_frequent_tokens(const Vocabulary& vocabulary, int n,
                                                 std::span<const std::int64_t> counts = {}) {
  const std::size_t n_vocab = vocabulary.size();
  if (counts.size() > n_vocab) {
    throw Error(
        ErrorCode::kTokenOutOfRange, "a count for token " + std::to_string(counts.size() - 1),
        "a token below " + std::to_string(n_vocab), "were the counts made with another tokenizer?");
  }
  struct Place {
    int rank;  // 0: always kept; 1: text; 2: the rest, such as padding
    bool longer_than_a_byte;
    std::int64_t count;
    TokenId id;
  };
  std::vector<Place> places;
  places.reserve(n_vocab);
  int least = 1;
  for (std::size_t i = 0; i < n_vocab; ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool stays = always_in_head(vocabulary, id);
    least += stays;
    places.push_back({stays                    ? 0
                      : vocabulary.is_text(id) ? 1
                                               : 2,
                      vocabulary.piece(id).size() != 1, i < counts.size() ? counts[i] : 0, id});
  }
  if (n < least || idx(n) >= n_vocab) {
    throw Error(ErrorCode::kInvalidOption, "a head of " + std::to_string(n) + " tokens",
                std::to_string(least) + " to " + std::to_string(n_vocab - 1),
                n < least ? "control, user-defined and end tokens always stay"
                          : "leave it out to keep the whole vocabulary");
  }
  const auto before = [](const Place& a, const Place& b) {
    return std::tuple(a.rank, b.count, a.longer_than_a_byte, a.id) <
           std::tuple(b.rank, a.count, b.longer_than_a_byte, b.id);  // the greatest count first
  };
  const auto end = places.begin() + n;
  std::nth_element(places.begin(), end, places.end(), before);
  std::vector<TokenId> kept;
  kept.reserve(idx(n));
  for (auto place = places.begin(); place != end; ++place) kept.push_back(place->id);
  std::sort(kept.begin(), kept.end());
  return kept;
}

/// Move the logits of a trimmed head to the places of their tokens, all others to -inf.
/// @shape kept [n], ascending; row [n_vocab], of which the first n are those logits
/// @cost O(n_vocab), in place
inline void spread_logits(std::span<const TokenId> kept, std::span<float> row) noexcept {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  // From the end: a token's place is never before its row, so nothing is overwritten unread.
  std::size_t end = row.size();
  for (std::size_t i = kept.size(); i-- > 0;) {
    const auto place = idx(kept[i]);
    const float logit = row[i];
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(place) + 1,
              row.begin() + static_cast<std::ptrdiff_t>(end), kImpossible);
    row[place] = logit;
    end = place;
  }
  std::fill(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(end), kImpossible);
}

}  // namespace foredraft::inline v0
