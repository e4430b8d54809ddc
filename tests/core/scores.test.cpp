#include <foredraft/core/scores.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("argmax is the first greatest value, at any place of a row of any size") {
  for (const std::size_t n :
       {1u, 2u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 127u, 129u, 1000u}) {
    int wrong = 0;
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> row(n, -kInfinity);
      row[at] = -1e30f;
      wrong += fd::Scores::argmax_of(row) != static_cast<fd::TokenId>(at);
      for (std::size_t i = at; i < n; ++i) row[i] = 2.5f;  // ties go to the lowest id
      wrong += fd::Scores::argmax_of(row) != static_cast<fd::TokenId>(at);
      row[at] = std::nanf("");  // a NaN anywhere spoils the row, even beside a greater value
      row[n - 1 - at] = at == n - 1 - at ? row[at] : kInfinity;
      wrong += fd::Scores::argmax_of(row) != -1;
      std::fill(row.begin(), row.end(), 1.0f);  // and so does +inf, as for sampling
      row[at] = kInfinity;
      wrong += fd::Scores::argmax_of(row) != -1;
    }
    CAPTURE(n);
    CHECK(wrong == 0);
  }
  CHECK(fd::Scores::argmax_of(std::vector<float>(5, -kInfinity)) == -1);
  CHECK(fd::Scores::argmax_of({}) == -1);
}

TEST_CASE("a row holds what was wanted of it, and nothing else") {
  fd::Scores scores;
  const std::vector<float> row{0.5f, 3.0f, -1.0f};
  scores.reset({fd::RowNeed::kLogits, {}}, 2, 3);
  scores.set_row(0, std::vector<float>{9.0f, 0.0f, 0.0f});
  scores.set_row(1, row);
  CHECK(scores.argmax(0) == 0);
  CHECK(scores.argmax(1) == 1);
  CHECK(std::ranges::equal(scores.logits(1), row));

  scores.reset({fd::RowNeed::kArgmax, {}}, 1, 3);
  CHECK(scores.argmax(0) == -1);  // nothing of the pass before is left
  scores.set_row(0, row);
  CHECK(scores.argmax(0) == 1);
  CHECK(std::as_const(scores).logits(0).empty());

  scores.reset({fd::RowNeed::kNothing, {}}, 4, 3);
  scores.set_row(3, row);
  CHECK(scores.rows() == 4);
  CHECK(scores.argmax().empty());
  CHECK(scores.logits(0).empty());
}

TEST_CASE("best tokens come from a target that finds them, and in logits from others") {
  fd::Scores scores;
  scores.reset({fd::RowNeed::kTop, {}}, 2, 300);
  CHECK(scores.need() == fd::RowNeed::kLogits);
  CHECK(scores.logits(1).size() == 300);
  CHECK(std::as_const(scores).top(1).empty());

  scores.reset({fd::RowNeed::kTop, {}}, 2, 300, 0, true);
  CHECK(scores.need() == fd::RowNeed::kTop);
  CHECK(scores.logits(1).empty());
  CHECK(scores.hand_over_maxima(1).empty());
  scores.top(1)[0] = 7;
  const std::vector<fd::TokenId> of_1{7, -1, -1, -1, -1, -1, -1, -1};
  CHECK(std::ranges::equal(std::as_const(scores).top(1), of_1));
  CHECK(std::as_const(scores).top(0)[0] == -1);
  scores.reset({fd::RowNeed::kTop, {}}, 2, 300, 0, true);
  CHECK(scores.top(1)[0] == -1);  // nothing of the pass before is left

  for (const auto other : {fd::RowNeed::kArgmax, fd::RowNeed::kLogits, fd::RowNeed::kSums}) {
    scores.reset({other, {}}, 2, 300, 0, true);
    CHECK(scores.need() == other);
    CHECK(scores.top(1).empty());
  }
}

TEST_CASE("a tap that was not asked for is refused") {
  fd::Scores scores;
  const std::vector<int> layers{3};
  scores.reset({fd::RowNeed::kNothing, layers}, 2, 8, 4);
  CHECK(scores.tap(1, 3).size() == 4);
  CHECK_THROWS_AS(scores.tap(1, 0), fd::Error);
  CHECK_THROWS_AS(scores.tap(1, 4), fd::Error);
  CHECK_THROWS_AS(scores.tap(2, 3), fd::Error);
  CHECK_THROWS_AS(scores.tap(0, -1), fd::Error);
  scores.reset({fd::RowNeed::kNothing, {}}, 2, 8, 4);  // what an earlier pass wrote
  CHECK_THROWS_AS(std::as_const(scores).tap(0, 3), fd::Error);
}

TEST_CASE("taps of all rows and layers lie apart") {
  const std::vector<int> layers{9, 3, 9};  // in any order, and more than once
  fd::Scores scores;
  scores.reset({fd::RowNeed::kNothing, layers}, 3, 10, 4);
  CHECK(std::ranges::equal(scores.tapped(), std::vector<int>{3, 9}));
  for (int row = 0; row < 3; ++row) {
    for (const int layer : {3, 9}) {
      REQUIRE(scores.tap(row, layer).size() == 4);
      std::ranges::fill(scores.tap(row, layer), static_cast<float>(10 * row + layer));
    }
  }
  for (int row = 0; row < 3; ++row) {
    for (const int layer : {3, 9}) {
      for (const float x : std::as_const(scores).tap(row, layer))
        CHECK(x == static_cast<float>(10 * row + layer));
    }
  }
}

TEST_CASE("what is known of runs is there where the target hands it over, pass by pass") {
  const fd::Want want{fd::RowNeed::kSums, {}, 0.5f};
  fd::Scores scores;
  const fd::Scores& read = scores;
  scores.reset(want, 2, 300);
  scores.argmax()[0] = 1;
  scores.argmax()[1] = 299;
  CHECK(read.logits(1).size() == 300);  // kSums includes them
  CHECK(read.runs(0).maxima.empty());
  CHECK(read.runs(0).sums.empty());
  REQUIRE(scores.hand_over_maxima(1).size() == 3);
  scores.hand_over_maxima(0)[2] = 1.0f;
  scores.hand_over_maxima(1)[0] = 2.0f;
  CHECK(read.runs(0).maxima[2] == 1.0f);
  CHECK(read.runs(1).maxima[0] == 2.0f);
  CHECK(read.runs(1).sums.empty());  // one without the other
  REQUIRE(scores.hand_over_sums(1).size() == 3);
  scores.hand_over_sums(0)[1] = 3.0;
  scores.hand_over_sums(1)[2] = 4.0;
  CHECK(read.runs(0).sums[1] == 3.0);
  CHECK(read.runs(1).sums[2] == 4.0);
  CHECK(read.runs(1).temperature == 0.5f);
  scores.argmax()[1] = -1;  // no row of logits
  CHECK(read.runs(1).maxima.empty());
  CHECK(read.runs(1).sums.empty());
  scores.reset(want, 1, 300);
  scores.argmax()[0] = 1;
  CHECK(read.runs(0).maxima.empty());  // those of the pass before
  CHECK(read.runs(0).sums.empty());
  scores.reset({fd::RowNeed::kLogits, {}}, 1, 300);
  CHECK(scores.hand_over_maxima(0).size() == 3);
  CHECK(scores.hand_over_sums(0).empty());
  scores.reset({fd::RowNeed::kArgmax, {}}, 1, 300);
  CHECK(scores.hand_over_maxima(0).empty());
  scores.reset({fd::RowNeed::kNothing, {}}, 1, 300);
  CHECK(read.runs(0).maxima.empty());
}
