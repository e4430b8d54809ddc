#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/generate.hpp>

namespace foredraft::inline v0 {

template <typename B>
class Model;

/// One sequence of tokens and the policies that extend it.
///
/// `T` the target, `C` its cache, `D` the drafter, `A` the acceptance rule. The target is referred
/// to and has to outlive the decoder; the rest is owned. One decoder is used from one thread at a
/// time.
///
/// Whatever ends a call (an end token, a limit, a cancel, an exception of any part, emit included),
/// the decoder stays usable: resume() goes on as if nothing had happened.
template <typename T, Cache C, Drafter D, Acceptance A>
  requires Target<T, C>
class Decoder {
  static_assert(VerifiesDraftsOf<A, D>,
                "this acceptance rule verifies chains only, and this drafter may propose trees: "
                "use a rule for trees, such as Greedy or SampleAndMatch");

 public:
  /// The state between two calls: all that a later call can see.
  struct Snapshot {
    std::vector<TokenId> tokens;
    typename C::Snapshot cache;
    typename D::Snapshot drafter;
    TextStream text;
    std::vector<Emitted> undelivered;
    std::optional<FinishReason> unreported;
    bool cold = true;
  };

  /// @errors kVocabularyMismatch where the drafter's model reads other tokens than the target
  Decoder(T& target, C cache, D drafter, A acceptance)
      : sequence_(target, std::move(cache), std::move(drafter), std::move(acceptance)) {
    if constexpr (requires { sequence_.drafter.check_target(target); }) {
      sequence_.drafter.check_target(target);
    }
  }

  /// Begin with `prompt` and generate. What the prompt shares with the tokens so far is not
  /// computed again, where cache and drafter can go back to it.
  /// @param emit called as emit(const Emitted&) for each token once it is final
  /// @errors kEmptyPrompt, kContextOverflow, kTokenOutOfRange, kInvalidOption, and what the
  /// policies or emit throw
  template <typename Emit>
  Result generate(std::span<const TokenId> prompt, const Options& options, Emit&& emit) {
    check_prompt(prompt);
    const Call call = resolve(options);
    return run(call, start(prompt), emit);
  }
  Result generate(std::span<const TokenId> prompt, const Options& options = {}) {
    return generate(prompt, options, [](const Emitted&) {});
  }

  /// Go on where the last call ended. Tokens that a throwing emit left behind are delivered first.
  /// @errors kEmptyPrompt where there is nothing to go on from; else as generate
  template <typename Emit>
  Result resume(const Options& options, Emit&& emit) {
    if (sequence_.tokens.empty()) check_prompt({});
    const Call call = resolve(options);
    return run(call, {}, emit);
  }
  Result resume(const Options& options = {}) {
    return resume(options, [](const Emitted&) {});
  }

  /// Begin with `prompt` and read it, the drafter too, but generate nothing: resume() then gives
  /// the text that generate() would have given. The result has no tokens; it says what was read,
  /// and whether that was cancelled.
  /// @errors as generate
  Result prefill(std::span<const TokenId> prompt, const Options& options = {}) {
    check_prompt(prompt);
    const Call call = resolve(options);
    Result result = start(prompt);
    if (!foredraft::prefill(sequence_, call, result.stats)) {
      result.finish_reason = FinishReason::kCancelled;
      return result;
    }
    const detail::Stopwatch watch(result.stats.seconds.draft);
    detail::catch_up(sequence_, call);
    return result;
  }

  /// The state as it is, to come back to any number of times: many answers to one prompt, or
  /// several ways to go on from the middle of a text.
  /// @cost a copy of what cache and drafter hold
  Snapshot snapshot() const {
    const auto& s = sequence_;
    const auto undelivered = s.undelivered.begin() + static_cast<std::ptrdiff_t>(s.delivered);
    return {s.tokens,
            s.cache.snapshot(),
            s.drafter.snapshot(),
            s.text,
            {undelivered, s.undelivered.end()},
            s.unreported,
            s.cold};
  }

  /// Go back to a snapshot of this decoder, or of one with the same models and policies. Where a
  /// part throws, the decoder is left without tokens, as when it was made.
  /// @errors kContextOverflow where the snapshot holds more than this decoder's context;
  /// kTokenOutOfRange, kInvalidOption where it is that of another model
  void restore(const Snapshot& snapshot) {
    check_tokens(snapshot.tokens);
    if (snapshot.tokens.size() > static_cast<std::size_t>(sequence_.cache.capacity())) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.tokens.size()) + " tokens",
                  "at most the " + std::to_string(sequence_.cache.capacity()) + " of the context",
                  "restore it in a decoder with a cache of the same size");
    }
    // What may throw comes first; of the large parts no second copy is made.
    std::vector<TokenId> tokens = snapshot.tokens;
    TextStream text = snapshot.text;
    std::vector<Emitted> undelivered = snapshot.undelivered;
    forget();
    sequence_.drafter.reset();  // its snapshot need not say what it knows of another text
    sequence_.cache.restore(snapshot.cache);
    if (!tokens.empty() && static_cast<std::size_t>(sequence_.cache.size()) >= tokens.size()) {
      sequence_.cache.restore(typename C::Snapshot{});
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(tokens.size()) +
                      " tokens whose cache holds as many or more",
                  "what snapshot() returned", "");
    }
    sequence_.drafter.restore(snapshot.drafter);
    sequence_.tokens = std::move(tokens);
    sequence_.text = std::move(text);
    sequence_.undelivered = std::move(undelivered);
    sequence_.unreported = snapshot.unreported;
    sequence_.cold = snapshot.cold;
  }

  /// All final tokens, the prompt included.
  std::span<const TokenId> tokens() const noexcept { return sequence_.tokens; }
  const C& cache() const noexcept { return sequence_.cache; }
  D& drafter() noexcept { return sequence_.drafter; }

  /// Draw from another source than Philox; null: Philox again. It has to outlive the decoder.
  void use_rng(Rng* rng) noexcept { rng_ = rng; }

 private:
  using Call = detail::Call;

  void check_prompt(std::span<const TokenId> prompt) const {
    if (prompt.empty()) {
      throw Error(ErrorCode::kEmptyPrompt, "a prompt without tokens", "at least one token",
                  "begin with the model's BOS token to generate from nothing");
    }
    if (prompt.size() >= static_cast<std::size_t>(sequence_.cache.capacity())) {
      throw Error(
          ErrorCode::kContextOverflow, "a prompt of " + std::to_string(prompt.size()) + " tokens",
          "fewer than the " + std::to_string(sequence_.cache.capacity()) + " of the context",
          "shorten the prompt or make the cache larger");
    }
    check_tokens(prompt);
  }

  void check_tokens(std::span<const TokenId> tokens) const {
    for (const TokenId token : tokens) {
      if (token >= 0 && token < sequence_.target.vocab_size()) continue;
      throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                  "a token below " + std::to_string(sequence_.target.vocab_size()),
                  "was it made with another tokenizer?");
    }
  }

  /// Fill in what the options leave to the target and the acceptance rule.
  Call resolve(const Options& options) {
    check(options);
    Call call{options,    rng_, sequence_.acceptance.needs(options.sampling()),
              uses_law(), {},   options.piece};
    if (call.rng == nullptr) {
      philox_ = Philox(options.seed, options.sequence);
      call.rng = &philox_;
    }
    if constexpr (TextTarget<T>) {
      const T& target = sequence_.target;
      if (!call.piece)
        call.piece = [&target](TokenId token) { return std::string(target.piece(token)); };
      if (options.end_tokens.empty())
        call.is_end = [&target](TokenId token) { return target.is_end(token); };
    }
    if (!call.is_end) {
      call.is_end = [&options](TokenId token) {
        return std::find(options.end_tokens.begin(), options.end_tokens.end(), token) !=
               options.end_tokens.end();
      };
    }
    if (options.logprobs >= 0) {
      check_logprobs(options.logprobs);
      call.need = std::max(call.need, RowNeed::kLogits);
    }
    if (options.ignore_end) call.is_end = [](TokenId) { return false; };
    if (!options.stop.empty() && !call.piece) {
      throw Error(ErrorCode::kInvalidOption, "stop strings for a target without a vocabulary",
                  "Options::piece, the bytes of a token",
                  "stop at tokens instead: Options::end_tokens");
    }
    return call;
  }

  void check_logprobs(int count) const {
    if (count <= sequence_.target.vocab_size()) return;
    throw Error(
        ErrorCode::kInvalidOption, "logprobs " + std::to_string(count),
        "at most the " + std::to_string(sequence_.target.vocab_size()) + " tokens there are",
        "ask for fewer");
  }

  bool uses_law() const noexcept {
    if constexpr (requires { sequence_.acceptance.uses_law_now(); }) {
      return sequence_.acceptance.uses_law_now();
    } else {
      return A::uses_law;
    }
  }

  /// Drop all tokens, and nothing of what cache and drafter hold of them.
  void forget() noexcept {
    sequence_.tokens.clear();
    sequence_.text = {};
    sequence_.undelivered.clear();
    sequence_.delivered = 0;
    sequence_.unreported.reset();
    sequence_.cold = true;
  }

  /// Make `prompt` the final tokens. Returns a result that says how many of its positions the cache
  /// still holds.
  Result start(std::span<const TokenId> prompt) {
    std::vector<TokenId> tokens(prompt.begin(), prompt.end());  // it may be part of tokens()
    const std::span<const TokenId> old = sequence_.tokens;
    int common = static_cast<int>(
        std::mismatch(prompt.begin(), prompt.end(), old.begin(), old.end()).first - prompt.begin());
    common = std::min({common, static_cast<int>(prompt.size()) - 1, sequence_.cache.size()});
    if constexpr (Truncatable<C>) {
      sequence_.cache.truncate(common);
    } else {
      if (common < sequence_.cache.size()) {
        sequence_.cache.restore(typename C::Snapshot{});  // the empty state
        common = 0;
      }
    }
    sequence_.drafter.truncate(common);
    forget();
    sequence_.tokens = std::move(tokens);
    Result result;
    result.stats.prompt_tokens = static_cast<std::int64_t>(sequence_.tokens.size());
    result.stats.reused_tokens = common;
    return result;
  }

  template <typename Emit>
  Result run(const Call& call, Result result, Emit& emit) {
    // Commits allocate nothing: the room for a full context is there before the first of them.
    sequence_.tokens.reserve(static_cast<std::size_t>(sequence_.cache.capacity()));
    if (!foredraft::prefill(sequence_, call, result.stats)) {
      result.finish_reason = FinishReason::kCancelled;
      return result;
    }
    const Logprobs unknown{std::numeric_limits<float>::quiet_NaN(), {}};
    const auto record = [&](const Emitted& token) {
      emit(token);  // first: what throws below must not take a token away from it
      result.tokens.push_back(token.token);
      result.from_draft.push_back(token.from_draft);
      if (call.options.logprobs >= 0) result.logprobs.push_back(token.logprobs.value_or(unknown));
      result.text += token.text;
    };
    result.finish_reason = foredraft::generate(sequence_, call, result.stats, record);
    return result;
  }

  Sequence<T, C, D, A> sequence_;
  Philox philox_;
  Rng* rng_ = nullptr;
};

template <typename T, typename C, typename D, typename A>
Decoder(T&, C, D, A) -> Decoder<T, C, D, A>;

/// The four policies spelled out for the models of this library.
template <typename B, typename C, typename D, typename A>
using DecoderFor = Decoder<Model<B>, C, D, A>;

}  // namespace foredraft::inline v0
