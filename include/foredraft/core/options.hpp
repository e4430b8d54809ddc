#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <foredraft/core/constraint.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

struct RoundEvent;

/// How p is made from the target's logits: first the penalties, then the transforms in the order of
/// the members; p is what is left, renormalised. Every acceptance rule uses this p and nothing
/// else.
struct SamplingOptions {
  float temperature = 0.0f;  ///< 0: always the best token
  int top_k = 0;             ///< keep the k most probable tokens; 0: all
  float top_p = 1.0f;        ///< keep the fewest tokens whose probability reaches top_p; 1: all
  float min_p = 0.0f;  ///< keep tokens of at least min_p times the greatest probability; 0: all

  /// Penalties on tokens that occurred. The text they look at is the prompt, what was emitted and,
  /// for the row of a drafted token, the draft up to that token.
  float repeat_penalty = 1.0f;     ///< divides logits above 0 and multiplies those below; 1: none
  float presence_penalty = 0.0f;   ///< taken off the logit of a token that occurred
  float frequency_penalty = 0.0f;  ///< taken off once for each time it occurred
  int penalty_last_n = 64;         ///< tokens that penalties look back on; -1: all

  bool greedy() const noexcept { return temperature == 0.0f; }
  /// Some tokens are left out of p.
  bool cuts() const noexcept { return top_k > 0 || top_p < 1.0f || min_p > 0.0f; }
  bool penalises() const noexcept {
    return repeat_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  /// The best token of a row is all that p depends on, so nobody has to read the whole row.
  bool argmax_suffices() const noexcept { return greedy() && !penalises(); }

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

/// One call of Decoder::generate, which copies them. Use designated initializers.
struct Options {
  static constexpr int kAutomatic = -1;

  int max_tokens =
      256;  ///< tokens that this call may make final; negative: until the context is full
  /// Greatest depth of a draft; 0: plain decoding. kAutomatic: as deep as pays, where the drafter
  /// chooses that by itself, as any does that a Decoder is made with.
  int n_draft = kAutomatic;
  SamplingOptions sampling = {};
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< keeps equal seeds apart, e.g. several answers to one prompt

  /// Tokens that end the text. Empty: those of the target's vocabulary, where it has one.
  std::vector<TokenId> end_tokens = {};
  bool ignore_end = false;  ///< go on after an end token; not together with end_tokens
  /// The text ends where one of these strings appears in it; the string itself is not part of the
  /// text.
  std::vector<std::string> stop = {};
  /// Bytes of a token. Empty: the target's own, where it has a vocabulary.
  std::function<std::string(TokenId)> piece = {};

  /// What the answer may be. Forbidden tokens are taken out of a row before any transform, end tokens
  /// too where the constraint may not end. A later call with the same constraint goes on in it.
  /// Empty: no constraint, which costs nothing.
  AnyConstraint constraint = {};

  /// Natural log probability of every token, and of the `logprobs` most probable ones beside it,
  /// under the softmax over the whole vocabulary before any transform; at most n_vocab. -1: none.
  int logprobs = -1;

  /// Polled between the steps of a round; true ends the call with everything final kept.
  std::function<bool()> cancelled = {};
  /// Told of every round once it is final, for traces and the like; it cannot change the text. Where
  /// it throws, the round stays and the call ends with that exception. Empty: nobody watches, which
  /// costs nothing.
  std::function<void(const RoundEvent&)> observer = {};
  int prefill_block = 512;  ///< prompt tokens per forward pass
};

namespace detail {
[[noreturn]] inline void refuse(const std::string& found, const char* expected, const char* hint) {
  throw Error(ErrorCode::kInvalidOption, found, expected, hint);
}
}  // namespace detail

/// @errors kInvalidOption for a value out of range, or one that could have no effect
inline void check(const SamplingOptions& options) {
  using detail::refuse;
  if (!(options.temperature >= 0.0f) || std::isinf(options.temperature)) {
    refuse("temperature " + std::to_string(options.temperature), "a finite value >= 0",
           "0 picks the best token, 1 leaves the model's law as it is");
  }
  if (options.top_k < 0) {
    refuse("top_k " + std::to_string(options.top_k), "0 (all tokens) or more",
           "40 is a usual value");
  }
  if (!(options.top_p > 0.0f && options.top_p <= 1.0f)) {
    refuse("top_p " + std::to_string(options.top_p), "a value in (0, 1]", "1 keeps all tokens");
  }
  if (!(options.min_p >= 0.0f && options.min_p <= 1.0f)) {
    refuse("min_p " + std::to_string(options.min_p), "a value in [0, 1]", "0 keeps all tokens");
  }
  // Within these, no penalised logit leaves the range of a float.
  constexpr float kMostPenalty = 1000.0f;
  if (!(options.repeat_penalty >= 1 / kMostPenalty && options.repeat_penalty <= kMostPenalty)) {
    refuse("repeat_penalty " + std::to_string(options.repeat_penalty), "a value from 0.001 to 1000",
           "1 penalises nothing");
  }
  for (const float penalty : {options.presence_penalty, options.frequency_penalty}) {
    if (std::abs(penalty) <= kMostPenalty) continue;  // false for NaN
    refuse("a presence or frequency penalty of " + std::to_string(penalty),
           "values from -1000 to 1000", "0 penalises nothing");
  }
  if (options.penalty_last_n < -1) {
    refuse("penalty_last_n " + std::to_string(options.penalty_last_n),
           "-1 (all tokens), or how many of the newest tokens count", "64 is a usual value");
  }
  const SamplingOptions unset;
  if (options.penalises()
          ? options.penalty_last_n == 0
          : options.penalty_last_n != 0 && options.penalty_last_n != unset.penalty_last_n) {
    refuse("penalty_last_n " + std::to_string(options.penalty_last_n) +
               (options.penalty_last_n == 0 ? " with penalties" : " without a penalty"),
           "a penalty and tokens to look back on", "one without the other has no effect");
  }
  if (options.temperature == 0.0f &&
      (options.top_k != unset.top_k || options.top_p != unset.top_p ||
       options.min_p != unset.min_p)) {
    refuse("top_k, top_p or min_p at temperature 0", "a temperature above 0",
           "at temperature 0 the best token always wins, so these would have no effect");
  }
}

/// @errors kInvalidOption for a value out of range, or one that could have no effect
inline void check(const Options& options) {
  using detail::refuse;
  check(options.sampling);
  if (options.n_draft < Options::kAutomatic) {
    refuse("n_draft " + std::to_string(options.n_draft),
           "-1 (as deep as pays), 0 (plain decoding) or more", "leave it out");
  }
  if (options.logprobs < -1) {
    refuse("logprobs " + std::to_string(options.logprobs), "-1 (none), 0 (the token alone) or more",
           "more asks for so many of the most probable tokens");
  }
  if (options.prefill_block < 1) {
    refuse("prefill_block " + std::to_string(options.prefill_block), "1 or more",
           "512 is a usual value");
  }
  if (options.ignore_end && !options.end_tokens.empty()) {
    refuse("end_tokens with ignore_end", "one of them", "the text goes on after an end token");
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) refuse("an empty stop string", "at least one byte", "leave it out");
  }
}

}  // namespace foredraft::inline v0
