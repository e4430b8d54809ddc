#include <foredraft/control/answer_lengths.hpp>

#include <limits>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kAny = std::numeric_limits<int>::max();

}  // namespace

TEST_CASE("of the first answer nothing is known but that what is old lives on") {
  const fd::AnswerLengths lengths;
  CHECK(lengths.rest(0, kAny).mean == 32);
  CHECK(lengths.rest(0, kAny).safe == 32);
  CHECK(lengths.rest(100, kAny).mean == 100);
  CHECK(lengths.rest(100, 7).mean == 7);
  CHECK(lengths.rest(100, 7).safe == 7);
}
TEST_CASE("the last answers that became longer tell how long this one may go on") {
  fd::AnswerLengths lengths;
  for (const int tokens : {10, 50, 90, 130}) lengths.add(tokens);
  CHECK(lengths.n() == 4);
  CHECK(lengths.rest(0, kAny).mean == Approx((32 + 10 + 50 + 90 + 130) / 5.0));
  CHECK(lengths.rest(0, kAny).safe == 32);  // of 10, 32, 50, 90 and 130
  CHECK(lengths.rest(40, kAny).mean == Approx((40 + 10 + 50 + 90) / 4.0));
  CHECK(lengths.rest(40, kAny).safe == 40);
  CHECK(lengths.rest(40, 45).mean == Approx((40 + 10 + 45 + 45) / 4.0));
  CHECK(lengths.rest(130, kAny).mean == 130);
}
TEST_CASE("answers before the last eight are forgotten") {
  fd::AnswerLengths lengths;
  lengths.add(1'000'000);
  for (int i = 0; i < 8; ++i) lengths.add(20);
  CHECK(lengths.n() == 9);
  CHECK(lengths.rest(0, kAny).mean == Approx((32 + 8 * 20) / 9.0));
  CHECK(lengths.rest(20, kAny).mean == 32);
  const fd::AnswerLengths same(lengths.last(), lengths.n());
  CHECK(same.rest(0, kAny).mean == lengths.rest(0, kAny).mean);
  const fd::AnswerLengths::Last last{100, 5, 5, 5, 5, 5, 5, 5};
  CHECK(fd::AnswerLengths(last, 1).rest(0, kAny).mean == 66);  // the others are not known
}
