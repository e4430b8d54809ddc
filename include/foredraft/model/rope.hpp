#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/model/config.hpp>

namespace foredraft::inline v0 {

/// Rotations by position, computed once in double and kept: every layer and every pass reads the
/// same numbers, so a position turns alike however it is reached. One thread at a time.
/// @cost n_rot * 4 bytes a position; trigonometry once a position
/// @source Su et al. 2021, arXiv:2104.09864
class RopeRotations {
 public:
  /// @shape factors [n_rot / 2] or empty: frequency i is divided by factors[i]
  explicit RopeRotations(const RopeShape& shape, std::span<const float> factors = {})
      : shape_(shape) {
    const std::size_t pairs = idx(shape.n_rot) / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / shape.n_rot;
      const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
      const double stretch = shape.stretch.empty() ? 1.0 : shape.stretch[i];
      frequencies_.push_back(std::pow(shape.base, exponent) * shape.scale / factor / stretch);
    }
  }

  const RopeShape& shape() const noexcept { return shape_; }

  /// Work out the rows of the given positions. cos() and sin() are good until the next call.
  void turn_to(std::span<const Position> positions) {
    const std::size_t pairs = frequencies_.size();
    cos_rows_.resize(positions.size() * pairs);
    sin_rows_.resize(positions.size() * pairs);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const std::size_t position = idx(positions[row]);
      extend_to(position);
      for (std::size_t i = 0; i < pairs; ++i) {
        cos_rows_[row * pairs + i] = cos_[position * pairs + i];
        sin_rows_[row * pairs + i] = sin_[position * pairs + i];
      }
    }
  }
  /// @shape [positions, n_rot / 2]
  std::span<const float> cos() const noexcept { return cos_rows_; }
  std::span<const float> sin() const noexcept { return sin_rows_; }

 private:
  void extend_to(std::size_t position) {
    if (position < known_) return;
    const std::size_t pairs = frequencies_.size();
    cos_.resize((position + 1) * pairs);
    sin_.resize((position + 1) * pairs);
    for (; known_ <= position; ++known_) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(known_) * frequencies_[i];
        cos_[known_ * pairs + i] = static_cast<float>(std::cos(angle) * shape_.magnitude);
        sin_[known_ * pairs + i] = static_cast<float>(std::sin(angle) * shape_.magnitude);
      }
    }
  }

  RopeShape shape_;
  std::vector<double> frequencies_;         // [n_rot / 2]
  std::size_t known_ = 0;                   // positions computed so far
  std::vector<float> cos_, sin_;            // [known, n_rot / 2]
  std::vector<float> cos_rows_, sin_rows_;  // [rows, n_rot / 2]
};

}  // namespace foredraft::inline v0
