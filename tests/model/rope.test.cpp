#include <foredraft/model/rope.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("rotations follow position and frequency, in any order of positions") {
  fd::RopeRotations rotations({fd::RopeKind::kHalves, 8, 10000.0, 1.0});
  const std::vector<fd::Position> positions{1000, 0, 3, 3};
  rotations.turn_to(positions);
  REQUIRE(rotations.cos().size() == 16);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = positions[row] * std::pow(10000.0, -2.0 * static_cast<double>(i) / 8.0);
      CHECK(rotations.cos()[row * 4 + i] == static_cast<float>(std::cos(angle)));
      CHECK(rotations.sin()[row * 4 + i] == static_cast<float>(std::sin(angle)));
    }
  }
}

TEST_CASE("what has turned is multiplied by a magnitude") {
  fd::RopeRotations rotations(
      {.kind = fd::RopeKind::kHalves, .n_rot = 2, .base = 10.0, .magnitude = 1.25});
  rotations.turn_to(std::vector<fd::Position>{2});
  CHECK(rotations.cos()[0] == static_cast<float>(1.25 * std::cos(2.0)));
  CHECK(rotations.sin()[0] == static_cast<float>(1.25 * std::sin(2.0)));
}

TEST_CASE("frequencies are scaled and divided by factors") {
  const std::vector<float> factors{1.0f, 4.0f};
  fd::RopeRotations rotations({fd::RopeKind::kAdjacent, 4, 100.0, 0.5}, factors);
  rotations.turn_to(std::vector<fd::Position>{6});
  CHECK(rotations.cos()[0] == static_cast<float>(std::cos(3.0)));
  CHECK(rotations.sin()[1] == Approx(std::sin(6.0 * 0.1 * 0.5 / 4.0)));
}
