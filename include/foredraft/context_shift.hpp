#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>

namespace foredraft::inline v0 {

/// What to do with a context that is full: forget the middle and go on.
///
/// The first `keep` tokens stay, and of the others the newest half of the room. The text that goes on
/// is that of the model behind these tokens alone: another one than with a longer context.
struct ContextShift {
  /// The first tokens carry attention that belongs to no token in particular; without them text
  /// falls apart. @source Xiao et al. 2023, arXiv:2309.17453
  int keep = 4;
};

/// The tokens that stay of a text that is longer than fits, or has just filled the context.
/// @param capacity  of the cache
/// @errors kInvalidOption where what is kept leaves no room to forget anything
inline std::vector<TokenId> shifted(std::span<const TokenId> tokens, int capacity,
                                    ContextShift shift) {
  const int newest = (capacity - shift.keep) / 2;
  if (shift.keep < 0 || newest < 1) {
    throw Error(
        ErrorCode::kInvalidOption, "a shift that keeps " + std::to_string(shift.keep) + " tokens",
        "0 to " + std::to_string(capacity - 2) + " in a context of " + std::to_string(capacity),
        "keep fewer, or make the cache larger");
  }
  const std::size_t first = std::min(tokens.size(), idx(shift.keep));
  const std::size_t last = std::min(tokens.size() - first, idx(newest));
  std::vector<TokenId> kept(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
  kept.insert(kept.end(), tokens.end() - static_cast<std::ptrdiff_t>(last), tokens.end());
  return kept;
}

/// As decoder.generate(prompt, options, emit), but a context that is full is shifted, and a prompt
/// that does not fit as well.
///
/// A shift happens when the final tokens fill the cache to its last position, whatever was drafted:
/// so speculative text equals plain text here, too. The kept tokens are read again, since keys and
/// values hold what came before them: about half a context is read each time half a context was
/// written. Log probabilities, penalties and drafters see the kept tokens as the text.
/// @tparam D  a Decoder
/// @return all of it as one: statistics count what was read again as tokens of the prompt
/// @errors kInvalidOption as shifted(), and what generate() throws
template <typename D, typename Emit>
Result generate_shifting(D& decoder, std::span<const TokenId> prompt, Options options,
                         ContextShift shift, Emit&& emit) {
  const int capacity = decoder.cache().capacity();
  std::vector<TokenId> tokens = shifted(prompt, capacity, shift);
  if (prompt.size() < idx(capacity)) tokens.assign(prompt.begin(), prompt.end());
  const int most = options.max_tokens;
  Result all = decoder.generate(tokens, options, emit);
  while (all.finish_reason == FinishReason::kContext) {
    tokens = shifted(decoder.tokens(), capacity, shift);
    if (most >= 0) options.max_tokens = most - static_cast<int>(all.stats.emitted);
    ++options.sequence;  // positions come again, and random numbers belong to positions
    Result more = decoder.generate(tokens, options, emit);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(all.tokens, more.tokens);
    append(all.from_draft, more.from_draft);
    append(all.logprobs, more.logprobs);
    all.text += more.text;
    all.finish_reason = more.finish_reason;
    all.stats += more.stats;
    all.speculation = std::move(more.speculation);
  }
  return all;
}

}  // namespace foredraft::inline v0
