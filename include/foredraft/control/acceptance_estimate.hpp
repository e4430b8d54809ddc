#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// How often one drafter's tokens are accepted where the token before them was: by what the drafter
/// said of its confidence, and by depth.
///
/// Two memories. The slow one holds what a confidence is worth in general; it is kept over many
/// texts. The fast one holds how much better or worse than that the last few tokens did: by what
/// factor the odds of acceptance differ from those that the slow one expected of them. So a confident
/// copy stays worth more than a guess, while both suffer from a change of text at once.
/// @cost learn and rate O(1), 1 kB
class AcceptanceEstimate {
 public:
  /// @param prior acceptance of a token of which nothing is known
  explicit AcceptanceEstimate(double prior = 0.6) noexcept : prior_(prior) {}

  /// A token of this confidence at `depth` (1: behind the anchor), whose parent was accepted, was
  /// accepted or not.
  void learn(float confidence, int depth, bool accepted) noexcept {
    lately_.expected = lately_.expected * kFastKeep + slow(confidence, depth);
    lately_.tried = lately_.tried * kFastKeep + 1.0;
    lately_.accepted = lately_.accepted * kFastKeep + (accepted ? 1.0 : 0.0);
    const double expected = std::clamp(lately_.expected / lately_.tried, kLeast, 1 - kLeast);
    const double seen = (lately_.accepted + kFew * expected) / (lately_.tried + kFew);
    better_ = std::min(odds(seen) / odds(expected), kMuchBetter);
    for (Count* count : {&all_, &classes_[class_of(confidence)].all,
                         &classes_[class_of(confidence)].depths[depth_class(depth)]}) {
      count->learn(accepted);
    }
  }

  /// One of the tokens proposed for `depth`, behind an accepted one, was accepted, or none of them.
  void learn_level(int depth, bool accepted) noexcept {
    levels_[depth_class(depth)].learn(accepted);
  }

  /// Forget a little of how it does now, as after each round: a drafter that is not asked any more
  /// has a chance again.
  void relax() noexcept {
    lately_.expected *= kRelax;
    lately_.tried *= kRelax;
    lately_.accepted *= kRelax;
    better_ += (1.0 - kRelax) * (1.0 - better_);
  }

  /// Probability that such a token is accepted if its parent was, never quite 0 or 1.
  double rate(float confidence, int depth) const noexcept { return now(slow(confidence, depth)); }
  /// Probability that a token of `depth` will be accepted, of a draft that is not made yet. While
  /// little was tried it is what may be hoped for, half a standard deviation above: a bad beginning must
  /// not be the end.
  double rate_at(int depth) const noexcept {
    const Count& level = levels_[depth_class(depth)];
    const double rate = now(level.rate(all_.rate(prior_, kGuess), kStrong));
    return std::min(rate + 0.5 * std::sqrt(rate * (1 - rate) / (all_.tried + kStrong)), 1 - kLeast);
  }

  /// Tokens that were learned from; old ones count less.
  double trials() const noexcept { return all_.tried; }

 private:
  // Some 740 trials count in the slow memory, 20 in the fast one.
  static constexpr double kSlowKeep = 1.0 - 1.0 / 740.0;
  static constexpr double kFastKeep = 1.0 - 1.0 / 20.0;
  static constexpr double kRelax = 0.96;
  // What a prior weighs, in trials: that of the drafter, of its classes, and of depths.
  static constexpr double kGuess = 8.0;
  static constexpr double kWeak = 2.0;
  static constexpr double kStrong = 6.0;
  static constexpr double kFew = 2.0;
  // A lucky row of tokens is no reason to draft much deeper; an unlucky one is, to stop.
  static constexpr double kMuchBetter = 1.25;
  static constexpr double kLeast = 0.005;

  struct Count {
    double tried = 0;
    double accepted = 0;

    void learn(bool success) noexcept {
      tried = tried * kSlowKeep + 1.0;
      accepted = accepted * kSlowKeep + (success ? 1.0 : 0.0);
    }
    double rate(double prior, double weight) const noexcept {
      return (accepted + weight * prior) / (tried + weight);
    }
  };
  static constexpr std::size_t kDepthClasses = 5;
  struct Class {
    Count all;
    std::array<Count, kDepthClasses> depths;
  };

  // Eight classes of confidence, and one for drafters that say nothing.
  static std::size_t class_of(float confidence) noexcept {
    if (!(confidence >= 0)) return 8;
    return std::min<std::size_t>(static_cast<std::size_t>(confidence * 8), 7);
  }
  /// 1, 2, 3 and 4, 5 to 8, more.
  static std::size_t depth_class(int depth) noexcept {
    return depth <= 2 ? idx(std::max(depth, 1) - 1) : depth <= 4 ? 2 : depth <= 8 ? 3 : 4;
  }

  /// Each level leans on the one above it until it has trials of its own.
  double slow(float confidence, int depth) const noexcept {
    const Class& c = classes_[class_of(confidence)];
    return c.depths[depth_class(depth)].rate(c.all.rate(all_.rate(prior_, kGuess), kWeak), kStrong);
  }
  static double odds(double rate) noexcept {
    rate = std::clamp(rate, kLeast, 1 - kLeast);
    return rate / (1 - rate);
  }
  double now(double rate) const noexcept {
    const double o = odds(rate) * better_;
    return std::clamp(o / (1 + o), kLeast, 1 - kLeast);
  }

  double prior_;
  Count all_;
  std::array<Class, 9> classes_{};
  std::array<Count, kDepthClasses> levels_{};
  struct {
    double tried = 0;
    double accepted = 0;
    double expected = 0;  // of them, by the slow memory
  } lately_;
  double better_ = 1;  // odds of acceptance now, compared with the slow memory's
};

}  // namespace foredraft::inline v0
