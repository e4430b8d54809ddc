#include <foredraft/drafter/forced_tokens.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/path_constraint.hpp"
#include "support/throws.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// Places 0, 5, 10, ... are free; what follows is counted up.
PathConstraint counting(int n_vocab) {
  const auto after = [n_vocab](const Tokens& text) {
    const fd::TokenId next = (text.back() + 1) % n_vocab;
    return next == 3 ? 4 : next;  // an end token of some targets
  };
  return {n_vocab,
          [=](const Tokens& text, fd::TokenId token) {
            return text.size() % 5 == 0 || token == after(text);
          },
          [](const Tokens& text) { return text.size() % 5 == 0; },
          [=](Tokens text) {
            Tokens forced;
            while (text.size() % 5 != 0) {
              forced.push_back(after(text));
              text.push_back(forced.back());
            }
            return forced;
          }};
}

fd::DraftTree draft_of(const fd::Context& context, fd::Limit limit) {
  fd::DraftTree draft;
  draft.reset(context.end());
  fd::ForcedTokens().propose(context, limit, draft);
  return draft;
}

}  // namespace

TEST_CASE("what the constraint forces is drafted, within the limit") {
  const Tokens text{1, 2};
  fd::ConstraintPath path(counting(16), std::make_shared<const Tokens>());
  fd::Context context;
  context.tokens = text;
  CHECK(draft_of(context, {8, 8}).drafted() == 0);  // no constraint
  context.constraint = &path;
  CHECK(draft_of(context, {8, 8}).drafted() == 0);  // nothing is forced
  path.step(7);
  const fd::DraftTree draft = draft_of(context, {8, 8});
  REQUIRE(draft.drafted() == 4);
  CHECK(draft.token(1) == 8);
  CHECK(draft.token(4) == 11);
  CHECK(draft.confidence(1) > draft.confidence(4));
  CHECK(draft_of(context, {3, 8}).drafted() == 3);
  CHECK(draft_of(context, {3, 2}).drafted() == 2);
  CHECK(draft_of(context, {0, 8}).drafted() == 0);
  const Tokens assumed{8, 9};
  context.assumed = assumed;
  CHECK(draft_of(context, {8, 8}).token(1) == 10);
}

TEST_CASE("forced tokens are accepted, and the text is that of plain decoding") {
  toy::Target target(16, 0);
  fd::Options options{.max_tokens = 50, .n_draft = 0};
  options.constraint = counting(16);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const fd::Result expected = plain.generate(Tokens{1, 2}, options);
  for (int depth = 1; depth <= 16; ++depth) {
    options.n_draft = depth;
    fd::Decoder decoder{target, toy::TokenCache{}, fd::ForcedTokens{}, fd::Greedy{}};
    const fd::Result result = decoder.generate(Tokens{1, 2}, options);
    CHECK(result.tokens == expected.tokens);
    CHECK(result.stats.accepted == result.stats.drafted);
    if (depth >= 4) CHECK(result.stats.rounds <= 20);
  }
}

TEST_CASE(
    "hazards 28, 31, 32: with any draft the text under a constraint is the plain one, its end "
    "too") {
  toy::Target target(8, 0);
  target.end_token = 3;
  for (int prompt = 0; prompt < 8; ++prompt) {
    fd::Options options{.max_tokens = 60, .n_draft = 0};
    options.constraint = counting(8);
    fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
    const fd::Result expected = plain.generate(Tokens{prompt, 2}, options);
    if (expected.finish_reason == fd::FinishReason::kEnd) {
      CHECK(expected.tokens.back() == 3);
      CHECK(expected.tokens.size() % 5 == 1);  // legal where the constraint may end
    }
    Tokens truth{prompt, 2};
    truth.insert(truth.end(), expected.tokens.begin(), expected.tokens.end());
    truth.push_back(3);  // what is drafted behind the end is not asked about
    for (int depth = 1; depth <= 16; ++depth) {
      options.n_draft = depth;
      for (const int branches : {1, 2}) {
        fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter::sweeping(truth, 8, branches),
                            fd::Greedy{}};
        const fd::Result result = decoder.generate(Tokens{prompt, 2}, options);
        CHECK(result.tokens == expected.tokens);
        CHECK(result.finish_reason == expected.finish_reason);
      }
    }
  }
}

TEST_CASE("hazards 26, 27: only committed tokens move the constraint, over calls and snapshots") {
  toy::Target target(16, 0);
  fd::Options options{.max_tokens = 37, .n_draft = 4};
  options.constraint = counting(16);
  const OracleDrafter wrong(Tokens(80, 5), 16, 0.5, 7);
  fd::Decoder whole{target, toy::TokenCache{}, wrong, fd::Greedy{}};
  const fd::Result expected = whole.generate(Tokens{1, 2}, options);
  fd::Decoder decoder{target, toy::TokenCache{}, wrong, fd::Greedy{}};
  options.max_tokens = 7;
  Tokens text = decoder.generate(Tokens{1, 2}, options).tokens;
  const auto snapshot = decoder.snapshot();
  options.max_tokens = 30;
  const fd::Result rest = decoder.resume(options);
  text.insert(text.end(), rest.tokens.begin(), rest.tokens.end());
  CHECK(text == expected.tokens);
  decoder.restore(snapshot);
  CHECK(decoder.resume(options).tokens == rest.tokens);
}

TEST_CASE("a text ends by itself where the constraint is finished, and stays so") {
  toy::Target target(16, 0);
  const PathConstraint three{16, [](const Tokens& text, fd::TokenId) { return text.size() < 3; },
                             [](const Tokens& text) { return text.size() == 3; }};
  fd::Options options;
  options.constraint = three;
  fd::Decoder decoder{target, toy::TokenCache{}, fd::ForcedTokens{}, fd::Greedy{}};
  const fd::Result result = decoder.generate(Tokens{1}, options);
  CHECK(result.tokens.size() == 3);
  CHECK(result.finish_reason == fd::FinishReason::kEnd);
  const fd::Result again = decoder.resume(options);
  CHECK(again.tokens.empty());
  CHECK(again.finish_reason == fd::FinishReason::kEnd);
  options.constraint = PathConstraint(three);  // another one begins where the text ends
  CHECK(decoder.resume(options).tokens.size() == 3);
}

TEST_CASE("a constraint that cannot go on, or of another vocabulary, is refused") {
  toy::Target target(16, 0);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  fd::Options options;
  options.constraint =
      PathConstraint{16, [](const Tokens& text, fd::TokenId) { return text.size() < 2; }};
  CHECK(code_of([&] { decoder.generate(Tokens{1}, options); }) ==
        fd::ErrorCode::kInvalidConstraint);
  CHECK(decoder.tokens().size() == 3);  // what was final stays
  options.constraint = arbitrary_constraint(17);
  CHECK(code_of([&] { decoder.generate(Tokens{1}, options); }) ==
        fd::ErrorCode::kVocabularyMismatch);
}
