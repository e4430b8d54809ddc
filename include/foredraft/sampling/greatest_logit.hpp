#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/scores.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// The greatest of some values, -inf for none. `valid` becomes false for NaN and +inf.
inline float greatest_of(std::span<const float> values, bool& valid) noexcept {
  // Eight maxima side by side: one would wait for itself at every step.
  std::array<float, 8> most;
  most.fill(-std::numeric_limits<float>::infinity());
  bool all_valid = true;
  std::size_t i = 0;
  const auto look = [&](float x, float& greatest) {
    all_valid &= x <= std::numeric_limits<float>::max();  // false for NaN too
    greatest = x > greatest ? x : greatest;
  };
  for (; i + most.size() <= values.size(); i += most.size()) {
    for (std::size_t lane = 0; lane < most.size(); ++lane) look(values[i + lane], most[lane]);
  }
  for (; i < values.size(); ++i) look(values[i], most[0]);
  valid &= all_valid;
  return *std::max_element(most.begin(), most.end());
}

/// @errors kInvalidLogits where a row's values are not valid or its greatest is not finite
inline float require_logits(float greatest, bool valid) {
  if (valid && std::isfinite(greatest)) return greatest;
  throw Error(ErrorCode::kInvalidLogits, "a row of logits with NaN, +inf or no finite value",
              "finite logits, -inf for impossible tokens",
              "the weights or the forward pass are damaged");
}

}  // namespace detail

/// The greatest value of a row, which has to be a row of logits.
/// @shape logits [n_vocab]
/// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf
/// @cost O(n_vocab)
inline float greatest_logit(std::span<const float> logits) {
  bool valid = true;
  const float greatest = detail::greatest_of(logits, valid);
  return detail::require_logits(greatest, valid);
}

/// What Runs::maxima holds, for a row whose target has not handed it over.
/// @errors as greatest_logit @cost O(n_vocab)
inline void maxima_of_runs(std::span<const float> logits, std::vector<float>& maxima) {
  bool valid = true;
  maxima.clear();
  for (std::size_t begin = 0; begin < logits.size(); begin += Scores::kRun) {
    const std::size_t n = std::min(Scores::kRun, logits.size() - begin);
    maxima.push_back(detail::greatest_of(logits.subspan(begin, n), valid));
  }
  const bool any = !maxima.empty();
  detail::require_logits(any ? *std::max_element(maxima.begin(), maxima.end())
                             : -std::numeric_limits<float>::infinity(),
                         valid);
}

}  // namespace foredraft::inline v0
