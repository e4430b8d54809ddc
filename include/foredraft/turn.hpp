#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/draft_check.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/round_event.hpp>
#include <foredraft/cut.hpp>
#include <foredraft/sampling/logprobs.hpp>
#include <foredraft/sequence.hpp>

namespace foredraft::inline v0 {

/// When a turn has its drafter propose.
enum class Drafting : std::uint8_t {
  kAtOnce,
  kInSteps,  ///< a SteppedDrafter waits for the passes of its model, which others may share
};

/// A round, for a sequence whose prompt is read, that has not ended (take_end()) and has delivered
/// what the last round made final (deliver()): what this one does takes its place.
///
/// A turn is a sequence's part in one pass of its target. Made by a sequence and a call, it stages
/// rows, says what to forward, and is finished behind the pass. So whoever has several sequences
/// makes a turn of each, forwards all of their requests in one pass, and finishes them one by one:
///
///   PromptTurn reader(one, call_of_one);
///   Turn writer(other, call_of_other);
///   Request<Cache> requests[] = {reader.request(), writer.request()};
///   target.forward(requests);
///   reader.finish();
///   writer.finish();
///
/// A turn that is dropped, finish() not called or left by an exception, has not changed the
/// sequence. There is one turn of a sequence at a time; the sequence must not move under it.
template <typename S>
class Turn {
  static constexpr bool kStepped = SteppedDrafter<typename S::Drafter>;
  // Where nobody chooses: deep enough for a copy, not ruinous for a model.
  static constexpr int kUncontrolledDepth = 16;

 public:
  /// Begin: propose a draft.
  /// @errors what the drafter throws; kInvalidDraft where it broke its contract
  Turn(S& sequence, std::shared_ptr<Call> call, Drafting drafting = Drafting::kAtOnce)
      : s_(sequence),
        call_(std::move(call)),
        before_(call_->stats.seconds),
        context_(s_.begin_round(*call_)),
        mirostat_(s_.mirostat_) {
    // The first round after a prompt drafts nothing: a draft model that has the whole prompt to
    // read would delay the first token.
    if (s_.cold_) return;
    limit_ = draft_limit();
    const Stopwatch watch(call_->stats.seconds.draft);
    if constexpr (kStepped) {
      if (drafting == Drafting::kInSteps) {
        s_.drafter_.begin(context_, limit_, s_.draft_);
        end_step();
        return;
      }
    }
    s_.drafter_.propose(context_, limit_, s_.draft_);
    end_draft();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// In steps: what the drafter's own model has to forward next, before advance(). Nothing where
  /// the draft is complete.
  auto draft_request()
    requires kStepped
  {
    return drafting_ ? s_.drafter_.request() : decltype(s_.drafter_.request()){};
  }
  /// @param seconds  that the pass took, or this sequence's share where it was made for several: a drafter
  /// that chooses its depth goes by them and by those of finish(), and drafts little where it is told of
  /// none. They are added to Stats::seconds.draft
  /// @errors as the constructor; kInvalidDraft where the draft is complete
  void advance(double seconds = 0)
    requires kStepped
  {
    if (!drafting_) {
      throw Error(ErrorCode::kInvalidDraft, "a step of a draft that is complete",
                  "advance() behind a pass of its draft_request()", "");
    }
    call_->stats.seconds.draft += seconds;
    const Stopwatch watch(call_->stats.seconds.draft);
    s_.drafter_.advance(s_.draft_, seconds);
    end_step();
  }

  /// What the target has to forward before finish(). Stages the draft.
  /// @errors kInvalidDraft where the draft is not complete; what the cache throws
  Request<typename S::Cache> request() {
    if (drafting_) {
      throw Error(ErrorCode::kInvalidDraft, "a draft that is not complete",
                  "advance() until draft_request() is empty", "");
    }
    if (s_.cache_.staged() == 0) s_.cache_.stage(s_.draft_.nodes());
    return {&s_.cache_,
            0,
            s_.draft_.size(),
            {std::max(call_->need(), s_.drafter_.needs()), s_.drafter_.taps(),
             call_->options().sampling.temperature},
            &s_.scores_};
  }

  /// Verify, cut, commit.
  /// @param seconds  of the pass, as for advance(). They are added to Stats::seconds.verify; 0 for whoever
  /// has added them there
  /// @errors kInvalidLogits, and what the acceptance rule throws; behind the commit, so that the round
  /// stays, what the observer throws
  void finish(double seconds = 0) {
    Stats& stats = call_->stats;
    stats.seconds.verify += seconds;
    Cut cut = decide();
    // Final from here: until the observer is told, nothing throws.
    {
      const Stopwatch watch(stats.seconds.commit);
      const Seconds now = stats.seconds - before_;
      s_.commit(cut, mirostat_, {now.draft, now.verify});
    }
    count(stats, s_.draft_, cut);
    if (call_->options().observer) observe(cut);
  }

 private:
  /// A draft of depth n makes up to n + 1 tokens, so it is one shorter than what is left.
  Limit draft_limit() const {
    const Options& options = call_->options();
    const bool fixed_nodes = options.n_nodes != Options::kAutomatic;
    const int room = std::min(s_.cache_.max_staged(), DraftTree::kMaxNodes) - 1;
    const int nodes = fixed_nodes ? std::min(room, options.n_nodes) : room;
    const int asked = options.n_draft;
    const bool fixed = asked != Options::kAutomatic;
    const int most = fixed ? asked : S::Drafter::controls ? nodes : kUncontrolledDepth;
    const int depth = std::min(
        {most, call_->tokens_left() - 1, s_.context_left() - 1, nodes, s_.drafter_.max_depth()});
    if (depth <= 0) return {.fixed = fixed};
    return {.depth = depth,
            .nodes = S::Drafter::shape == Shape::kChain ? depth : nodes,
            .fixed = fixed,
            .fixed_nodes = fixed_nodes};
  }

  /// What the round makes final. Nothing of the sequence changes.
  Cut decide() {
    const Stopwatch watch(call_->stats.seconds.accept);
    s_.rows_.begin(context_.sampling, s_.scores_, s_.draft_, s_.tokens_, context_.constraint,
                   s_.mirostat_);
    Cut cut = foredraft::cut(s_.acceptance_.verify(s_.draft_, s_.rows_, call_->rng()), s_.draft_,
                             *call_, s_.text_, s_.context_left(), s_.constraint_of(*call_));
    note_logprobs(cut);
    if (context_.sampling.mirostat != 0) {
      mirostat_ = s_.rows_.mirostat_behind(cut.path().back(), cut.tokens.back());
    }
    return cut;
  }

  void end_step() {
    drafting_ = s_.drafter_.request().has_value();
    if (!drafting_) end_draft();
  }

  void end_draft() {
    s_.cache_.discard();  // a drafter may have staged rows of its own there
    check_draft(s_.draft_, context_, limit_, S::Drafter::shape);
    if (context_.constraint != nullptr) drop_forbidden(*context_.constraint, s_.draft_);
  }

  /// Log probabilities of what the cut kept, where they were asked for. The row of emitted token i
  /// is that of node i of the path.
  void note_logprobs(Cut& cut) const {
    const int asked = call_->options().logprobs;
    if (asked < 0) return;
    for (std::size_t i = 0; i < cut.emitted.size(); ++i) {
      Emitted& emitted = cut.emitted[i];
      emitted.logprobs = logprobs_of(s_.scores_.logits(cut.path()[i]), emitted.token, asked);
    }
  }

  void observe(const Cut& cut) const {
    Seconds seconds = call_->stats.seconds - before_;
    seconds.total = seconds.draft + seconds.verify + seconds.accept + seconds.commit;
    const std::span path(cut.verdict.path.data(), idx(cut.accepted()) + 1);
    call_->options().observer({call_->stats.rounds - 1, context_.anchor_position(), s_.draft_, path,
                               s_.undelivered_, s_.rows_, seconds});
  }

  S& s_;
  DiscardAtEnd<typename S::Cache> staged_{s_.cache_};  // also where the constructor throws
  std::shared_ptr<Call> call_;
  Seconds before_;
  Context context_;
  Limit limit_;
  bool drafting_ = false;  // in steps, and passes are left
  Mirostat mirostat_;      // behind the round
};

/// A turn that reads a block of the prompt, for a sequence that is reading().
template <typename S>
class PromptTurn {
 public:
  PromptTurn(S& sequence, std::shared_ptr<Call> call)
      : s_(sequence),
        call_(std::move(call)),
        path_(first_nodes(std::min({static_cast<int>(s_.tokens_.size()) - 1 - s_.cache_.size(),
                                    call_->options().prefill_block, s_.cache_.max_staged()}))) {
    s_.cache_.stage(chain_of(s_.tokens_, s_.cache_.size(), count()));
  }
  PromptTurn(const PromptTurn&) = delete;
  PromptTurn& operator=(const PromptTurn&) = delete;
  ~PromptTurn() { s_.cache_.discard(); }

  Request<typename S::Cache> request() noexcept {
    return {&s_.cache_, 0, count(), {RowNeed::kNothing, s_.drafter_.taps()}, &s_.scores_};
  }

  /// @errors what the drafter throws; the block is then read again by the next turn
  void finish() { s_.commit_prompt(path_); }

 private:
  int count() const noexcept { return static_cast<int>(path_.size()); }

  S& s_;
  std::shared_ptr<Call> call_;
  std::vector<NodeIndex> path_;
};

}  // namespace foredraft::inline v0
