#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// The same for whole runs one behind the other. In vectors that are written down: compilers leave
/// such a loop as it is. Sixteen bytes are what every processor has, and wider ones are no faster.
/// @shape x [n_runs, Scores::kRun], maxima [n_runs] @cost that of reading them
inline void greatest_of_runs(const float* x, std::size_t n_runs, float* maxima,
                             bool& valid) noexcept {
  using Floats [[gnu::vector_size(16)]] = float;
  using Flags [[gnu::vector_size(16)]] = std::int32_t;
  constexpr std::size_t kLanes = 4;
  constexpr std::size_t kSides = 4;
  static_assert(Scores::kRun % (kSides * kLanes) == 0);
  const auto more = [](Floats a, Floats b) { return a > b ? a : b; };
  Flags faults[kSides] = {};
  for (std::size_t run = 0; run < n_runs; ++run) {
    Floats most[kSides];
    for (Floats& side : most) side = Floats{} - std::numeric_limits<float>::infinity();
    const auto look = [&](std::size_t side) {
      Floats v;
      std::memcpy(&v, x + side * kLanes, sizeof v);
      faults[side] |= ~(v <= std::numeric_limits<float>::max());  // NaN too
      most[side] = more(v, most[side]);
    };
    for (std::size_t i = 0; i < Scores::kRun; i += kSides * kLanes, x += kSides * kLanes) {
      look(0), look(1), look(2), look(3);  // not a loop, which not every compiler unrolls
    }
    const Floats all = more(more(most[0], most[1]), more(most[2], most[3]));
    maxima[run] = std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
  }
  const Flags any = (faults[0] | faults[1]) | (faults[2] | faults[3]);
  valid &= (any[0] | any[1] | any[2] | any[3]) == 0;
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
/// @return the greatest of them
/// @errors as greatest_logit @cost that of reading the row
inline float maxima_of_runs(std::span<const float> logits, std::vector<float>& maxima) {
  const std::size_t whole = logits.size() / Scores::kRun;
  const auto rest = logits.subspan(whole * Scores::kRun);
  maxima.resize(whole + (rest.empty() ? 0 : 1));
  bool valid = true;
  detail::greatest_of_runs(logits.data(), whole, maxima.data(), valid);
  if (!rest.empty()) maxima.back() = detail::greatest_of(rest, valid);
  const float greatest = detail::greatest_of(maxima, valid);
  return detail::require_logits(greatest, valid);
}

}  // namespace foredraft::inline v0
