#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/stats.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// A token that has just become final.
struct Emitted {
  TokenId token = 0;
  /// Text that may be shown now. It may lag behind the token (a character or a possible stop string
  /// is not complete yet) and then comes with a later one. Empty where the pieces are not known.
  std::string text;
  bool from_draft = false;  ///< accepted from a draft, not chosen by the target row
};

enum class FinishReason : std::uint8_t {
  kEnd,        ///< an end token; it is the last of the tokens
  kStop,       ///< a stop string; the text ends before it
  kLength,     ///< max_tokens
  kContext,    ///< the cache is full
  kCancelled,  ///< Options::cancelled said so
};

/// Spelling of the OpenAI API where it has a word, else ours.
constexpr std::string_view name_of(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kEnd:
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kContext: return "context";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "unknown";
}

/// What one call made final.
struct Result {
  std::vector<TokenId> tokens;
  std::vector<bool> from_draft;  // [tokens]
  std::string text;
  FinishReason finish_reason = FinishReason::kLength;
  Stats stats;
};

}  // namespace foredraft::inline v0
