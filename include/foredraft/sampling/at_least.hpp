#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace foredraft::inline v0 {

/// f(i) for the places of values that are at least `bar`, which f may raise; ascending. Groups of
/// values that are all below it are passed over.
/// @cost that of reading the values, where few are reached
template <typename F>
void for_each_at_least(std::span<const float> values, const float& bar, F&& f) {
  constexpr std::size_t kGroup = 16;
  std::size_t i = 0;
  for (; i < values.size(); i += kGroup) {
    const auto group = values.subspan(i, std::min(kGroup, values.size() - i));
    int n_reached = 0;  // without a branch, so that compilers compare whole vectors
    for (const float value : group) n_reached += value >= bar;
    if (n_reached == 0) continue;
    for (std::size_t k = 0; k < group.size(); ++k) {
      if (group[k] >= bar) f(i + k);
    }
  }
}

}  // namespace foredraft::inline v0
