#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/core/rng.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/sampling/exponentials.hpp>

namespace foredraft::inline v0 {

/// Weights exp((x - greatest) / temperature) of a row of logits, worked out run by run.
class TemperedRow final : public LazyWeights {
 public:
  static_assert(kRun == Scores::kRun);

  /// Look at a row, which must outlive the use.
  /// @param maxima  greatest logit of each run  @param greatest  of the row
  /// @cost O(n_vocab / kRun)
  void look_at(std::span<const float> logits, std::span<const float> maxima, float greatest,
               double temperature) {
    logits_ = logits;
    greatest_ = greatest;
    temperature_ = temperature;
    bounds_.resize(maxima.size());
    exponentiate(maxima, greatest, temperature, bounds_.data());
    // No token of a run weighs more than its likeliest. The rest is room for rounding.
    for (double& bound : bounds_) bound *= kRun * (1 + 1e-9);
  }

  std::span<const double> bounds() const noexcept override { return bounds_; }

  std::span<const double> run(std::size_t i) noexcept override {
    const auto logits = logits_.subspan(i * kRun, std::min(kRun, logits_.size() - i * kRun));
    exponentiate(logits, greatest_, temperature_, weights_.data());
    return std::span(weights_).first(logits.size());
  }

 private:
  std::span<const float> logits_;
  float greatest_ = 0;
  double temperature_ = 1;
  std::vector<double> bounds_;  // [n_runs]
  std::array<double, kRun> weights_{};
};

}  // namespace foredraft::inline v0
