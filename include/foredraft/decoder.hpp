#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/drafter/chain.hpp>
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
  static_assert(StagesDraftsOf<C, D>,
                "this cache stages chains only, and this drafter may propose trees: use a drafter "
                "of chains, such as PromptLookup or ModelDrafter");

 public:
  /// The state between two calls: all that a later call can see.
  using Snapshot = typename Sequence<T, C, D, A>::Snapshot;

  /// @errors kVocabularyMismatch where the drafter's model reads other tokens than the target
  Decoder(T& target, C cache, D drafter, A acceptance)
      : sequence_(target, std::move(cache), std::move(drafter), std::move(acceptance)) {}

  /// Begin with `prompt` and generate. What the prompt shares with the tokens so far is not
  /// computed again, where cache and drafter can go back to it.
  /// @param emit called as emit(const Emitted&) for each token once it is final
  /// @errors kEmptyPrompt, kContextOverflow, kTokenOutOfRange, kInvalidOption, and what the
  /// policies or emit throw
  template <typename Emit>
  Result generate(std::span<const TokenId> prompt, const Options& options, Emit&& emit) {
    return run(begin(prompt, options), emit);
  }
  Result generate(std::span<const TokenId> prompt, const Options& options = {}) {
    return generate(prompt, options, [](const Emitted&) {});
  }

  /// Go on where the last call ended. Tokens that a throwing emit left behind are delivered first.
  /// @errors kEmptyPrompt where there is nothing to go on from; else as generate
  template <typename Emit>
  Result resume(const Options& options, Emit&& emit) {
    return run(go_on(options), emit);
  }
  Result resume(const Options& options = {}) {
    return resume(options, [](const Emitted&) {});
  }

  /// Begin with `prompt` and read it, but generate nothing: resume() then gives the text that
  /// generate() would have given. With a fixed n_draft above 0 the drafter reads all of it, too. Else it
  /// reads what it taps of the target alone, and the rounds that follow decide whether more pays. The
  /// result has no tokens; it says what was read, and whether that was cancelled.
  /// @errors as generate
  Result prefill(std::span<const TokenId> prompt, const Options& options = {}) {
    const auto call = begin(prompt, options);
    Result result;
    if (!foredraft::prefill(sequence_, call)) {
      result.finish_reason = FinishReason::kCancelled;
    } else if (options.n_draft > 0) {
      const Stopwatch watch(call->stats.seconds.draft);
      sequence_.catch_up(*call);
    }
    result.stats = call->stats;
    return result;
  }

  /// The first half of generate(), for whoever takes the turns of this decoder's sequence: a Batch, or a
  /// loop of one's own. `prompt` is the text now, and what the call leaves open is resolved.
  /// @errors as generate
  std::shared_ptr<Call> begin(std::span<const TokenId> prompt, const Options& options) {
    sequence_.check_prompt(prompt);
    auto call = resolve(options);
    call->stats.reused_tokens = sequence_.begin(prompt);
    call->stats.prompt_tokens = static_cast<std::int64_t>(sequence_.tokens().size());
    return call;
  }
  /// Likewise that of resume(). @errors as resume
  std::shared_ptr<Call> go_on(const Options& options) {
    if (sequence_.tokens().empty()) sequence_.check_prompt({});
    return resolve(options);
  }
  /// What turns are made of.
  Sequence<T, C, D, A>& sequence() noexcept { return sequence_; }

  /// The state as it is, to come back to any number of times: many answers to one prompt, or
  /// several ways to go on from the middle of a text.
  /// @cost a copy of what cache and drafter hold, but for rows that an earlier snapshot has
  Snapshot snapshot() const { return sequence_.snapshot(); }

  /// Go back to a snapshot of this decoder, or of one with the same models and policies. Where a
  /// part throws, the decoder is left without tokens, as when it was made.
  /// @errors kContextOverflow where the snapshot holds more than this decoder's context;
  /// kTokenOutOfRange, kInvalidOption where it is that of another model
  void restore(const Snapshot& snapshot) { sequence_.restore(snapshot); }

  /// All final tokens, the prompt included.
  std::span<const TokenId> tokens() const noexcept { return sequence_.tokens(); }
  const C& cache() const noexcept { return sequence_.cache(); }
  /// The drafter as it was given, without the controller that it was given to.
  auto& drafter() noexcept { return detail::without_controller(sequence_.drafter()); }

  /// The drafter with its controller: learned() says what it knows between two texts, which another
  /// decoder may learn_from().
  D& controlled() noexcept
    requires D::controls
  {
    return sequence_.drafter();
  }
  const D& controlled() const noexcept
    requires D::controls
  {
    return sequence_.drafter();
  }

  /// Draw from another source than Philox; null: Philox again. It has to outlive the decoder.
  void use_rng(Rng* rng) noexcept { rng_ = rng; }

 private:
  std::shared_ptr<Call> resolve(const Options& options) const {
    return std::make_shared<Call>(options, sequence_.target(), sequence_.acceptance(), rng_);
  }

  template <typename Emit>
  Result run(const std::shared_ptr<Call>& call, Emit& emit) {
    Result result;
    result.finish_reason = FinishReason::kCancelled;
    if (foredraft::prefill(sequence_, call)) {
      const auto record = [&](const Emitted& token) {
        emit(token);  // first: what throws below must not take a token away from it
        result.add(token, call->options().logprobs >= 0);
      };
      result.finish_reason = foredraft::generate(sequence_, call, record);
    }
    result.stats = call->stats;
    result.speculation = sequence_.drafter().summary();
    return result;
  }

  Sequence<T, C, D, A> sequence_;
  Rng* rng_ = nullptr;
};

/// A drafter that does not choose by itself how much to draft is given a controller that does. The guide is
/// constrained as the class is, else the constructor would be the better match, and no controller given.
template <typename T, Cache C, Drafter D, Acceptance A>
  requires Target<T, C>
Decoder(T&, C, D, A) -> Decoder<T, C, std::conditional_t<D::controls, D, Controlled<D>>, A>;

/// The four policies spelled out for the models of this library.
template <typename B, typename C, typename D, typename A>
using DecoderFor = Decoder<Model<B>, C, D, A>;

}  // namespace foredraft::inline v0
