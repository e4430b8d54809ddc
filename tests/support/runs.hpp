#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <foredraft/core/scores.hpp>
#include <foredraft/detail/exponentials.hpp>
#include <foredraft/sampling/greatest_logit.hpp>

/// What a target hands over of the runs of a row.
class RunsOf {
 public:
  RunsOf(std::span<const float> logits, float temperature) : temperature_(temperature) {
    foredraft::maxima_of_runs(logits, maxima_);
    for (const float greatest : maxima_) {
      const std::size_t begin = sums_.size() * foredraft::Scores::kRun;
      const auto run =
          logits.subspan(begin, std::min(foredraft::Scores::kRun, logits.size() - begin));
      sums_.push_back(foredraft::sum_of_weights(run, greatest, temperature));
    }
  }

  foredraft::Runs maxima() const { return {.maxima = maxima_}; }
  foredraft::Runs all() const { return {maxima_, sums_, temperature_}; }

 private:
  std::vector<float> maxima_;
  std::vector<double> sums_;
  float temperature_;
};
