#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/reduce.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/detail/exponentials.hpp>
#include <foredraft/sampling/at_least.hpp>
#include <foredraft/sampling/greatest_logit.hpp>
#include <foredraft/sampling/history.hpp>
#include <foredraft/sampling/logit_adjustments.hpp>
#include <foredraft/sampling/stepwise_law.hpp>
#include <foredraft/sampling/tempered_row.hpp>

namespace foredraft::inline v0 {

/// Makes p from a row of logits: penalties, temperature, then top-k, top-p, min-p, then
/// renormalisation. The other transforms, and other orders, are left to StepwiseLaw.
///
/// Each step sees the law that the step before left. Ties are broken towards the lower id
/// everywhere, so p is a function of the row and its history alone. Arithmetic is double: the law
/// tests hold p to 1e-12. Weights are relative to the likeliest token, so nothing overflows; a
/// token more than 1e307 times less likely than that counts as impossible. The object only keeps
/// buffers between rows.
class Transforms {
 public:
  /// Make room, so that apply() and apply_lazily() allocate nothing for rows of at most `n_vocab`
  /// logits behind texts of at most `n_tokens`, under these options or those of an earlier call.
  /// @param out  what apply() is going to fill
  /// @cost memory O(n_vocab), most of it never touched where options cut
  void reserve(const SamplingOptions& options, std::size_t n_vocab, std::size_t n_tokens,
               Law& out) {
    maxima_.reserve(n_vocab / Scores::kRun + 1);
    if (options.adjusts()) adjusted_.reserve(n_vocab);
    adjustments_.reserve(options, n_tokens);
    tempered_.reserve(n_vocab);
    const std::size_t n = options.greedy() ? 1 : n_vocab;
    ids_.reserve(n);
    weights_.reserve(n);
    logits_.reserve(n);
    order_.reserve(n);
    out.reserve(n);
    if (options.stepwise()) stepwise_.reserve(options, n_vocab, n_tokens);
  }

  /// @param history what the options look back on; may be empty where nothing does
  /// @param runs of the row, as Scores::runs gives them; p is the same without, only later
  /// @param out a law, of which only the memory is used; unchanged by an error
  /// @shape logits [n_vocab] @units out.p sums to 1
  /// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf; kInvalidOption
  /// where biases, bad words and the like leave no token
  /// @cost O(n_vocab), one exponential for each token that is left after top-k; with maxima
  /// O(n_vocab / Scores::kRun) where top-k, or min-p without top-p, leave few, and where top-p does,
  /// if there are sums as well; that of StepwiseLaw where the options are stepwise()
  void apply(const SamplingOptions& options, std::span<const float> logits, const History& history,
             Law& out, const Runs& runs = {}) {
    const PenalisedRow row = look_at(options, logits, history, runs);
    if (options.greedy()) {
      out.clear();
      out.ids.push_back(static_cast<TokenId>(
          std::find(row.logits.begin(), row.logits.end(), row.greatest) - row.logits.begin()));
      out.p.push_back(1.0);
      return;
    }
    if (options.stepwise()) {
      stepwise_.apply(options, row.logits, history, !options.reordered(), out);
      return;
    }
    const double temperature = options.temperature;
    WeightTotals totals;
    if (options.top_k > 0 && idx(options.top_k) < row.logits.size()) {
      keep_top_k(row, idx(options.top_k));
      totals = weigh(row, temperature);
      if (options.top_p < 1.0f) totals = keep_top_p(options.top_p * totals.sum);
    } else if (options.top_p < 1.0f) {
      tempered_.look_at(row, options.temperature);
      totals = keep_top_p_of_all(row, temperature, options.top_p * tempered_.total());
    } else if (options.min_p > 0.0f) {
      // What min-p will drop needs no weight. The bar is a little low; normalise() is exact.
      keep_above(row, temperature, double{options.min_p} * 0.999);
      totals = weigh(row, temperature);
    } else {
      keep_all(row.logits.size());
      totals = weigh(row, temperature);
    }
    normalise(options.min_p, totals, out);
  }

  /// p of a row of which no transform drops anything, as weights: to draw one token, or to know the
  /// probability of one, few of them have to be worked out.
  /// @param options  tempered(); the rest as for apply()
  /// @param out  good until the next call and while the row is
  /// @cost O(n_vocab / Scores::kRun) with maxima and without penalties, else O(n_vocab)
  void apply_lazily(const SamplingOptions& options, std::span<const float> logits,
                    const History& history, TemperedRow& out, const Runs& runs = {}) {
    out.look_at(look_at(options, logits, history, runs), options.temperature);
  }

 private:
  PenalisedRow look_at(const SamplingOptions& options, std::span<const float> logits,
                       const History& history, const Runs& runs) {
    PenalisedRow row{logits, runs};
    if (options.adjusts()) {
      // What is wrong with a token is not hidden where the token is forbidden.
      if (options.allows_less()) greatest_logit(logits);
      row = {adjusted(options, logits, history), {}};
    }
    std::span<const float>& maxima = row.runs.maxima;
    if (maxima.empty()) {
      if (options.allows_less() && none_left(row.logits)) {
        throw Error(ErrorCode::kInvalidOption, "options that leave no token",
                    "a token that may follow",
                    "logit biases, bad words, min_tokens and what the model may not write "
                    "together forbid all that is possible");
      }
      row.greatest = maxima_of_runs(row.logits, maxima_);
      maxima = maxima_;
      return row;
    }
    row.greatest = detail::require_logits(*std::max_element(maxima.begin(), maxima.end()), true);
    return row;
  }

  static bool none_left(std::span<const float> logits) noexcept {
    return std::all_of(logits.begin(), logits.end(),
                       [](float x) { return x == -std::numeric_limits<float>::infinity(); });
  }

  /// The row with all that comes before a law is made of it.
  std::span<const float> adjusted(const SamplingOptions& options, std::span<const float> logits,
                                  const History& history) {
    adjusted_.assign(logits.begin(), logits.end());
    const Lookback text(history);
    LogitAdjustments::allow(options, text, adjusted_);
    // In another order the penalties may come late.
    if (options.greedy() || !options.reordered()) adjustments_.penalise(options, text, adjusted_);
    return adjusted_;
  }

  void keep_all(std::size_t n) {
    // ids_ was out.ids of an earlier row. Those of a law ascend and are distinct, so that with this
    // number and end they are all there.
    if (ids_.size() == n && ids_.back() == static_cast<TokenId>(n) - 1) return;
    ids_.resize(n);
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  /// f(id) for the tokens whose logit is at least `bar`, which f may raise; ascending. Runs whose
  /// maximum is below the bar are passed over.
  template <typename F>
  static void for_each_above(const PenalisedRow& row, const float& bar, F&& f) {
    for (std::size_t run = 0; run < row.runs.maxima.size(); ++run) {
      if (row.runs.maxima[run] < bar) continue;
      const std::size_t begin = run * Scores::kRun;
      const std::size_t n = std::min(Scores::kRun, row.logits.size() - begin);
      for_each_at_least(row.logits.subspan(begin, n), bar,
                        [&](std::size_t i) { f(static_cast<TokenId>(begin + i)); });
    }
  }

  /// Keep tokens of at least `weight`, give or take a rounding.
  void keep_above(const PenalisedRow& row, double temperature, double weight) {
    ids_.clear();
    // Below all finite logits where the temperature is enormous.
    const double bar = std::max(row.greatest + temperature * std::log(weight),
                                double{std::numeric_limits<float>::lowest()});
    for_each_above(row, static_cast<float>(bar), [&](TokenId id) { ids_.push_back(id); });
  }

  /// Weights of ids_.
  WeightTotals weigh(const PenalisedRow& row, double temperature) {
    weights_.resize(ids_.size());
    std::span<const float> logits = row.logits;
    if (ids_.size() < logits.size()) {
      logits_.clear();
      for (const TokenId id : ids_) logits_.push_back(logits[idx(id)]);
      logits = logits_;
    }
    return exponentiate(logits, row.greatest, temperature, weights_.data());
  }

  /// Keep the k likeliest tokens, in the order of ids. The bar rises: whenever four times as many
  /// tokens as wanted have come over it, all but the best k of them are dropped.
  void keep_top_k(const PenalisedRow& row, std::size_t k) {
    const auto logit = [&row](TokenId id) { return row.logits[idx(id)]; };
    const auto likelier = [&](TokenId a, TokenId b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    };
    const auto drop_all_but_best = [&] {
      const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(k);
      std::nth_element(ids_.begin(), end - 1, ids_.end(), likelier);
      ids_.erase(end, ids_.end());
      return logit(ids_.back());
    };
    float bar = first_bar(row.runs.maxima, k);
    ids_.clear();
    for_each_above(row, bar, [&](TokenId id) {
      ids_.push_back(id);
      if (ids_.size() == 4 * k + 64) bar = drop_all_but_best();
    });
    if (ids_.size() > k) drop_all_but_best();
    std::sort(ids_.begin(), ids_.end());
  }

  /// What at least k tokens reach: the k-th greatest of some maxima of disjoint parts. Parts of
  /// several runs, where there are many, because to find it among few takes less than what a slightly
  /// lower bar lets through.
  float first_bar(std::span<const float> maxima, std::size_t k) {
    constexpr std::size_t kRuns = 8;
    const std::size_t together = maxima.size() / kRuns >= 2 * k ? kRuns : 1;
    logits_.clear();
    for (std::size_t i = 0; i < maxima.size(); i += together) {
      const auto part = maxima.subspan(i, std::min(together, maxima.size() - i));
      logits_.push_back(*std::max_element(part.begin(), part.end()));
    }
    if (logits_.size() < k) return -std::numeric_limits<float>::infinity();
    const auto kth = logits_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(logits_.begin(), kth, logits_.end(), std::greater<>());
    return *kth;
  }

  /// Keep the fewest tokens whose weights reach `enough`. @return totals of their weights
  WeightTotals keep_top_p(double enough) {
    double mass = choose_candidates(enough);
    const auto likelier = [this](std::size_t a, std::size_t b) {
      return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
    };
    std::sort(order_.begin(), order_.end(), likelier);
    // At least one of them, because the likeliest token stays whatever p is.
    std::size_t keep = 0;
    do {
      mass += weights_[order_[keep++]];
    } while (keep < order_.size() && mass < enough);
    const std::size_t least = order_[keep - 1];
    const double least_weight = weights_[least];
    std::size_t to = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const double weight = weights_[i];
      ids_[to] = ids_[i];
      weights_[to] = weight;
      to += weight > least_weight || (weight == least_weight && i <= least);
    }
    ids_.resize(to);
    weights_.resize(to);
    return {sum(weights_), least_weight};
  }

  /// The same for a whole row. In most rows a few likely tokens weigh enough, and the others need
  /// not be looked at. Other rows pay twice, at worst three times.
  WeightTotals keep_top_p_of_all(const PenalisedRow& row, double temperature, double enough) {
    for (const double weight : {1e-3, 1e-5}) {
      keep_above(row, temperature, weight);
      if (ids_.size() > row.logits.size() / 2) break;
      // With room for rounding: added up in another order, they must still be enough.
      if (weigh(row, temperature).sum > enough * (1 + 1e-9)) return keep_top_p(enough);
    }
    keep_all(row.logits.size());
    weigh(row, temperature);
    return keep_top_p(enough);
  }

  /// Fills order_ with places among which the sum is reached; all likelier tokens stay. Many
  /// weights are counted by size, and only those of one class have to be sorted then.
  /// @return the weight of the likelier ones
  double choose_candidates(double enough) {
    order_.clear();
    if (weights_.size() < kClasses) {
      for (std::size_t i = 0; i < weights_.size(); ++i) order_.push_back(i);
      return 0.0;
    }
    mass_.fill(0.0);
    for (const double weight : weights_) mass_[class_of(weight)] += weight;
    // `enough` may be more than there is, where the sums of a target are a little too large.
    std::size_t lightest = kClasses - 1;
    while (mass_[lightest] == 0) --lightest;
    double before = 0;
    std::size_t last = 0;
    while (last < lightest && before + mass_[last] < enough) before += mass_[last++];
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (class_of(weights_[i]) == last) order_.push_back(i);
    }
    return before;
  }

  /// 0 for weights of 1, 16 for those of a half, and so on; the last class is that of all smaller
  /// ones.
  static std::size_t class_of(double weight) noexcept {
    const auto below_one = std::bit_cast<std::uint64_t>(1.0) - std::bit_cast<std::uint64_t>(weight);
    return std::min<std::uint64_t>(below_one >> 48, kClasses - 1);
  }

  /// Keep tokens of at least `min_p` times the greatest weight, which is 1, and those that are
  /// possible at all.
  void normalise(double min_p, WeightTotals totals, Law& out) {
    const double least = std::max(min_p, std::numeric_limits<double>::denorm_min());
    if (totals.smallest < least) {
      std::size_t to = 0;
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        const double weight = weights_[i];
        ids_[to] = ids_[i];
        weights_[to] = weight;
        to += weight >= least;
      }
      ids_.resize(to);
      weights_.resize(to);
      totals.sum = sum(weights_);
    }
    detail::row_loops().scale(weights_.data(), weights_.size(), 1.0 / totals.sum);
    // Handed over, not copied: the buffers of the last law come back as buffers.
    std::swap(out.ids, ids_);
    std::swap(out.p, weights_);
  }

  std::vector<TokenId> ids_;     // tokens still possible, ascending
  std::vector<float> logits_;    // of ids_, where they are not all
  std::vector<double> weights_;  // of ids_, 1 for the likeliest
  static constexpr std::size_t kClasses = 1024;
  std::array<double, kClasses> mass_{};
  std::vector<std::size_t> order_;
  std::vector<float> maxima_;    // [n_vocab / Scores::kRun] of rows that come without
  std::vector<float> adjusted_;  // [n_vocab]
  LogitAdjustments adjustments_;
  TemperedRow tempered_;
  StepwiseLaw stepwise_;
};

}  // namespace foredraft::inline v0
