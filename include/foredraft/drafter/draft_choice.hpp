#pragma once

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

}  // namespace foredraft::inline v0
