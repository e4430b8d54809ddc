#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// A context that was stretched by YaRN. Frequencies that turn many times within the original
/// context stay; those that turn less than once are divided by the factor; those between lie on a
/// ramp.
/// @source Peng et al. 2023, arXiv:2309.00071, sections 3.2 and 3.4
struct Yarn {
  double factor = 1.0;      ///< by which the context is longer
  double original = 0.0;    ///< positions of the context before
  double beta_fast = 32.0;  ///< turns from which a frequency stays
  double beta_slow = 1.0;   ///< turns up to which it is divided

  /// What each frequency is divided by. @shape [n_rot / 2]
  std::vector<double> stretch(Dim n_rot, double base) const {
    // The pair that turns so many times within the original context.
    const auto pair_of = [&](double turns) {
      return n_rot * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
    };
    const double low = std::max(std::floor(pair_of(beta_fast)), 0.0);
    const double high = std::min(std::ceil(pair_of(beta_slow)), static_cast<double>(n_rot - 1));
    const double width = std::max(high - low, 0.001);
    std::vector<double> by(idx(n_rot) / 2);
    for (std::size_t i = 0; i < by.size(); ++i) {
      const double slow = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
      by[i] = 1 / (1 - slow + slow / factor);
    }
    return by;
  }

  /// What has turned is multiplied by it, so that scores over more positions stay as sharp.
  double magnitude() const { return factor <= 1 ? 1.0 : 1.0 + 0.1 * std::log(factor); }
};

}  // namespace foredraft::inline v0
