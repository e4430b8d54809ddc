#include <foredraft/model/yarn.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("yarn leaves fast frequencies, divides slow ones, and ramps between") {
  // As Qwen 3 over 131072 positions: pair i turns 32768 / (2 pi 1e6^(i / 64)) times.
  const fd::Yarn yarn{.factor = 4.0, .original = 32768.0};
  const std::vector<double> by = yarn.stretch(128, 1e6);
  REQUIRE(by.size() == 64);
  // 32 turns at pair 23.6, one at 39.7: the ramp is from 23 to 40.
  for (std::size_t i = 0; i < 64; ++i) {
    CAPTURE(i);
    const double slow = i <= 23 ? 0.0 : i >= 40 ? 1.0 : (static_cast<double>(i) - 23) / 17;
    CHECK(1 / by[i] == Approx((1 - slow) + slow / 4));
  }
  CHECK(yarn.magnitude() == Approx(1 + 0.1 * std::log(4.0)));
}

TEST_CASE("yarn of a short context divides all that turns, and no factor changes nothing") {
  const std::vector<double> by = fd::Yarn{.factor = 2.0, .original = 4.0}.stretch(8, 1e4);
  CHECK(by[0] == 1.0);
  for (std::size_t i = 1; i < 4; ++i) CHECK(by[i] == 2.0);
  const fd::Yarn none{.factor = 1.0, .original = 4096.0};
  for (const double one : none.stretch(64, 1e4)) CHECK(one == 1.0);
  CHECK(none.magnitude() == 1.0);
}
