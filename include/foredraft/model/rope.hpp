#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Rotations by position, computed once in double and kept: every layer and every pass reads the
/// same numbers, so a position turns alike however it is reached.
/// @cost n_rot * 4 bytes a position; trigonometry once a position
/// @source Su et al. 2021, arXiv:2104.09864
class RopeRotations {
 public:
  RopeRotations() = default;

  /// @shape factors [n_rot / 2] or empty: frequency i is divided by factors[i]
  RopeRotations(RopeKind kind, int n_rot, double base, double scale, std::span<const float> factors)
      : kind_(kind), n_rot_(n_rot) {
    const auto pairs = static_cast<std::size_t>(n_rot) / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / n_rot;
      const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
      frequencies_.push_back(std::pow(base, exponent) * scale / factor);
    }
  }

  /// Rotations of the given positions, one row each. The table is good until the next call. One
  /// thread at a time.
  RopeTable table(std::span<const Position> positions) {
    const std::size_t pairs = frequencies_.size();
    cos_rows_.resize(positions.size() * pairs);
    sin_rows_.resize(positions.size() * pairs);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const auto position = static_cast<std::size_t>(positions[row]);
      extend_to(position);
      for (std::size_t i = 0; i < pairs; ++i) {
        cos_rows_[row * pairs + i] = cos_[position * pairs + i];
        sin_rows_[row * pairs + i] = sin_[position * pairs + i];
      }
    }
    return {kind_, n_rot_, cos_rows_.data(), sin_rows_.data()};
  }

 private:
  void extend_to(std::size_t position) {
    if (position < known_) return;
    const std::size_t pairs = frequencies_.size();
    cos_.resize((position + 1) * pairs);
    sin_.resize((position + 1) * pairs);
    for (; known_ <= position; ++known_) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(known_) * frequencies_[i];
        cos_[known_ * pairs + i] = static_cast<float>(std::cos(angle));
        sin_[known_ * pairs + i] = static_cast<float>(std::sin(angle));
      }
    }
  }

  RopeKind kind_ = RopeKind::kAdjacent;
  int n_rot_ = 0;
  std::vector<double> frequencies_;         // [n_rot / 2]
  std::size_t known_ = 0;                   // positions computed so far
  std::vector<float> cos_, sin_;            // [known, n_rot / 2]
  std::vector<float> cos_rows_, sin_rows_;  // [rows, n_rot / 2]
};

}  // namespace foredraft::inline v0
