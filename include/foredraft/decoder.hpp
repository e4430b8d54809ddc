#pragma once

#include <algorithm>
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
    const int reused = begin(prompt);
    return run(call, static_cast<int>(prompt.size()), reused, emit);
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
    return run(call, 0, 0, emit);
  }
  Result resume(const Options& options = {}) {
    return resume(options, [](const Emitted&) {});
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
    for (const TokenId token : prompt) {
      if (token >= 0 && token < sequence_.target.vocab_size()) continue;
      throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token) + " in the prompt",
                  "a token below " + std::to_string(sequence_.target.vocab_size()),
                  "the prompt was made with another tokenizer");
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
    if (options.ignore_end) call.is_end = [](TokenId) { return false; };
    if (!options.stop.empty() && !call.piece) {
      throw Error(ErrorCode::kInvalidOption, "stop strings for a target without a vocabulary",
                  "Options::piece, the bytes of a token",
                  "stop at tokens instead: Options::end_tokens");
    }
    return call;
  }

  bool uses_law() const noexcept {
    if constexpr (requires { sequence_.acceptance.uses_law_now(); }) {
      return sequence_.acceptance.uses_law_now();
    } else {
      return A::uses_law;
    }
  }

  /// Make `prompt` the final tokens. Returns how many of its positions the cache still holds.
  int begin(std::span<const TokenId> prompt) {
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
    sequence_.tokens.assign(prompt.begin(), prompt.end());
    sequence_.text = {};
    sequence_.undelivered.clear();
    sequence_.delivered = 0;
    sequence_.unreported.reset();
    sequence_.cold = true;
    return common;
  }

  template <typename Emit>
  Result run(const Call& call, int prompt_tokens, int reused, Emit& emit) {
    // Commits allocate nothing: the room for a full context is there before the first of them.
    sequence_.tokens.reserve(static_cast<std::size_t>(sequence_.cache.capacity()));
    Result result;
    result.stats.prompt_tokens = prompt_tokens;
    result.stats.reused_tokens = reused;
    if (!prefill(sequence_, call, result.stats)) {
      result.finish_reason = FinishReason::kCancelled;
      return result;
    }
    const auto record = [&](const Emitted& token) {
      result.tokens.push_back(token.token);
      result.from_draft.push_back(token.from_draft);
      result.text += token.text;
      emit(token);
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
