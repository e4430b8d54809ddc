#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace foredraft::inline v0 {

namespace detail {

/// All values by `f`, in eight partial results side by side: one alone would wait for itself at
/// every step.
template <typename F>
double reduce(std::span<const double> values, double neutral, F f) noexcept {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes];
  for (double& lane : lanes) lane = neutral;
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = f(lanes[lane], values[i + lane]);
  }
  for (; i < values.size(); ++i) lanes[0] = f(lanes[0], values[i]);
  for (std::size_t lane = 1; lane < kLanes; ++lane) lanes[0] = f(lanes[0], lanes[lane]);
  return lanes[0];
}

}  // namespace detail

/// The sum of some values, 0 of none. The order of additions depends on their number alone.
inline double sum(std::span<const double> values) noexcept {
  return detail::reduce(values, 0.0, [](double a, double b) { return a + b; });
}

/// The smallest of some values, infinity of none. @param values  no NaN
inline double smallest(std::span<const double> values) noexcept {
  return detail::reduce(values, std::numeric_limits<double>::infinity(),
                        [](double a, double b) { return a < b ? a : b; });
}

}  // namespace foredraft::inline v0
