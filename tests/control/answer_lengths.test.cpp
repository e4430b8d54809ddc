#include <foredraft/control/answer_lengths.hpp>

#include <limits>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kAny = std::numeric_limits<int>::max();

}  // namespace

TEST_CASE("of the first answer nothing is known but that what is old lives on") {
  const fd::AnswerLengths lengths;
  CHECK(lengths.rest({}, kAny).mean == 32);
  CHECK(lengths.rest({}, kAny).safe == 32);
  CHECK(lengths.rest({.length = 100}, kAny).mean == 100);
  CHECK(lengths.rest({.length = 100}, 7).mean == 7);
  CHECK(lengths.rest({.length = 100}, 7).safe == 7);
}
TEST_CASE("the last answers that became longer tell how long this one may go on") {
  fd::AnswerLengths lengths;
  for (const int length : {10, 50, 90, 130}) lengths.add({.length = length});
  CHECK(lengths.n() == 4);
  CHECK(lengths.rest({}, kAny).mean == Approx((32 + 10 + 50 + 90 + 130) / 5.0));
  CHECK(lengths.rest({}, kAny).safe == 32);  // of 10, 32, 50, 90 and 130
  CHECK(lengths.rest({.length = 40}, kAny).mean == Approx((40 + 10 + 50 + 90) / 4.0));
  CHECK(lengths.rest({.length = 40}, kAny).safe == 40);
  CHECK(lengths.rest({.length = 40}, 45).mean == Approx((40 + 10 + 45 + 45) / 4.0));
  CHECK(lengths.rest({.length = 130}, kAny).mean == 130);
}
TEST_CASE("of answers to prompts alike the last eight count") {
  fd::AnswerLengths lengths;
  for (int i = 0; i < 24; ++i) lengths.add({.length = 1'000'000});
  for (int i = 0; i < 8; ++i) lengths.add({.length = 20});
  CHECK(lengths.n() == 32);
  CHECK(lengths.rest({}, kAny).mean == Approx((32 + 8 * 20) / 9.0));
  CHECK(lengths.rest({.length = 20}, kAny).mean == 32);
}
TEST_CASE("answers to prompts of another length count where there are fewer than three alike") {
  fd::AnswerLengths lengths;
  for (int i = 0; i < 8; ++i) {
    lengths.add({.prompt = 50 + i, .length = 10});
    lengths.add({.prompt = 600 + 10 * i, .length = 300});
  }
  CHECK(lengths.rest({.prompt = 60}, kAny).mean == Approx((32 + 8 * 10) / 9.0));
  CHECK(lengths.rest({.prompt = 500}, kAny).mean == Approx((32 + 8 * 300) / 9.0));
  CHECK(lengths.rest({.prompt = 5}, kAny).mean == Approx((32 + 3 * 10) / 4.0));
  lengths.add({.prompt = 5, .length = 40});
  CHECK(lengths.rest({.prompt = 5}, kAny).mean == Approx((32 + 40 + 2 * 10) / 4.0));
  for (int i = 0; i < 6; ++i) lengths.add({.prompt = 40, .length = 100});
  CHECK(lengths.rest({.prompt = 41}, kAny).mean == Approx((32 + 6 * 100 + 2 * 10) / 9.0));
  // As many times longer as shorter is as like.
  fd::AnswerLengths two;
  two.add({.prompt = 149, .length = 7});
  for (int i = 0; i < 8; ++i) two.add({.prompt = 64, .length = 9});
  CHECK(two.rest({.prompt = 99}, kAny).mean == Approx((32 + 7 + 7 * 9) / 9.0));
  CHECK(two.rest({.prompt = 97}, kAny).mean == Approx((32 + 8 * 9) / 9.0));
}
TEST_CASE("answers before the last 32 are forgotten") {
  fd::AnswerLengths lengths;
  lengths.add({.prompt = 1000, .length = 500});
  for (int i = 0; i < 31; ++i) lengths.add({.prompt = 10, .length = 20});
  CHECK(lengths.rest({.prompt = 1000}, kAny).mean == Approx((32 + 500 + 2 * 20) / 4.0));
  lengths.add({.prompt = 10, .length = 20});
  CHECK(lengths.rest({.prompt = 1000}, kAny).mean == Approx((32 + 3 * 20) / 4.0));
}
TEST_CASE("what is known of the last answers goes on elsewhere") {
  fd::AnswerLengths lengths;
  for (int i = 0; i < 40; ++i) lengths.add({.prompt = 100 + i, .length = 3 * i});
  const fd::AnswerLengths same(lengths.last(), lengths.n());
  for (const int prompt : {80, 120, 160}) {
    CHECK(same.rest({prompt, 5}, kAny).mean == lengths.rest({prompt, 5}, kAny).mean);
  }
  const fd::AnswerLengths::Last last{{{0, 100}, {0, 5}, {0, 5}}};
  CHECK(fd::AnswerLengths(last, 1).rest({}, kAny).mean == 66);  // the others are not known
}
