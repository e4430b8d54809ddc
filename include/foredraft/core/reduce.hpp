#pragma once

#include <cstddef>
#include <span>

namespace foredraft::inline v0 {

/// The sum of some values, 0 of none. The order of additions depends on their number alone: eight
/// partial sums side by side, because one alone would wait for itself at every step.
inline double sum(std::span<const double> values) noexcept {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  for (; i < values.size(); ++i) lanes[0] += values[i];
  for (std::size_t lane = 1; lane < kLanes; ++lane) lanes[0] += lanes[lane];
  return lanes[0];
}

}  // namespace foredraft::inline v0
