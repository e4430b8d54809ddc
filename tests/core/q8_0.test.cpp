#include <foredraft/core/q8_0.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/core/index.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a quantized block holds its values to half a code") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const float size : {1e-3f, 1.0f, 300.0f}) {
    std::vector<float> values(fd::q8_0::kValues);
    for (float& x : values) x = size * normal(random);
    const fd::q8_0 block(values.data());
    const float scale = static_cast<float>(block.scale);
    for (int i = 0; i < fd::q8_0::kValues; ++i) {
      CHECK(std::abs(block[i] - values[fd::idx(i)]) <= 0.51f * scale);
      CHECK(std::abs(block.codes[i]) <= 127);
    }
  }
}

TEST_CASE("what no code can say is NaN, all of it") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e30f}) {
    std::vector<float> values(fd::q8_0::kValues, 1.0f);
    values[17] = bad;
    const fd::q8_0 block(values.data());
    for (int i = 0; i < fd::q8_0::kValues; ++i) CHECK(std::isnan(block[i]));
  }
}

TEST_CASE("zeros stay zeros") {
  const std::vector<float> values(fd::q8_0::kValues);
  const fd::q8_0 block(values.data());
  CHECK(static_cast<float>(block.scale) == 0.0f);
  CHECK(block[5] == 0.0f);
  CHECK(fd::q8_0{}[31] == 0.0f);
}
