#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/stats.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// @units natural log of a probability under the softmax of a raw row
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// What the target's row says about the token that was emitted, before any transform and whatever
/// was drafted.
struct Logprobs {
  float logprob = 0;  ///< of the emitted token
  /// The most probable tokens, best first, ties to the lower id. Tokens of probability 0 are not
  /// among them, so there may be fewer than were asked for.
  std::vector<TokenLogprob> top = {};

  friend bool operator==(const Logprobs&, const Logprobs&) = default;
};

/// A token that has just become final.
struct Emitted {
  TokenId token = 0;
  /// Text that may be shown now. It may lag behind the token (a character or a possible stop string
  /// is not complete yet) and then comes with a later one. Empty where the pieces are not known.
  std::string text;
  bool from_draft = false;                ///< accepted from a draft, not chosen by the target row
  std::optional<Logprobs> logprobs = {};  ///< where Options::logprobs asked for them
};

enum class FinishReason : std::uint8_t {
  kEnd,        ///< an end token, which is the last of the tokens, or the end of the constraint
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
  /// @param wants_logprobs  the call asked for them
  void add(const Emitted& token, bool wants_logprobs) {
    tokens.push_back(token.token);
    from_draft.push_back(token.from_draft);
    if (wants_logprobs) {
      const Logprobs unknown{std::numeric_limits<float>::quiet_NaN(), {}};
      logprobs.push_back(token.logprobs.value_or(unknown));
    }
    text += token.text;
  }

  std::vector<TokenId> tokens;
  std::vector<bool> from_draft;  // [tokens]
  /// [tokens]; empty unless Options::logprobs asked. A token that an earlier call made final
  /// without asking, and this one delivered, has NaN.
  std::vector<Logprobs> logprobs;
  std::string text;
  FinishReason finish_reason = FinishReason::kLength;
  Stats stats;
  /// What the drafter says of itself, lines for people: which of several drafted, what was accepted,
  /// in all texts of this decoder, and why one is left out now.
  std::string speculation;
};

}  // namespace foredraft::inline v0
