#include <foredraft/backend/cuda/tensor_core.hpp>

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace {

/// d, and `terms` products that are all `x`.
float sum(float d, double x, int terms = 16) {
  double row[16] = {}, column[16];
  for (int k = 0; k < 16; ++k) {
    if (k < terms) row[k] = x;
    column[k] = 1.0;
  }
  return foredraft::cuda::sum_of_tensor_core(d, row, column);
}

}  // namespace

TEST_CASE("terms are cut off 25 places behind the first digit of the greatest") {
  CHECK(sum(1.0f, 0x1p-25) == 1.0f + 0x1p-21f);
  CHECK(sum(1.0f, 0x1.8p-25) == 1.0f + 0x1p-21f);
  CHECK(sum(1.0f, 0x1.fp-26) == 1.0f);
  CHECK(sum(-1.0f, -0x1.8p-25) == -1.0f - 0x1p-21f);
  CHECK(sum(1.99f, 0x1p-25) == 1.99f + 0x1p-21f);  // its first digit decides, not its value
  CHECK(sum(0x1p-30f, 1.0) == 16.0f);              // and d is a term like others
}

TEST_CASE("a sum is cut off behind 24 digits, towards zero") {
  CHECK(sum(1.0f, 0x1p-24, 1) == 1.0f);
  CHECK(sum(1.0f, 0x1p-24, 3) == 1.0f + 0x1p-23f);
  CHECK(sum(-1.0f, -0x1p-24, 3) == -1.0f - 0x1p-23f);
  CHECK(sum(1.0f, -0x1p-25, 1) == std::nextafter(1.0f, 0.0f));
}

TEST_CASE("what is exact stays so, however small or great") {
  CHECK(sum(0.0f, 0.0) == 0.0f);
  CHECK(sum(3.0f, 0.25) == 7.0f);
  CHECK(sum(0x1p-140f, 0x1p-144) == 0x1p-139f);
  CHECK(sum(0x1p120f, 0x1p121) == 33 * 0x1p120f);
  CHECK(sum(0x1p127f, 0x1p124) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(
      sum(std::numeric_limits<float>::infinity(), -std::numeric_limits<double>::infinity())));
}
