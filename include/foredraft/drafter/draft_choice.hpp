#pragma once

#include <algorithm>
#include <array>
#include <span>

#include <foredraft/core/index.hpp>
#include <foredraft/drafter/sibling_picker.hpp>

namespace foredraft::inline v0 {

/// Chooses between drafts drawn from q and the best tokens of q as point mass, by what was accepted
/// lately.
///
/// Verified by a rule that uses q, the first are accepted with probability sum min(p, q) a token,
/// the second with p(argmax q). Either can be greater: a sharp p favours the argmax, a flat one
/// drawing. Each way keeps an estimate, accepted over tried positions, whose older rounds count
/// less and less; the better one drafts, and every `probe_every`-th round the other.
///
/// The law stays p because a choice is a function of rounds that are over. Given all that happened
/// in them, a round's draws are independent of it (no two rounds share a key), and whichever way is
/// chosen, the rule makes p of it; so given the text before, each round adds tokens of law p. A
/// choice that looked at a drawn token would be different: the tokens that it lets pass no longer
/// have the law q.
class DraftChoice {
 public:
  /// @param probe_every rounds from one trial of the other way to the next, at least 2
  /// @param decay weight of a way's earlier rounds at its next one. 0.95: some 20 rounds count,
  /// which tells rates apart that differ by .1, and follows the text from one passage to the next
  /// @errors kInvalidOption
  explicit DraftChoice(int probe_every = 16, double decay = 0.95)
      : probe_every_(probe_every), decay_(decay) {
    if (probe_every >= 2 && decay >= 0.0 && decay <= 1.0) return;
    throw Error(ErrorCode::kInvalidOption, "a choice of drafts that never settles",
                "probe_every of 2 or more, decay from 0 to 1", "");
  }

  /// The way of the next round: kDrawn or kArgmax.
  DraftSampling way() const noexcept {
    const bool argmax_is_better = argmax_.rate() > drawn_.rate();
    const bool probe = rounds_ % probe_every_ == probe_every_ - 1;
    return argmax_is_better != probe ? DraftSampling::kArgmax : DraftSampling::kDrawn;
  }

  /// Learn what became of a round that drafted in this way. Of `tried` positions the first
  /// `accepted` were accepted.
  void learn(DraftSampling way, int accepted, int tried) noexcept {
    if (tried <= 0) return;
    Estimate& estimate = way == DraftSampling::kArgmax ? argmax_ : drawn_;
    estimate.accepted = decay_ * estimate.accepted + accepted;
    estimate.tried = decay_ * estimate.tried + tried;
    ++rounds_;
  }

  friend bool operator==(const DraftChoice&, const DraftChoice&) = default;

 private:
  struct Estimate {
    // As if one position had been tried and accepted: what is untried looks good, so it is tried.
    double accepted = 1.0;
    double tried = 1.0;

    double rate() const noexcept { return accepted / tried; }
    friend bool operator==(const Estimate&, const Estimate&) = default;
  };

  int probe_every_;
  double decay_;
  Estimate drawn_;
  Estimate argmax_;
  int rounds_ = 0;
};

/// How a drafter with a model picks its tokens in a round, and what has come of the ways to do so.
class DraftWay {
 public:
  DraftWay(DraftSampling asked, DraftChoice choice)
      : asked_(asked), first_(choice), choice_(choice) {}

  /// The way of the round that begins: from settings and past rounds, before anything is drawn.
  /// @param law what the draft model's rows become
  DraftSampling begin(const Context& context, const SamplingOptions& law) noexcept {
    choosing_ = false;
    n_nodes_ = 0;
    way_ = resolve(context, law);
    return way_;
  }
  /// This is the draft.
  void drafted(const DraftTree& draft) noexcept {
    n_nodes_ = draft.size();
    std::copy(draft.nodes().begin(), draft.nodes().end(), nodes_.begin());
  }

  std::span<const Node> nodes() const noexcept { return {nodes_.data(), idx(n_nodes_)}; }

  /// Only rounds that verified that draft say something of its way. Others may have drafted behind
  /// it.
  void learn(const Round& round) noexcept {
    if (!choosing_ || n_nodes_ < 2 || round.draft.size() < n_nodes_) return;
    const std::span<const Node> nodes = round.draft.nodes().first(idx(n_nodes_));
    if (!std::equal(nodes.begin(), nodes.end(), nodes_.begin())) return;
    int depth = 0;
    for (NodeIndex node = 1; node < n_nodes_; ++node) {
      depth = std::max(depth, round.draft.depth(node));
    }
    int accepted = 0;
    while (idx(accepted) + 1 < round.path.size() && round.path[idx(accepted) + 1] < n_nodes_) {
      ++accepted;
    }
    // Where the round was cut off, its last token is an accepted one whose row is not committed.
    // Elsewhere one more position was tried behind the accepted ones, unless the draft ended there.
    const NodeIndex last = round.draft.child_with(round.path.back(), round.tokens.back());
    const bool cut_off = idx(accepted) + 1 == round.path.size() && last >= 0 && last < n_nodes_;
    accepted += cut_off;
    choice_.learn(way_, accepted, cut_off ? accepted : std::min(accepted + 1, depth));
  }

  /// Another text begins, even if with the same words: a seed's text must not depend on what was
  /// generated before.
  void reset() noexcept { choice_ = first_; }
  const DraftChoice& choice() const noexcept { return choice_; }
  void restore(const DraftChoice& choice) noexcept { choice_ = choice; }

 private:
  DraftSampling resolve(const Context& context, const SamplingOptions& law) noexcept {
    if (law.greedy()) return DraftSampling::kArgmax;
    if (asked_ != DraftSampling::kAuto) return asked_;
    if (context.sampling.greedy()) return DraftSampling::kArgmax;
    if (!context.uses_law) return DraftSampling::kCoupled;
    choosing_ = true;
    return choice_.way();
  }

  DraftSampling asked_;
  DraftChoice first_;
  DraftChoice choice_;
  bool choosing_ = false;                           // the last draft's way was chosen ...
  DraftSampling way_ = {};                          // ... and is this one
  std::array<Node, DraftTree::kMaxNodes> nodes_{};  // the last draft
  int n_nodes_ = 0;
};

}  // namespace foredraft::inline v0
