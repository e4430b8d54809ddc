#include <foredraft/drafter/vocabulary_map.hpp>

#include <limits>

#include "support/catch.hpp"
#include "support/spelled_codec.hpp"

namespace fd = foredraft;

TEST_CASE("tokens that stand for the same bytes belong together, one to one") {
  const fd::VocabularyMap map(spelled_codec({"a", "b", "ab", "", "b", "c"}),
                              spelled_codec({"c", "ab", "x", "a", "a", ""}));
  CHECK(map.size() == 3);
  CHECK(map.to_draft(0) == 3);  // the first of two that are alike
  CHECK(map.to_draft(2) == 1);
  CHECK(map.to_draft(5) == 0);
  CHECK(map.to_target(3) == 0);
  for (const fd::TokenId token : {1, 3, 4, 6, -1}) CHECK(map.to_draft(token) == map.kNone);
  for (const fd::TokenId token : {2, 4, 5, 6, -1}) CHECK(map.to_target(token) == map.kNone);
}

TEST_CASE("a row in the target's tokens has -inf for what the draft model cannot spell") {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  fd::VocabularyMap map(spelled_codec({"a", "b", "ab"}), spelled_codec({"ab", "x", "a", "y"}));
  fd::Scores scores;
  const auto row = [&](std::vector<float> logits, int n_vocab) {
    map.translate(logits, n_vocab, scores);
    return std::vector<float>(scores.logits(0).begin(), scores.logits(0).end());
  };
  CHECK(row({1, 2, 3, 4}, 3) == std::vector<float>{3, kNever, 1});
  CHECK(scores.argmax(0) == 0);
  // A head may be shorter than its vocabulary, and a target padded or cut.
  CHECK(row({5, 2}, 3) == std::vector<float>{kNever, kNever, 5});
  CHECK(row({1, 2, 3, 4}, 5) == std::vector<float>{3, kNever, 1, kNever, kNever});
  CHECK(row({1, 2, 3, 4}, 2) == std::vector<float>{3, kNever});
}
