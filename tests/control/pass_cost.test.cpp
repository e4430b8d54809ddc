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
TEST_CASE("what was not measured is between its neighbours, and beyond them typical at least") {
  fd::PassCost cost;
  cost.learn(1, 100, 0.02);
  for (int i = 0; i < 2; ++i) cost.learn(5, 100, 0.03);
  const auto dear = cost.curve(100);
  CHECK(dear[1] == 0.02);
  CHECK(dear[3] == Approx(0.025));
  CHECK(dear[5] == 0.03);
  CHECK(dear[8] == Approx(0.0375));
  CHECK(cost.curve(5000) == dear);  // better than nothing

  fd::PassCost cheap;
  cheap.learn(1, 100, 0.02);
  cheap.learn(5, 100, 0.0202);
  CHECK(cheap.curve(100)[8] == Approx(0.0202 * 1.21 / 1.12));
}
TEST_CASE("bands of context are learned apart") {
  fd::PassCost cost;
  cost.learn(1, 100, 0.02);
  for (int i = 0; i < 2; ++i) cost.learn(1, 4000, 0.03);
  CHECK(cost.curve(511)[1] == 0.02);
  CHECK(cost.curve(2048)[1] == 0.03);
  CHECK(cost.curve(1 << 20)[1] == 0.03);
}
TEST_CASE("a band of context is four times as long as the one before") {
  fd::PassCost cost;
  for (int i = 0; i < 9; ++i) cost.learn(1, 600, 0.02);
  for (int i = 0; i < 40; ++i) cost.learn(1, 2000, 0.024);
  CHECK(cost.curve(600)[1] == Approx(0.024).epsilon(0.02));
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
TEST_CASE("the first of its kind that comes very late is believed to a bound") {
  fd::PassCost cost;
  cost.learn(1, 0, 0.02);
  cost.learn(2, 0, 1.0);
  CHECK(cost.curve(0)[2] == Approx(1.25 * 1.03 * 0.02));
  cost.learn(2, 0, 0.021);
  CHECK(cost.curve(0)[2] == Approx(0.021));
}
TEST_CASE("how many rows were measured") {
  fd::PassCost cost;
  CHECK(cost.most_rows() == 0);
  cost.learn(1, 0, 0.02);
  CHECK(cost.most_rows() == 1);
  cost.learn(9, 3000, 0.03);  // 9 and 10 are one class
  CHECK(cost.most_rows() == 10);
  cost.learn(2, 0, 0.02);
  CHECK(cost.most_rows() == 10);
}
TEST_CASE(
    "what was restored takes the place of what was there, also of the curve that was asked for "
    "last") {
  fd::PassCost other;
  other.learn(1, 0, 0.05);
  other.learn(4, 0, 0.06);
  fd::PassCost cost;
  cost.learn(1, 0, 0.02);
  cost.learn(9, 0, 0.03);
  CHECK(cost.curve(0)[1] == 0.02);
  const fd::PassCost copy = cost;
  cost.restore(other.state());
  CHECK(cost.curve(0) == other.curve(0));
  CHECK(cost.most_rows() == 4);
  CHECK(copy.curve(0)[1] == 0.02);
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
