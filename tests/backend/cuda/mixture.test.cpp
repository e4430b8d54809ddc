#include <foredraft/backend/cuda/mixture.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Choice {
  std::vector<int> experts;
  std::vector<float> weights;
};
Choice choose(const std::vector<float>& scores, int n_experts, int n_used) {
  const int n_rows = static_cast<int>(scores.size()) / n_experts;
  const on_device::Array<float> in(scores), weights(fd::idx(n_rows * n_used));
  const on_device::Array<int> experts(fd::idx(n_rows * n_used));
  on_device::launch<ChooseExperts>(ChooseExperts::grid(n_rows), 0,
                                   {in.data(), n_experts, n_used, experts.data(), weights.data()});
  return {experts.read(), weights.read()};
}

}  // namespace

TEST_CASE("experts are chosen by score, equal ones by number") {
  std::vector<float> scores(2 * 70, -1.0f);
  scores[40] = 2.0f;
  scores[3] = scores[69] = 1.0f;
  scores[70 + 5] = -INFINITY;
  const Choice chosen = choose(scores, 70, 4);
  CHECK(chosen.experts == std::vector<int>{40, 3, 69, 0, 0, 1, 2, 3});
  const double all = 1 + 2 * std::exp(-1.0) + std::exp(-3.0);
  CHECK(static_cast<double>(chosen.weights[0]) == Approx(1 / all).epsilon(1e-6));
  CHECK(static_cast<double>(chosen.weights[2]) == Approx(std::exp(-1.0) / all).epsilon(1e-6));
  CHECK(chosen.weights[4] == 0.25f);
}

TEST_CASE("scores that are no numbers come last, and nobody is chosen twice") {
  const Choice none = choose(std::vector<float>(5, NAN), 5, 3);
  CHECK(none.experts == std::vector<int>{0, 1, 2});
  for (const float weight : none.weights) CHECK(std::isnan(weight));
  const Choice some = choose({NAN, 5.0f, NAN}, 3, 2);
  CHECK(some.experts == std::vector<int>{1, 0});
  CHECK(some.weights == std::vector<float>{1.0f, 0.0f});
}

TEST_CASE("pairs lie by expert, in the order of rows") {
  const std::vector<int> chosen{2, 0, 2, 300, 0, 2};
  const on_device::Array<int> experts(chosen), first(302), pairs(6);
  on_device::launch<SortPairs>({}, 0, {experts.data(), 6, 301, first.data(), pairs.data()});
  CHECK(pairs.read() == std::vector<int>{1, 4, 0, 2, 5, 3});
  CHECK(first.read()[0] == 0);
  CHECK(first.read()[1] == 2);
  CHECK(first.read()[2] == 2);
  CHECK(first.read()[300] == 5);
  CHECK(first.read()[301] == 6);
}
