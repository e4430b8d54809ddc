#include <foredraft/drafter/copied_run.hpp>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

Tokens first(const fd::CopiedRun& run, int count) {
  Tokens tokens;
  run.each(count, [&](fd::TokenId token) { tokens.push_back(token); });
  return tokens;
}

}  // namespace

TEST_CASE("a run that meets the end of the text goes on with itself") {
  const Tokens text{1, 2, 3, 4};
  CHECK(first(fd::CopiedRun(text, 1), 2) == Tokens{2, 3});
  CHECK(first(fd::CopiedRun(text, 1), 7) == Tokens{2, 3, 4, 2, 3, 4, 2});
  CHECK(first(fd::CopiedRun(text, 3), 3) == Tokens{4, 4, 4});
}

TEST_CASE("runs are compared as they go on, beyond the end of the text too") {
  const Tokens text{1, 2, 1, 2, 1, 2, 3, 1, 2};
  CHECK(fd::CopiedRun(text, 0).same(fd::CopiedRun(text, 2), 4));
  CHECK_FALSE(fd::CopiedRun(text, 0).same(fd::CopiedRun(text, 2), 5));
  // 1 2 3 1 2 | 1 ... and 1 2 | 1 2 1: they part at the third token.
  CHECK(fd::CopiedRun(text, 4).same(fd::CopiedRun(text, 7), 2));
  CHECK_FALSE(fd::CopiedRun(text, 4).same(fd::CopiedRun(text, 7), 3));
  const Tokens same(9, 5);
  CHECK(fd::CopiedRun(same, 2).same(fd::CopiedRun(same, 8), 60));
}

TEST_CASE("the match before a run is measured to its end, the text's beginning or the bound") {
  const Tokens text{9, 1, 2, 3, 50, 8, 1, 2, 3};
  CHECK(fd::CopiedRun(text, 4).match(2, 64) == 3);
  CHECK(fd::CopiedRun(text, 4).match(1, 2) == 2);
  const Tokens from_start{1, 2, 3, 1, 2};
  CHECK(fd::CopiedRun(from_start, 2).match(1, 64) == 2);
}

TEST_CASE("a draft is surer behind a longer match, and the farther it went well") {
  const Tokens text{1, 2, 3, 4, 5, 6};
  fd::DraftTree draft;
  draft.reset(6);
  fd::CopiedRun(text, 1).draft(draft, 3, 2, 0.5f);
  REQUIRE(draft.drafted() == 3);
  CHECK(draft.token(1) == 2);
  CHECK(draft.confidence(1) == Approx(0.5 * 3 / 4));
  CHECK(draft.confidence(3) == Approx(0.5 * 5 / 6));
  CHECK(fd::succession(0) == 0.5f);
}
