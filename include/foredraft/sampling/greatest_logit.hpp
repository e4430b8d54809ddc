#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// The greatest value of a row, which has to be a row of logits.
/// @shape logits [n_vocab]
/// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf
/// @cost O(n_vocab)
inline float greatest_logit(std::span<const float> logits) {
  // Eight maxima side by side: one would wait for itself at every step.
  std::array<float, 8> most;
  most.fill(-std::numeric_limits<float>::infinity());
  bool valid = true;
  std::size_t i = 0;
  const auto look = [&](float x, float& greatest) {
    valid &= x <= std::numeric_limits<float>::max();  // false for NaN too
    greatest = x > greatest ? x : greatest;
  };
  for (; i + most.size() <= logits.size(); i += most.size()) {
    for (std::size_t lane = 0; lane < most.size(); ++lane) look(logits[i + lane], most[lane]);
  }
  for (; i < logits.size(); ++i) look(logits[i], most[0]);
  const float greatest = *std::max_element(most.begin(), most.end());
  if (valid && greatest >= std::numeric_limits<float>::lowest()) return greatest;
  throw Error(ErrorCode::kInvalidLogits, "a row of logits with NaN, +inf or no finite value",
              "finite logits, -inf for impossible tokens",
              "the weights or the target's forward pass are damaged");
}

}  // namespace foredraft::inline v0
