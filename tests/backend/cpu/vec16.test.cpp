#include <foredraft/backend/cpu/vec16.hpp>

#include <cmath>
#include <limits>

#include "support/catch.hpp"

// In the instruction set that this file is compiled for; the others are tested through the kernels
// that use them.
using V = foredraft::cpu::Vec16<foredraft::cpu::NativeArch>;

TEST_CASE("loads, stores and parts") {
  float x[18];
  for (int i = 0; i < 18; ++i) x[i] = static_cast<float>(i);
  float y[18] = {};
  V::load(x + 1).store(y + 1);
  for (int i = 0; i < 18; ++i) CHECK(y[i] == (i >= 1 && i <= 16 ? x[i] : 0.0f));
  V::load_first(x, 3, -1.0f).store(y);
  for (int i = 0; i < 16; ++i) CHECK(y[i] == (i < 3 ? x[i] : -1.0f));
  V::broadcast(7.0f).store_first(y, 2);
  CHECK((y[0] == 7.0f && y[1] == 7.0f && y[2] == 2.0f));
}

TEST_CASE("sum and greatest of the lanes") {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>((i * 7) % 16) - 20.0f;
  CHECK(V::load(x).sum() == 120.0f - 320.0f);
  CHECK(V::load(x).greatest() == -5.0f);
  // The order: distance 8, 4, 2, 1. 1e8 + -1e8 meet first, so the ones survive.
  for (float& value : x) value = 1.0f;
  x[3] = 1e8f;
  x[11] = -1e8f;
  CHECK(V::load(x).sum() == 14.0f);
}

TEST_CASE("where_less and max take the second of an unordered pair") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float y[16];
  max(V::broadcast(nan), V::broadcast(1.0f)).store(y);
  CHECK(y[0] == 1.0f);
  where_less(V::broadcast(nan), V::broadcast(1.0f), V::broadcast(2.0f), V::broadcast(3.0f))
      .store(y);
  CHECK(y[5] == 3.0f);
}

TEST_CASE("exp") {
  double worst = 0;
  for (double x = -87.2; x < 88.0; x += 0.0137) {
    float y[16];
    exp(V::broadcast(static_cast<float>(x))).store(y);
    const double expected = std::exp(static_cast<double>(static_cast<float>(x)));
    worst = std::fmax(worst, std::abs(y[9] / expected - 1));
  }
  CHECK(worst < 2e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto exp_of = [](float x) {
    float y[16];
    exp(V::broadcast(x)).store(y);
    return y[0];
  };
  CHECK(exp_of(0.0f) == 1.0f);
  CHECK(exp_of(-infinity) == 0.0f);
  CHECK(exp_of(-100.0f) == 0.0f);
  CHECK(exp_of(100.0f) == infinity);
  CHECK(exp_of(infinity) == infinity);
  CHECK(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}
