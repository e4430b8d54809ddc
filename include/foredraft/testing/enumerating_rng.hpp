#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <foredraft/core/rng.hpp>

namespace foredraft::inline v0::testing {

/// A key named two different decisions: the numbers behind them would not be independent.
class KeyReuse : public std::logic_error {
 public:
  explicit KeyReuse(const RngKey& key)
      : std::logic_error("one key for two decisions: purpose " +
                         std::to_string(static_cast<int>(key.purpose)) + ", position " +
                         std::to_string(key.position) + ", node " + std::to_string(key.node)) {}
};

/// Follows every outcome of every draw of a deterministic program, each with its exact probability.
///
/// The program is run once for each path through its draws, depth first: a path repeats the choices
/// of the path before it and takes the next branch at the last draw that has one left. Branches of
/// probability zero are not followed.
///
/// A key that turns up twice on a path is refused, with one exception that the design makes: the
/// target's sample at a position is *the same decision* when it is asked for again with the same p
/// (after a cut threw it away), and gets the same answer. Drafts that share the target's noise are
/// not supported.
class EnumeratingRng final : public Rng {
 public:
  /// What a second accept test with the same key gets.
  enum class Reuse {
    kRefuse,  ///< KeyReuse is thrown
    kShare,   ///< the same uniform number, as a counter-based source would give
  };

  explicit EnumeratingRng(Reuse reuse = Reuse::kRefuse) : reuse_(reuse) {}

  /// Run `program` once for every path; weight() is then the path's probability. A key in `used`
  /// counts as drawn before.
  template <typename Program>
  void for_each_path(const std::vector<RngKey>& used, Program&& program) {
    used_ = &used;
    choices_.clear();
    do {
      begin_path();
      program();
      if (drawn_ != choices_.size()) throw std::logic_error("the program is not deterministic");
    } while (next_path());
  }
  template <typename Program>
  void for_each_path(Program&& program) {
    const std::vector<RngKey> none;
    for_each_path(none, program);
  }

  double weight() const noexcept { return weight_; }

  /// Keys of this path.
  std::vector<RngKey> keys() const {
    std::vector<RngKey> keys;
    for (const Decision& decision : decisions_) keys.push_back(decision.key);
    return keys;
  }

  bool bernoulli(RngKey key, double probability) override {
    if (!(probability >= 0)) throw std::logic_error("a probability that is none");
    const double p = std::min(probability, 1.0);
    Decision* known = find(key);
    if (known == nullptr) {
      decisions_.push_back({key, {}, {}, 0, 0.0, 1.0});
      known = &decisions_.back();
    } else if (reuse_ == Reuse::kRefuse || !known->ids.empty()) {
      throw KeyReuse(key);
    }
    // All that is known of the key's uniform number is an interval; the answer is "below p".
    const double low = known->low;
    const double high = known->high;
    const double below = std::clamp((p - low) / (high - low), 0.0, 1.0);
    const bool yes = choose(std::vector<double>{below, 1.0 - below}) == 0;
    (yes ? known->high : known->low) = std::clamp(p, low, high);
    return yes;
  }

  std::size_t categorical(RngKey key, std::span<const TokenId> ids,
                          std::span<const double> weights) override {
    double sum = 0;
    for (const double weight : weights) {
      if (!(weight >= 0)) throw std::logic_error("a weight that is none");
      sum += weight;
    }
    if (ids.size() != weights.size() || !(sum > 0)) throw std::logic_error("nothing to choose");
    Decision decision{key, {ids.begin(), ids.end()}, {weights.begin(), weights.end()}, 0, 0.0, 1.0};
    if (const Decision* known = find(key)) {
      const bool same = key.purpose == Purpose::kTargetSample && known->ids == decision.ids &&
                        known->weights == decision.weights;
      if (!same) throw KeyReuse(key);
      return known->chosen;
    }
    std::vector<double> probabilities = decision.weights;
    for (double& p : probabilities) p /= sum;
    decision.chosen = choose(probabilities);
    decisions_.push_back(decision);
    return decision.chosen;
  }

 private:
  struct Choice {
    std::vector<double> probabilities;
    std::size_t taken = 0;
  };
  struct Decision {
    RngKey key;
    std::vector<TokenId> ids;  // empty: an accept test
    std::vector<double> weights;
    std::size_t chosen = 0;
    double low = 0.0;  // an accept test's uniform number lies in [low, high)
    double high = 1.0;
  };

  void begin_path() {
    decisions_.clear();
    drawn_ = 0;
    weight_ = 1.0;
  }

  std::size_t choose(const std::vector<double>& probabilities) {
    if (drawn_ == choices_.size()) {
      choices_.push_back({probabilities, branch_from(probabilities, 0)});
    } else if (choices_[drawn_].probabilities != probabilities) {
      throw std::logic_error("the program is not deterministic");
    }
    const std::size_t taken = choices_[drawn_++].taken;
    weight_ *= probabilities[taken];
    return taken;
  }

  /// First branch from `begin` on that can happen, or the number of branches.
  static std::size_t branch_from(const std::vector<double>& probabilities, std::size_t begin) {
    while (begin < probabilities.size() && !(probabilities[begin] > 0)) ++begin;
    return begin;
  }

  bool next_path() {
    while (!choices_.empty()) {
      Choice& last = choices_.back();
      last.taken = branch_from(last.probabilities, last.taken + 1);
      if (last.taken < last.probabilities.size()) return true;
      choices_.pop_back();
    }
    return false;
  }

  Decision* find(const RngKey& key) {
    if (std::find(used_->begin(), used_->end(), key) != used_->end()) throw KeyReuse(key);
    for (Decision& decision : decisions_) {
      if (decision.key == key) return &decision;
    }
    return nullptr;
  }

  Reuse reuse_;
  const std::vector<RngKey>* used_ = nullptr;  // keys of earlier rounds
  std::vector<Choice> choices_;                // the path, kept from run to run
  std::vector<Decision> decisions_;            // of this run
  std::size_t drawn_ = 0;
  double weight_ = 1.0;
};

}  // namespace foredraft::inline v0::testing
