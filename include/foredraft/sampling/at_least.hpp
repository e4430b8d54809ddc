#pragma once

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
  for (; i + kGroup <= values.size(); i += kGroup) {
    int n_reached = 0;  // without a branch, so that compilers compare whole vectors
    for (std::size_t k = 0; k < kGroup; ++k) n_reached += values[i + k] >= bar;
    if (n_reached == 0) continue;
    for (std::size_t k = i; k < i + kGroup; ++k) {
      if (values[k] >= bar) f(k);
    }
  }
  for (; i < values.size(); ++i) {
    if (values[i] >= bar) f(i);
  }
}

}  // namespace foredraft::inline v0
