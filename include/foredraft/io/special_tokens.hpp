#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/types.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// Finds tokens that are cut out of a text before it is split: user-defined ones always, control
/// tokens and the like on request. Leftmost first, of those at one place the longest.
class SpecialTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id = 0;
  };

  /// `names`: also control tokens and the unknown token.
  SpecialTokens(const Vocabulary& vocabulary, bool names) {
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const TokenKind kind = vocabulary.kind(id);
      const bool name = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
      if (kind != TokenKind::kUserDefined && !(names && name)) continue;
      const std::string_view text = vocabulary.text(id);
      if (text.empty()) continue;
      sorted_.push_back(id);
      begins_[static_cast<unsigned char>(text[0])] = true;
    }
    std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) {
      return std::pair(vocabulary.text(a), b) < std::pair(vocabulary.text(b), a);
    });
  }

  /// The first such token that begins at `from` or later. `vocabulary` is that of the constructor.
  /// @cost O(bytes); at bytes that begin a token, times its length and log of their number
  std::optional<Found> find(const Vocabulary& vocabulary, std::string_view text,
                            std::size_t from) const {
    if (sorted_.empty()) return std::nullopt;
    for (std::size_t begin = from; begin < text.size(); ++begin) {
      if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
      const Found found = longest_at(vocabulary, text, begin);
      if (found.length > 0) return found;
    }
    return std::nullopt;
  }

 private:
  /// Narrows the sorted tokens to those that agree with one more byte, until none is left.
  Found longest_at(const Vocabulary& vocabulary, std::string_view text, std::size_t begin) const {
    Found found{begin, 0, 0};
    auto low = sorted_.begin(), high = sorted_.end();
    for (std::size_t depth = 0; begin + depth < text.size(); ++depth) {
      const int wanted = static_cast<unsigned char>(text[begin + depth]);
      const auto byte = [&](TokenId id) {
        const std::string_view token = vocabulary.text(id);
        return depth < token.size() ? static_cast<int>(static_cast<unsigned char>(token[depth]))
                                    : -1;
      };
      low = std::partition_point(low, high, [&](TokenId id) { return byte(id) < wanted; });
      high = std::partition_point(low, high, [&](TokenId id) { return byte(id) == wanted; });
      if (low == high) break;
      // The shortest that agree come first. Of equal texts the highest id is taken.
      if (vocabulary.text(*low).size() == depth + 1) found = {begin, depth + 1, *low};
    }
    return found;
  }

  std::vector<TokenId> sorted_;     // by text, then highest id first
  std::array<bool, 256> begins_{};  // bytes with which one begins
};

}  // namespace foredraft::inline v0
