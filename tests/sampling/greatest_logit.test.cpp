#include <foredraft/sampling/greatest_logit.hpp>

#include <algorithm>
#include <utility>
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

TEST_CASE("a run's greatest is found wherever it stands") {
  std::vector<float> row(2 * fd::Scores::kRun, -7.0f);
  std::vector<float> maxima;
  bool found = true;
  for (std::size_t at = 0; at < row.size(); ++at) {
    row[at] = -3.5f;
    found &= fd::maxima_of_runs(row, maxima) == -3.5f;
    found &= maxima[at / fd::Scores::kRun] == -3.5f && maxima[1 - at / fd::Scores::kRun] == -7.0f;
    row[at] = -7.0f;
  }
  CHECK(found);
}

TEST_CASE("maxima of runs: the greatest of each, and the same rows refused") {
  constexpr std::size_t kRun = fd::Scores::kRun;
  std::vector<float> maxima{7.0f};  // of another row
  for (const std::size_t n : {std::size_t{1}, kRun - 1, kRun, kRun + 1, 3 * kRun + 5}) {
    std::vector<float> row(n, -kInfinity);
    for (std::size_t i = 0; i < n; i += 2) row[i] = static_cast<float>(i);
    const float greatest = fd::maxima_of_runs(row, maxima);
    REQUIRE(maxima.size() == (n + kRun - 1) / kRun);
    for (std::size_t run = 0; run < maxima.size(); ++run) {
      const std::size_t last = std::min(n, (run + 1) * kRun) - 1;
      CHECK(maxima[run] == static_cast<float>(last / 2 * 2));
    }
    CHECK(greatest == *std::max_element(maxima.begin(), maxima.end()));
    bool all_refused = true;
    for (std::size_t at = 0; at < n; ++at) {
      for (const float fault : {kNaN, kInfinity}) {
        const float before = std::exchange(row[at], fault);
        try {
          fd::maxima_of_runs(row, maxima);
          all_refused = false;
        } catch (const fd::Error&) {
        }
        row[at] = before;
      }
    }
    CHECK(all_refused);
  }
  CHECK_THROWS_AS(fd::maxima_of_runs(std::vector<float>(300, -kInfinity), maxima), fd::Error);
  CHECK_THROWS_AS(fd::maxima_of_runs({}, maxima), fd::Error);
}
