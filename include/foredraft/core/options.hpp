#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <foredraft/core/constraint.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/sampling_checks.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

struct RoundEvent;

/// One call of Decoder::generate, which copies them. Use designated initializers.
struct Options {
  static constexpr int kAutomatic = -1;

  int max_tokens =
      256;  ///< tokens that this call may make final; negative: until the context is full
  /// Greatest depth of a draft; 0: plain decoding. kAutomatic: as deep as pays, where the drafter
  /// chooses that by itself, as any does that a Decoder is made with.
  int n_draft = kAutomatic;
  /// Most drafted tokens of a round on all branches together: the rows that the target verifies beside
  /// the anchor's. kAutomatic: as many as pay. At a fixed n_draft one drafter then has as many as its
  /// trees have, and several share as many as one chain of that depth has.
  int n_nodes = kAutomatic;
  SamplingOptions sampling = {};
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< keeps equal seeds apart, e.g. several answers to one prompt

  /// Tokens that end the text. Empty: those of the target's vocabulary, where it has one.
  std::vector<TokenId> end_tokens = {};
  bool ignore_end = false;  ///< go on after an end token; not together with end_tokens
  int min_tokens = 0;       ///< of this call, before which no end token is possible
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

/// @errors kInvalidOption for a value out of range, or one that could have no effect
inline void check(const Options& options) {
  using detail::refuse;
  check(options.sampling);
  if (options.n_draft < Options::kAutomatic) {
    refuse("n_draft " + std::to_string(options.n_draft),
           "-1 (as deep as pays), 0 (plain decoding) or more", "leave it out");
  }
  if (options.n_nodes != Options::kAutomatic && options.n_nodes < 1) {
    refuse("n_nodes " + std::to_string(options.n_nodes), "-1 (as many as pay) or more than 0",
           "n_draft 0 is plain decoding");
  }
  if (options.n_nodes != Options::kAutomatic && options.n_draft == 0) {
    refuse("n_nodes with n_draft 0", "a way to draft", "nothing is drafted: leave one of them out");
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
  const bool fits = options.max_tokens < 0 || options.min_tokens <= options.max_tokens;
  if (options.min_tokens < 0 || !fits) {
    refuse("min_tokens " + std::to_string(options.min_tokens), "0 or more, up to max_tokens",
           "0 lets the text end where it likes");
  }
  if (options.ignore_end && options.min_tokens > 0) {
    refuse("min_tokens with ignore_end", "one of them", "no end token ends the text anyway");
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) refuse("an empty stop string", "at least one byte", "leave it out");
  }
}

}  // namespace foredraft::inline v0
