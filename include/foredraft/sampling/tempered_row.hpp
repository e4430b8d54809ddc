#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/detail/exponentials.hpp>

namespace foredraft::inline v0 {

/// A row of logits after the penalties, with what is known of its runs.
struct PenalisedRow {
  std::span<const float> logits;
  Runs runs;  // at least the maxima
  float greatest = 0;
};

/// Weights exp((x - greatest) / temperature) of a row of which nothing is dropped, worked out run by
/// run, and the probability of a single token.
class TemperedRow final : public LazyWeights {
 public:
  static_assert(kRun == Scores::kRun);

  /// Make room, so that nothing is allocated later.
  void reserve(std::size_t n_vocab) {
    of_maxima_.reserve(n_vocab / kRun + 1);
    bounds_.reserve(n_vocab / kRun + 1);
  }

  /// Look at a row, which must outlive the use.
  /// @cost O(n_vocab / kRun)
  void look_at(const PenalisedRow& row, float temperature) {
    row_ = row;
    temperature_ = temperature;
    if (row.runs.temperature != temperature) row_.runs.sums = {};
    total_.reset();
    const std::span<const float> maxima = row.runs.maxima;
    of_maxima_.resize(maxima.size());
    exponentiate(maxima, row.greatest, temperature_, of_maxima_.data());
    bounds_.resize(maxima.size());
    for (std::size_t i = 0; i < maxima.size(); ++i) {
      // No token of a run weighs more than its likeliest. The rest is room for rounding.
      const double most = row_.runs.sums.empty() ? double{kRun} : row_.runs.sums[i];
      bounds_[i] = of_maxima_[i] > 0 ? most * of_maxima_[i] * (1 + 1e-9) : 0.0;
    }
  }

  std::span<const double> bounds() const noexcept override { return bounds_; }

  std::span<const double> run(std::size_t i) noexcept override {
    const auto logits = logits_of(i);
    exponentiate(logits, row_.greatest, temperature_, weights_.data());
    return std::span(weights_).first(logits.size());
  }

  /// The sum of all weights.
  /// @cost once a row: O(n_vocab / kRun) with sums of this temperature, else O(n_vocab)
  double total() noexcept {
    if (total_) return *total_;
    double total = 0;
    for (std::size_t i = 0; i < of_maxima_.size(); ++i) {
      if (of_maxima_[i] == 0) continue;
      const double sum = row_.runs.sums.empty()
                             ? sum_of_weights(logits_of(i), row_.runs.maxima[i], temperature_)
                             : row_.runs.sums[i];
      total += of_maxima_[i] * sum;
    }
    return *(total_ = total);
  }

  /// Probability of a token; 0 of one that the row does not know. @cost that of total()
  double operator()(TokenId token) noexcept {
    const auto id = idx(token);
    if (id >= row_.logits.size()) return 0.0;
    return exponentiate(row_.logits.subspan(id, 1), row_.greatest, temperature_, nullptr).sum /
           total();
  }

 private:
  std::span<const float> logits_of(std::size_t i) const noexcept {
    return row_.logits.subspan(i * kRun, std::min(kRun, row_.logits.size() - i * kRun));
  }

  PenalisedRow row_;
  double temperature_ = 1;
  std::vector<double> of_maxima_;  // [n_runs] weights of the likeliest tokens
  std::vector<double> bounds_;     // [n_runs]
  std::optional<double> total_;
  std::array<double, kRun> weights_{};
};

}  // namespace foredraft::inline v0
