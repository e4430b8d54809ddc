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
  static constexpr std::size_t kConfidenceClasses =
      9;  // eight, and one for drafters that say nothing
  static constexpr std::size_t kDepthClasses = 5;

  /// Tokens that were tried, and those of them that were accepted; old ones count less.
  struct Count {
    double tried = 0;
    double accepted = 0;

    friend bool operator==(const Count&, const Count&) = default;
  };
  struct Class {
    Count all;
    std::array<Count, kDepthClasses> depths;

    friend bool operator==(const Class&, const Class&) = default;
  };
  /// Both memories.
  struct State {
    Count all;
    std::array<Class, kConfidenceClasses> classes{};
    std::array<Count, kDepthClasses> levels{};
    Count lately;
    double lately_expected = 0;  ///< of `lately`, by the slow memory
    double better = 1;           ///< odds of acceptance now, compared with the slow memory's

    friend bool operator==(const State&, const State&) = default;
  };

  /// @param prior acceptance of a token of which nothing is known
  explicit AcceptanceEstimate(double prior = 0.6) noexcept : prior_(prior) {}

  /// A token of this confidence at `depth` (1: behind the anchor), whose parent was accepted, was
  /// accepted or not.
  void learn(float confidence, int depth, bool accepted) noexcept {
    s_.lately_expected = s_.lately_expected * kFastKeep + slow(confidence, depth);
    learn(s_.lately, accepted, kFastKeep);
    const double expected = std::clamp(s_.lately_expected / s_.lately.tried, kLeast, 1 - kLeast);
    s_.better = std::min(odds(rate(s_.lately, expected, kFew)) / odds(expected), kMuchBetter);
    Class& c = s_.classes[class_of(confidence)];
    for (Count* count : {&s_.all, &c.all, &c.depths[depth_class(depth)]}) learn(*count, accepted);
  }

  /// One of the tokens proposed for `depth`, behind an accepted one, was accepted, or none of them.
  void learn_level(int depth, bool accepted) noexcept {
    learn(s_.levels[depth_class(depth)], accepted);
  }

  /// Forget a little of how it does now, as after each round: a drafter that is not asked any more
  /// has a chance again.
  void relax() noexcept {
    s_.lately_expected *= kRelax;
    s_.lately.tried *= kRelax;
    s_.lately.accepted *= kRelax;
    s_.better += (1.0 - kRelax) * (1.0 - s_.better);
  }

  /// Probability that such a token is accepted if its parent was, never quite 0 or 1.
  double rate(float confidence, int depth) const noexcept { return now(slow(confidence, depth)); }
  /// Probability that a token of `depth` will be accepted, of a draft that is not made yet. While
  /// little was tried it is what may be hoped for, a standard deviation above: a bad beginning must not be
  /// the end.
  double rate_at(int depth) const noexcept {
    const Count& level = s_.levels[depth_class(depth)];
    const double seen = now(rate(level, rate(s_.all, prior_, kGuess), kStrong));
    return std::min(seen + std::sqrt(seen * (1 - seen) / (s_.all.tried + kStrong)), 1 - kLeast);
  }

  /// Tokens that were learned from; old ones count less.
  double trials() const noexcept { return s_.all.tried; }

  const State& state() const noexcept { return s_; }
  /// Go on from there. @param state  of numbers that check() of controller_state.hpp lets pass
  void restore(const State& state) noexcept { s_ = state; }

 private:
  // Some 740 trials count in the slow memory, 20 in the fast one.
  static constexpr double kSlowKeep = 1.0 - 1.0 / 740.0;
  static constexpr double kFastKeep = 1.0 - 1.0 / 20.0;
  static constexpr double kRelax = 0.945;
  // What a prior weighs, in trials: that of the drafter, of its classes, and of depths.
  static constexpr double kGuess = 8.0;
  static constexpr double kWeak = 2.0;
  static constexpr double kStrong = 6.0;
  static constexpr double kFew = 3.0;
  // A lucky row of tokens is no reason to draft much deeper; an unlucky one is, to stop.
  static constexpr double kMuchBetter = 1.25;
  static constexpr double kLeast = 0.005;

  static void learn(Count& count, bool success, double keep = kSlowKeep) noexcept {
    count.tried = count.tried * keep + 1.0;
    count.accepted = count.accepted * keep + (success ? 1.0 : 0.0);
  }
  static double rate(const Count& count, double prior, double weight) noexcept {
    return (count.accepted + weight * prior) / (count.tried + weight);
  }

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
    const Class& c = s_.classes[class_of(confidence)];
    return rate(c.depths[depth_class(depth)], rate(c.all, rate(s_.all, prior_, kGuess), kWeak),
                kStrong);
  }
  static double odds(double rate) noexcept {
    rate = std::clamp(rate, kLeast, 1 - kLeast);
    return rate / (1 - rate);
  }
  double now(double rate) const noexcept {
    const double o = odds(rate) * s_.better;
    return std::clamp(o / (1 + o), kLeast, 1 - kLeast);
  }

  double prior_;
  State s_;
};

}  // namespace foredraft::inline v0
