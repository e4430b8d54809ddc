#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <foredraft/call.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/round.hpp>
#include <foredraft/cut.hpp>
#include <foredraft/sampling/mirostat.hpp>
#include <foredraft/sampling/row_sampler.hpp>
#include <foredraft/text_stream.hpp>

namespace foredraft::inline v0 {

template <typename S>
class PromptTurn;
template <typename S>
class Turn;

/// Drops what is staged in a cache, however a scope is left.
template <Cache C>
struct DiscardAtEnd {
  C& cache;
  ~DiscardAtEnd() { cache.discard(); }
};

/// All that one sequence carries from round to round. Only final tokens ever reach it, and only
/// turns add any.
///
/// Invariant between turns: cache.size() + 1 <= tokens.size(), or both are empty. The cache never
/// holds the last final token, the anchor; it holds fewer only while the prompt is being read.
template <typename T, Cache C, Drafter D, Acceptance A>
  requires Target<T, C>
class Sequence {
 public:
  using Target = T;
  using Cache = C;
  using Drafter = D;

  /// The state between two calls: all that a later call can see.
  struct Snapshot {
    std::vector<TokenId> tokens;
    typename C::Snapshot cache;
    typename D::Snapshot drafter;
    TextStream text;
    std::vector<Emitted> undelivered;
    std::optional<FinishReason> unreported;
    bool cold = true;
    ConstraintPath constraint = {};
    Mirostat mirostat = {};

    /// What outlives a process; the rest is there within a call alone.
    static void parts(auto& self, auto& archive) {
      archive(self.tokens);
      archive(self.cache);
      archive(self.drafter);
      archive(self.cold);
      archive(self.mirostat);
    }
  };

  /// @errors what the drafter's attach() throws, kVocabularyMismatch for one
  Sequence(T& target, C cache, D drafter, A acceptance)
      : target_(target),
        cache_(std::move(cache)),
        drafter_(std::move(drafter)),
        acceptance_(std::move(acceptance)) {
    TargetInfo info = info_of(target);
    info.cache = &typeid(C);
    drafter_.attach(info);
  }

  T& target() const noexcept { return target_; }
  const C& cache() const noexcept { return cache_; }
  const D& drafter() const noexcept { return drafter_; }
  D& drafter() noexcept { return drafter_; }
  const A& acceptance() const noexcept { return acceptance_; }

  /// All final tokens, the prompt included.
  std::span<const TokenId> tokens() const noexcept { return tokens_; }
  TokenId anchor() const noexcept { return tokens_.back(); }
  /// Tokens that there is room for.
  int context_left() const noexcept { return cache_.capacity() - static_cast<int>(tokens_.size()); }
  /// A part of the prompt has not been read: it is the turn of a PromptTurn.
  bool reading() const noexcept { return cache_.size() + 1 < static_cast<int>(tokens_.size()); }

  /// @errors kEmptyPrompt, kContextOverflow, kTokenOutOfRange
  void check_prompt(std::span<const TokenId> prompt) const {
    if (prompt.empty()) {
      throw Error(ErrorCode::kEmptyPrompt, "a prompt without tokens", "at least one token",
                  "begin with the model's BOS token to generate from nothing");
    }
    if (prompt.size() >= idx(cache_.capacity())) {
      throw Error(
          ErrorCode::kContextOverflow, "a prompt of " + std::to_string(prompt.size()) + " tokens",
          "fewer than the " + std::to_string(cache_.capacity()) + " of the context",
          "shorten the prompt by " + std::to_string(prompt.size() - idx(cache_.capacity()) + 1) +
              " tokens, or make the cache larger");
    }
    check_tokens(prompt);
  }

  /// Make `prompt`, which may be part of tokens(), the final tokens.
  /// @return how many of its positions the cache still holds
  /// @errors as check_prompt
  int begin(std::span<const TokenId> prompt) {
    check_prompt(prompt);
    std::vector<TokenId> tokens(prompt.begin(), prompt.end());
    int common = static_cast<int>(
        std::mismatch(prompt.begin(), prompt.end(), tokens_.begin(), tokens_.end()).first -
        prompt.begin());
    common = std::min({common, static_cast<int>(prompt.size()) - 1, cache_.size()});
    if constexpr (Truncatable<C>) {
      cache_.truncate(common);
      common = cache_.size();
    } else {
      if (common < cache_.size()) {
        cache_.restore(typename C::Snapshot{});  // the empty state
        common = 0;
      }
    }
    drafter_.truncate(common);
    forget();
    tokens_ = std::move(tokens);
    return common;
  }

  /// @cost as Decoder::snapshot
  Snapshot snapshot() const {
    const auto undelivered = undelivered_.begin() + static_cast<std::ptrdiff_t>(delivered_);
    return {tokens_,
            cache_.snapshot(),
            drafter_.snapshot(),
            text_,
            {undelivered, undelivered_.end()},
            unreported_,
            cold_,
            constraint_,
            mirostat_};
  }

  /// Where a part throws, the sequence is left without tokens, as when it was made.
  /// @errors kContextOverflow, kTokenOutOfRange, kInvalidOption
  void restore(const Snapshot& snapshot) {
    check_tokens(snapshot.tokens);
    if (snapshot.tokens.size() > idx(cache_.capacity())) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.tokens.size()) + " tokens",
                  "at most the " + std::to_string(cache_.capacity()) + " of the context",
                  "restore it in a decoder with a cache of the same size");
    }
    // What may throw comes first; of the large parts no second copy is made.
    std::vector<TokenId> tokens = snapshot.tokens;
    TextStream text = snapshot.text;
    std::vector<Emitted> undelivered = snapshot.undelivered;
    forget();
    drafter_.reset();  // its snapshot need not say what it knows of another text
    cache_.restore(snapshot.cache);
    if (!tokens.empty() && idx(cache_.size()) >= tokens.size()) {
      cache_.restore(typename C::Snapshot{});
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(tokens.size()) +
                      " tokens whose cache holds as many or more",
                  "what snapshot() returned", "");
    }
    drafter_.restore(snapshot.drafter);
    tokens_ = std::move(tokens);
    text_ = std::move(text);
    undelivered_ = std::move(undelivered);
    unreported_ = snapshot.unreported;
    cold_ = snapshot.cold;
    constraint_ = snapshot.constraint;
    mirostat_ = snapshot.mirostat;
  }

  /// Hand final tokens to the user. A token counts as delivered once emit was entered; if emit
  /// throws, the rest stays queued and comes first the next time.
  template <typename Emit>
  void deliver(Emit& emit) {
    while (delivered_ < undelivered_.size()) emit(std::as_const(undelivered_[delivered_++]));
  }

  /// Why the text ended, or `call` has to: an end of the text is said once.
  std::optional<FinishReason> take_end(const Call& call) {
    if (unreported_) return std::exchange(unreported_, std::nullopt);
    if (call.tokens_left() <= 0) return FinishReason::kLength;
    if (context_left() <= 0) return FinishReason::kContext;
    if (call.options().constraint && constraint_of(call).over()) return FinishReason::kEnd;
    return std::nullopt;
  }

  /// Let the drafter read what it lacks of the final tokens, without a draft.
  void catch_up(Call& call) {
    const DiscardAtEnd<C> staged{cache_};
    draft_.reset(anchor());
    drafter_.propose(context(call), {.fixed = true}, draft_);
  }

 private:
  // Turns look at everything, write into the buffers, and move the sequence by these three alone.
  friend class PromptTurn<Sequence>;
  friend class Turn<Sequence>;

  /// Nothing is drafted yet. @return what the drafter is told
  Context begin_round(Call& call) {
    // Commits allocate nothing: the room for a full context is there before the first of them.
    tokens_.reserve(idx(cache_.capacity()));
    draft_.reset(anchor());
    return context(call);
  }

  /// What a round made final becomes part of the sequence. Nothing allocates: the cut brings its
  /// memory along. @param mirostat  behind the round
  void commit(Cut& cut, const Mirostat& mirostat, const Round::Cost& cost) noexcept {
    const auto anchor_position = static_cast<Position>(tokens_.size()) - 1;
    cache_.commit(cut.path());
    drafter_.commit({draft_, cut.path(), cut.tokens, scores_, anchor_position, cost});
    tokens_.insert(tokens_.end(), cut.tokens.begin(), cut.tokens.end());
    undelivered_ = std::move(cut.emitted);
    delivered_ = 0;
    text_ = std::move(cut.text);
    constraint_ = std::move(cut.constraint);
    // A limit is found again by whoever asks; an end has to be remembered until it is reported.
    const bool ended = cut.reason == FinishReason::kEnd || cut.reason == FinishReason::kStop;
    unreported_ = ended ? cut.reason : std::nullopt;
    cold_ = false;
    mirostat_ = mirostat;
  }

  /// Likewise what a block of the prompt left in the cache. @errors what the drafter throws
  void commit_prompt(std::span<const NodeIndex> path) {
    const Position begin = cache_.size();
    drafter_.absorb({begin, std::span(tokens_).subspan(idx(begin), path.size()), &scores_});
    cache_.commit(path);
  }

  Context context(Call& call) {
    return {tokens_,
            {},
            call.sampling(static_cast<Position>(tokens_.size())),
            call.uses_law(),
            &call.rng(),
            target_.vocab_size(),
            call.options().constraint ? &constraint_of(call) : nullptr,
            mirostat_.most_surprise(call.options().sampling),
            std::min(call.tokens_left(), context_left()),
            AnyRef(cache_)};
  }

  /// Where the text stands under the call's constraint: at its beginning, if an earlier call had
  /// another one.
  const ConstraintPath& constraint_of(const Call& call) const noexcept {
    const bool same = constraint_.constraint() == call.options().constraint;
    return same ? constraint_ : call.constraint();
  }

  void check_tokens(std::span<const TokenId> tokens) const {
    for (const TokenId token : tokens) {
      if (token >= 0 && token < target_.vocab_size()) continue;
      throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                  "a token below " + std::to_string(target_.vocab_size()),
                  "was it made with another tokenizer?");
    }
  }

  /// Drop all tokens, and nothing of what cache and drafter hold of them.
  void forget() noexcept {
    tokens_.clear();
    text_ = {};
    undelivered_.clear();
    delivered_ = 0;
    unreported_.reset();
    cold_ = true;
    constraint_ = {};
    mirostat_ = {};
  }

  T& target_;
  C cache_;
  D drafter_;
  A acceptance_;

  std::vector<TokenId> tokens_;  // final: prompt and emitted
  TextStream text_;
  std::vector<Emitted> undelivered_;  // of the last round; emit has seen the first `delivered_`
  std::size_t delivered_ = 0;
  std::optional<FinishReason> unreported_;  // how the text ended, until somebody was told
  bool cold_ = true;                        // no round since the prompt was read
  ConstraintPath constraint_;               // behind the last final token
  Mirostat mirostat_;                       // behind the anchor

  // Buffers, overwritten by every turn.
  DraftTree draft_;
  Scores scores_;
  RowSampler rows_;
};

}  // namespace foredraft::inline v0
