#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

namespace bench {

/// The value below which a part of all values lies; between two values, in proportion.
inline double quantile(std::vector<double> values, double part) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

/// a[i] / b[i]: what is compared was measured in the same turn.
inline std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) result.push_back(a[i] / b[i]);
  return result;
}

/// Median, p10, p90 and every value, as all result files have them.
inline nlohmann::ordered_json summary(const std::vector<double>& values) {
  return {{"median", median(values)},
          {"p10", quantile(values, 0.1)},
          {"p90", quantile(values, 0.9)},
          {"values", values}};
}

}  // namespace bench
