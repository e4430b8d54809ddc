#include <foredraft/sampling/at_least.hpp>

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Places = std::vector<std::size_t>;

Places at_least(const std::vector<float>& values, float bar) {
  Places places;
  fd::for_each_at_least(values, bar, [&](std::size_t i) { places.push_back(i); });
  return places;
}

}  // namespace

TEST_CASE("all values that reach the bar are visited, in order, whatever the length") {
  std::mt19937 random(7);
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> values(n);
    for (float& x : values) x = static_cast<float>(random() % 40);
    for (const float bar : {-1.0f, 0.0f, 20.0f, 38.5f, 39.0f, 40.0f}) {
      CAPTURE(n, bar);
      Places expected;
      for (std::size_t i = 0; i < n; ++i) {
        if (values[i] >= bar) expected.push_back(i);
      }
      CHECK(at_least(values, bar) == expected);
    }
  }
}

TEST_CASE("the bar may rise on the way, within a group of values too") {
  const std::vector<float> values{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 10};
  Places records;
  float bar = 0;
  fd::for_each_at_least(values, bar, [&](std::size_t i) {
    records.push_back(i);
    bar = values[i] + 1;
  });
  CHECK(records == Places{0, 2, 4, 5, 19});
}

TEST_CASE("NaN reaches no bar") {
  std::vector<float> values(20, std::numeric_limits<float>::quiet_NaN());
  values[18] = 1;
  CHECK(at_least(values, std::numeric_limits<float>::lowest()) == Places{18});
}
