#include <foredraft/backend/cuda/head.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <foredraft/core/scores.hpp>
#include <foredraft/sampling/top_tokens.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Found {
  std::vector<int> argmax;
  std::vector<float> maxima;
  std::vector<double> sums;
  std::vector<int> top;  // [n_rows, Scores::kTop]
};

Found head(const std::vector<std::vector<float>>& rows, const std::vector<float>& temperatures) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const int n_rows = static_cast<int>(rows.size());
  const int n_vocab = static_cast<int>(rows[0].size());
  const int n_runs = parts_of(n_vocab, static_cast<int>(fd::Scores::kRun));
  const std::size_t n = fd::idx(n_rows * n_runs);
  const on_device::Array<float> logits(all), by(temperatures), maxima(n);
  const on_device::Array<Best> best(n);
  const on_device::Array<double> sums(std::vector<double>(n, -1.0));
  const on_device::Array<int> argmax(rows.size()), top(rows.size() * fd::idx(HeadTop::kTop));
  const HeadRuns::Args runs{
      logits.data(), n_rows,     n_vocab, n_runs, temperatures.empty() ? nullptr : by.data(),
      best.data(),   sums.data()};
  on_device::launch<HeadRuns>(HeadRuns::grid(runs), 0, runs);
  on_device::launch<HeadArgmax>(HeadArgmax::grid(n_rows), HeadArgmax::shared(),
                                {best.data(), n_runs, argmax.data(), maxima.data()});
  on_device::launch<HeadTop>(
      HeadTop::grid(n_rows), HeadTop::shared(),
      {logits.data(), n_vocab, maxima.data(), n_runs, argmax.data(), top.data()});
  return {argmax.read(), maxima.read(), sums.read(), top.read()};
}

}  // namespace

TEST_CASE("the best token, and of each run the greatest logit and the sum of weights") {
  constexpr float kTemperature = 0.7f;
  for (const std::size_t n_vocab :
       {std::size_t{1}, std::size_t{127}, std::size_t{128}, std::size_t{129}, std::size_t{1000},
        std::size_t{20000}, std::size_t{131201}}) {
    CAPTURE(n_vocab);
    const std::vector<std::vector<float>> rows{mini::normals(n_vocab, 1, 5.0f),
                                               mini::normals(n_vocab, 2, 5.0f)};
    const Found found = head(rows, {0.0f, kTemperature});
    const std::size_t n_runs = found.sums.size() / 2;
    for (std::size_t row = 0; row < 2; ++row) {
      CHECK(found.argmax[row] == fd::Scores::argmax_of(rows[row]));
      int wrong = 0;
      for (std::size_t run = 0; run < n_runs; ++run) {
        const auto begin = rows[row].begin() + static_cast<std::ptrdiff_t>(run * fd::Scores::kRun);
        const auto end = rows[row].begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(n_vocab, (run + 1) * fd::Scores::kRun));
        const float greatest = *std::max_element(begin, end);
        double sum = 0;
        for (auto value = begin; value != end; ++value) {
          sum += std::exp((static_cast<double>(*value) - static_cast<double>(greatest)) /
                          static_cast<double>(kTemperature));
        }
        wrong += found.maxima[row * n_runs + run] != greatest;
        const double found_sum = found.sums[row * n_runs + run];
        wrong += row == 0 ? found_sum != -1.0 : std::abs(found_sum / sum - 1) > 1e-12;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the best tokens of a row, of many and of few") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::size_t n_vocab : {std::size_t{1}, std::size_t{7}, std::size_t{8},
                                    std::size_t{129}, std::size_t{1100}, std::size_t{40000}}) {
    for (const bool few_values : {false, true}) {  // with ties, and without
      CAPTURE(n_vocab, few_values);
      std::vector<std::vector<float>> rows{mini::normals(n_vocab, 3, 5.0f),
                                           mini::normals(n_vocab, 4, 5.0f)};
      if (few_values) {
        for (float& value : rows[0]) value = std::round(value / 8);
        std::fill(rows[1].begin(), rows[1].end(), -kInf);
        rows[1][n_vocab / 2] = 1.0f;
        rows[1][n_vocab - 1] = 2.0f;
      }
      const Found found = head(rows, {});
      for (std::size_t row = 0; row < 2; ++row) {
        std::array<fd::TokenId, HeadTop::kTop> expected;
        expected.fill(-1);
        fd::top_tokens<HeadTop::kTop>(rows[row], expected);
        const auto first = found.top.begin() + static_cast<std::ptrdiff_t>(row * HeadTop::kTop);
        CHECK(std::equal(expected.begin(), expected.end(), first));
      }
    }
  }
}

TEST_CASE("ties go to the lowest id, and damaged rows have none") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<std::vector<float>> rows(7, std::vector<float>(400, -2.0f));
  rows[0][130] = rows[0][399] = rows[0][131] = 5.0f;  // in one run and in another
  rows[1][399] = NAN;
  rows[2][0] = kInf;
  std::fill(rows[3].begin(), rows[3].end(), -kInf);
  rows[4] = rows[3];
  rows[4][17] = -3e38f;
  rows[5][0] = -0.0f;
  rows[5][1] = 0.0f;
  const Found found = head(rows, std::vector<float>(7, 1.0f));
  CHECK(found.argmax == std::vector<int>{130, -1, -1, -1, 17, 0, 0});
  const auto top_of = [&](std::size_t row) {
    const auto first = found.top.begin() + static_cast<std::ptrdiff_t>(row * HeadTop::kTop);
    return std::vector<int>(first, first + HeadTop::kTop);
  };
  CHECK(top_of(0) == std::vector<int>{130, 131, 399, 0, 1, 2, 3, 4});
  for (const std::size_t damaged : {1u, 2u, 3u}) {
    CHECK(top_of(damaged) == std::vector<int>(HeadTop::kTop, -1));
  }
  CHECK(top_of(4) == std::vector<int>{17, -1, -1, -1, -1, -1, -1, -1});
  CHECK(top_of(5) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(found.sums[3 * 4] == 0.0);  // nothing is possible in that run
  CHECK(found.sums[4 * 4] == 1.0);
  CHECK(found.sums[6 * 4] == 128.0);
  CHECK(found.sums[6 * 4 + 3] == 16.0);
  const Found without = head(rows, {});
  CHECK(without.argmax == found.argmax);
  CHECK(without.sums[0] == -1.0);
}
