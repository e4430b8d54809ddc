#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How p is made from the target's logits. The transforms apply in the order of the members; p is
/// what is left, renormalised. Every acceptance rule uses this p and nothing else.
struct SamplingOptions {
  float temperature = 0.0f;  ///< 0: always the best token
  int top_k = 0;             ///< keep the k most probable tokens; 0: all
  float top_p = 1.0f;        ///< keep the fewest tokens whose probability reaches top_p; 1: all
  float min_p = 0.0f;  ///< keep tokens of at least min_p times the greatest probability; 0: all

  bool greedy() const noexcept { return temperature == 0.0f; }

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

/// One call of Decoder::generate. Use designated initializers.
struct Options {
  int max_tokens =
      256;           ///< tokens that this call may make final; negative: until the context is full
  int n_draft = 16;  ///< greatest depth of a draft; 0: plain decoding
  float temperature = 0.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< keeps equal seeds apart, e.g. several answers to one prompt

  /// Tokens that end the text. Empty: those of the target's vocabulary, where it has one.
  std::vector<TokenId> end_tokens = {};
  bool ignore_end = false;  ///< go on after an end token
  /// The text ends where one of these strings appears in it; the string itself is not part of the
  /// text.
  std::vector<std::string> stop = {};
  /// Bytes of a token. Empty: the target's own, where it has a vocabulary.
  std::function<std::string(TokenId)> piece = {};

  /// Polled between the steps of a round; true ends the call with everything final kept.
  std::function<bool()> cancelled = {};
  int prefill_block = 512;  ///< prompt tokens per forward pass

  SamplingOptions sampling() const noexcept { return {temperature, top_k, top_p, min_p}; }
};

/// @errors kInvalidOption for a value out of range, or one that could have no effect
inline void check(const Options& options) {
  const auto refuse = [](const std::string& found, const char* expected, const char* hint) {
    throw Error(ErrorCode::kInvalidOption, found, expected, hint);
  };
  if (!(options.temperature >= 0.0f) || std::isinf(options.temperature)) {
    refuse("temperature " + std::to_string(options.temperature), "a finite value >= 0",
           "0 picks the best token, 1 leaves the model's law as it is");
  }
  if (options.top_k < 0) {
    refuse("top_k " + std::to_string(options.top_k), "0 (all tokens) or more", "");
  }
  if (!(options.top_p > 0.0f && options.top_p <= 1.0f)) {
    refuse("top_p " + std::to_string(options.top_p), "a value in (0, 1]", "1 keeps all tokens");
  }
  if (!(options.min_p >= 0.0f && options.min_p <= 1.0f)) {
    refuse("min_p " + std::to_string(options.min_p), "a value in [0, 1]", "0 keeps all tokens");
  }
  const SamplingOptions unset;
  if (options.temperature == 0.0f &&
      (options.top_k != unset.top_k || options.top_p != unset.top_p ||
       options.min_p != unset.min_p)) {
    refuse("top_k, top_p or min_p at temperature 0", "a temperature above 0",
           "at temperature 0 the best token always wins, so these would have no effect");
  }
  if (options.n_draft < 0) {
    refuse("n_draft " + std::to_string(options.n_draft), "0 (plain decoding) or more", "");
  }
  if (options.prefill_block < 1) {
    refuse("prefill_block " + std::to_string(options.prefill_block), "1 or more", "");
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) refuse("an empty stop string", "at least one byte", "leave it out");
  }
}

}  // namespace foredraft::inline v0
