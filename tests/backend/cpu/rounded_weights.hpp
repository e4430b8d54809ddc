#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

/// The weights by which values in q8_0 of a whole block of 32 positions are summed, by their definition:
/// a weight times the scale of 32 dimensions is rounded to 127ths of the greatest weight times the
/// greatest scale.
struct RoundedWeights {
  static constexpr std::size_t kBlock = 32;
  std::array<double, kBlock> of_codes{};
  /// What a code may count more or less, where floats may round a part the other way.
  std::array<double, kBlock> slack{};

  /// @shape weight(p), scale(p) for p in 0 .. 31
  template <typename Weight, typename Scale>
  RoundedWeights(Weight&& weight, Scale&& scale) {
    double most = 0;
    double greatest = 0;
    for (std::size_t p = 0; p < kBlock; ++p) {
      most = std::max<double>(most, weight(p));
      greatest = std::max<double>(greatest, scale(p));
    }
    if (most == 0 || greatest == 0) return;
    const double step = most * greatest / 127;
    for (std::size_t p = 0; p < kBlock; ++p) {
      const double part = 127 * (weight(p) / most) * (scale(p) / greatest);
      of_codes[p] = step * std::nearbyint(part);
      if (std::abs(part - std::floor(part) - 0.5) < 5e-3) slack[p] = step;
    }
  }
};
