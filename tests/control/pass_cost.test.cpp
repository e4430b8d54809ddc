#include <foredraft/control/pass_cost.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("before anything is measured a pass of one row takes a second") {
  const auto curve = fd::PassCost().curve(0);
  CHECK(curve[0] == 0);
  CHECK(curve[1] == 1);
  CHECK(curve[8] == Approx(1.21));
  for (std::size_t rows = 2; rows < curve.size(); ++rows) CHECK(curve[rows] > curve[rows - 1]);
}
TEST_CASE("what was measured is between its neighbours, and typical beyond them") {
  fd::PassCost cost;
  cost.learn(1, 100, 0.02);
  cost.learn(5, 100, 0.03);
  const auto curve = cost.curve(100);
  CHECK(curve[1] == 0.02);
  CHECK(curve[3] == Approx(0.025));
  CHECK(curve[5] == 0.03);
  CHECK(curve[8] == Approx(0.03 * 1.21 / 1.12));
  CHECK(cost.curve(5000) == curve);  // better than nothing
}
TEST_CASE("bands of context are learned apart") {
  fd::PassCost cost;
  cost.learn(1, 100, 0.02);
  cost.learn(1, 4000, 0.03);
  CHECK(cost.curve(511)[1] == 0.02);
  CHECK(cost.curve(2048)[1] == 0.03);
  CHECK(cost.curve(1 << 20)[1] == 0.03);
}
TEST_CASE("one late pass is no change, many are; an early one is believed sooner") {
  fd::PassCost cost;
  for (int i = 0; i < 20; ++i) cost.learn(4, 0, 0.02);
  cost.learn(4, 0, 2.0);
  CHECK(cost.curve(0)[4] < 0.0211);
  for (int i = 0; i < 40; ++i) cost.learn(4, 0, 0.04);
  CHECK(cost.curve(0)[4] == Approx(0.04).epsilon(0.05));
  for (int i = 0; i < 10; ++i) cost.learn(4, 0, 0.01);
  CHECK(cost.curve(0)[4] < 0.0145);
}
TEST_CASE("more rows never look cheaper") {
  fd::PassCost cost;
  cost.learn(1, 0, 0.05);  // it was disturbed
  cost.learn(8, 0, 0.02);
  CHECK(cost.curve(0)[1] == 0.02);
  CHECK(cost.curve(0)[4] == 0.02);
}
TEST_CASE("nonsense teaches nothing") {
  fd::PassCost cost;
  for (const double seconds : {0.0, -1.0, std::nan("")}) cost.learn(2, 0, seconds);
  cost.learn(0, 0, 1.0);
  cost.learn(65, 0, 1.0);
  CHECK(cost.curve(0) == fd::PassCost().curve(0));
  cost.learn(1, -5, 0.5);
  CHECK(cost.curve(0)[1] == 0.5);
}
