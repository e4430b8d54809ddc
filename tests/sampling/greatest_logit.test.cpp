#include <foredraft/sampling/greatest_logit.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool refused(const std::vector<float>& row) {
  try {
    fd::greatest_logit(row);
    return false;
  } catch (const fd::Error& error) {
    return error.code() == fd::ErrorCode::kInvalidLogits;
  }
}

}  // namespace

TEST_CASE("the greatest is found wherever it stands, at sizes around a vector's") {
  for (std::size_t n = 1; n <= 33; ++n) {
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> row(n, -kInfinity);
      row[at] = -3.5f;
      CHECK(fd::greatest_logit(row) == -3.5f);
    }
  }
}

TEST_CASE("what is no row of logits is refused, wherever the fault stands") {
  CHECK(refused({}));
  for (std::size_t n = 1; n <= 33; ++n) {
    CHECK(refused(std::vector<float>(n, -kInfinity)));
    for (std::size_t at = 0; at < n; ++at) {
      for (const float fault : {kNaN, kInfinity}) {
        std::vector<float> row(n, 1.0f);
        row[at] = fault;
        CHECK(refused(row));
      }
    }
  }
}
