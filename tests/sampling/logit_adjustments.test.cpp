#include <foredraft/sampling/logit_adjustments.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/sampling/transforms.hpp>

#include "support/catch.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;

namespace {

using Ids = std::vector<fd::TokenId>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<float> allowed(const fd::SamplingOptions& options, const Ids& text,
                           std::vector<float> logits = {1.0f, 2.0f, 3.0f, 4.0f}) {
  fd::LogitAdjustments::allow(options, fd::Lookback({text}), logits);
  return logits;
}

fd::TokenId forced(const fd::ReasoningBudget& budget, const Ids& text) {
  const fd::TokenId token = fd::forced_by(budget, fd::Lookback({text}));
  CHECK(token == law::forced_after(budget, text));
  return token;
}

// <think> is 10 and </think> is 11.
const fd::ReasoningBudget kBudget{.tokens = 2, .open = {10}, .close = {11}};

}  // namespace

TEST_CASE("a logit bias is added, and -inf forbids") {
  CHECK(allowed({.logit_bias = {{0, 2.5f}, {2, kNever}, {0, 1.0f}}}, {}) ==
        std::vector<float>{4.5f, 2.0f, kNever, 4.0f});
  CHECK(allowed({.logit_bias = {{9, 1.0f}, {-1, 1.0f}}}, {}).size() == 4);  // not of this row
}

TEST_CASE("the last token of a bad word is forbidden behind the others") {
  const fd::SamplingOptions options{.bad_words = {{3}, {0, 1, 2}}};
  CHECK(allowed(options, {}) == std::vector<float>{1, 2, 3, kNever});
  CHECK(allowed(options, {0, 1}) == std::vector<float>{1, 2, kNever, kNever});
  CHECK(allowed(options, {0, 1, 1}) == std::vector<float>{1, 2, 3, kNever});
  CHECK(allowed(options, {1}) == std::vector<float>{1, 2, 3, kNever});
}

TEST_CASE("tokens are held back before a position, not from it on") {
  const fd::SamplingOptions options{.held_back = {{1}, 3}};
  CHECK(allowed(options, {0, 0}) == std::vector<float>{1, kNever, 3, 4});
  CHECK(allowed(options, {0, 0, 0}) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a reasoning budget closes the part that is open, and no other") {
  CHECK(forced(kBudget, {}) == -1);
  CHECK(forced(kBudget, {1, 2, 3, 4}) == -1);
  CHECK(forced(kBudget, {10}) == -1);
  CHECK(forced(kBudget, {10, 1}) == -1);
  CHECK(forced(kBudget, {10, 1, 2}) == 11);
  CHECK(forced(kBudget, {10, 1, 2, 11}) == -1);
  CHECK(forced(kBudget, {10, 1, 11, 5, 6, 7}) == -1);      // the model closed it by itself
  CHECK(forced(kBudget, {10, 1, 2, 11, 10, 1, 2}) == 11);  // a second part has a budget of its own
  fd::ReasoningBudget none = kBudget;
  none.tokens = 0;
  CHECK(forced(none, {10}) == 11);
  none.tokens = -1;
  CHECK(forced(none, {10, 1, 2, 3}) == -1);
}

TEST_CASE("the message comes before the marker, token by token") {
  fd::ReasoningBudget budget = kBudget;
  budget.message = {5, 6};
  CHECK(forced(budget, {10, 1, 2}) == 5);
  CHECK(forced(budget, {10, 1, 2, 5}) == 6);
  CHECK(forced(budget, {10, 1, 2, 5, 6}) == 11);
  CHECK(forced(budget, {10, 5, 6}) == 5);  // its own words are no message
  // More was thought, before there was a budget: it closes there.
  CHECK(forced(budget, {10, 1, 2, 3, 4, 4}) == 5);
  CHECK(forced(budget, {10, 1, 2, 3, 4, 5}) == 6);
}

TEST_CASE("markers of several tokens open and close as one") {
  const fd::ReasoningBudget budget{.tokens = 1, .open = {10, 3}, .close = {11, 3}};
  CHECK(forced(budget, {10}) == -1);
  CHECK(forced(budget, {10, 3, 1}) == 11);
  CHECK(forced(budget, {10, 3, 1, 11}) == 3);
  CHECK(forced(budget, {10, 3, 1, 11, 3}) == -1);
}

TEST_CASE("a forced token is all that a row allows, whatever else is asked for") {
  const fd::SamplingOptions options{
      .logit_bias = {{3, kNever}},
      .bad_words = {{3}},
      .reasoning = {.tokens = 1, .open = {0}, .close = {3}},
  };
  CHECK(allowed(options, {0, 1}) == std::vector<float>{kNever, kNever, kNever, 0.0f});
  // A row that forbids the token, or does not know it, is left as it is.
  fd::SamplingOptions budget;
  budget.reasoning = {.tokens = 1, .open = {0}, .close = {3}};
  CHECK(allowed(budget, {0, 1}, {1, 2, 3, kNever}) == std::vector<float>{1, 2, 3, kNever});
  fd::SamplingOptions other;
  other.reasoning = {.tokens = 1, .open = {0}, .close = {9}};
  CHECK(allowed(other, {0, 1}) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("adjusted rows equal the definition, at temperature 0 and above it") {
  std::mt19937 random(12);
  for (int times = 0; times < 300; ++times) {
    fd::SamplingOptions options{.temperature = random() % 2 == 0 ? 0.0f : 0.8f};
    if (random() % 2 == 0) options.logit_bias = {{1, 1.5f}, {4, kNever}};
    if (random() % 2 == 0) options.bad_words = {{2, 3}, {0, 0, 1}, {5}};
    if (random() % 2 == 0) options.held_back = {{0, 3}, 7};
    if (random() % 2 == 0) options.reasoning = {3, {1}, {2}, {3, 3}};
    if (random() % 2 == 0) options.repeat_penalty = 1.7f;
    if (random() % 2 == 0) options.frequency_penalty = 0.6f;
    if (random() % 2 == 0) options.dry_multiplier = 0.9f;
    std::vector<float> logits(7);
    for (float& x : logits) x = static_cast<float>(random() % 1000) / 250.0f - 2.0f;
    Ids text(random() % 12);
    for (fd::TokenId& token : text) token = static_cast<fd::TokenId>(random() % 7);
    fd::Transforms transforms;
    fd::Law p;
    transforms.apply(options, logits, {text}, p);
    const std::vector<double> expected = law::p_of(logits, options, text);
    for (std::size_t id = 0; id < expected.size(); ++id) {
      CHECK(std::abs(p(static_cast<fd::TokenId>(id)) - expected[id]) < 1e-13);
    }
  }
}

TEST_CASE("penalties come in the order of the samplers, at temperature 0 too") {
  // DRY takes off 1.75: 4 / 2 - 1.75 = 0.25 loses to 1, and (4 - 1.75) / 2 = 1.125 does not.
  fd::SamplingOptions options{.repeat_penalty = 2.0f,
                              .dry_multiplier = 1.0f,
                              .dry_allowed_length = 1,
                              .samplers = {fd::Sampler::kPenalties, fd::Sampler::kDry}};
  const Ids text{0, 2, 0, 2};
  fd::Transforms transforms;
  fd::Law p;
  const std::vector<float> logits{4.0f, 1.0f, -9.0f};
  transforms.apply(options, logits, {text}, p);
  CHECK(p.ids == Ids{1});
  options.samplers = {fd::Sampler::kDry, fd::Sampler::kPenalties};
  transforms.apply(options, logits, {text}, p);
  CHECK(p.ids == Ids{0});
}

TEST_CASE("options that leave no token are an error of the options, a bad row is one of the row") {
  const auto code_of = [](const std::vector<float>& logits) {
    fd::Transforms transforms;
    fd::Law p;
    try {
      transforms.apply({.bad_words = {{0}, {1}}}, logits, {}, p);
    } catch (const fd::Error& error) {
      return error.code();
    }
    FAIL("no error");
    throw 0;
  };
  CHECK(code_of({1.0f, 2.0f}) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of({1.0f, std::nanf("")}) == fd::ErrorCode::kInvalidLogits);
  CHECK(code_of({std::nanf(""), 1.0f, 0.0f}) == fd::ErrorCode::kInvalidLogits);
}

TEST_CASE("how far options look back") {
  const auto lookback = fd::lookback_of;
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  CHECK(lookback({.temperature = 1.0f, .top_k = 40}) == 0);
  CHECK(lookback({.repeat_penalty = 1.1f}) == 64);
  CHECK(lookback({.repeat_penalty = 1.1f, .penalty_last_n = -1}) == kAll);
  CHECK(lookback({.bad_words = {{1, 2, 3}, {4}}}) == 2);
  CHECK(lookback({.dry_multiplier = 0.8f, .dry_penalty_last_n = 100}) == 100);
  CHECK(lookback({.dry_multiplier = 0.8f}) == kAll);
  CHECK(lookback({.reasoning = {5, {1}, {2}}}) == kAll);
}
