// The law under the transforms that have no short cut: every rule, chains and trees; and what forbids
// and forces tokens.

#include <limits>

#include <foredraft/drafter/model_drafter.hpp>

#include "property/law_setup.hpp"
#include "property/mutants.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using law::Tokens;
using mutants::drawn;
using setup::kExact;
using setup::some_q;

namespace {

void check(const law::LawReport& report, int at_least) {
  INFO(report);
  CHECK(report.keeps_the_law());
  CHECK(report.cases >= at_least);
}

}  // namespace

TEST_CASE("rules keep the law under every transform without a short cut") {
  const auto& transforms = law::law_stepwise_transforms();
  check(law::check_law(fd::RejectionSampling{}, transforms, {{3, 1}, {2, 2, false}}), 300);
  check(law::check_law(fd::SampleAndMatch{}, transforms, {{3, 1}, {2, 2, false}}), 300);
  check(law::check_law(fd::BlockVerification{}, transforms, {{3, 1}, {2, 2}}), 200);
}

TEST_CASE("greedy text is the best token of what penalties and bans leave") {
  const std::vector<fd::SamplingOptions> greedy{
      {.logit_bias = {{1, 1.5f}}},
      {.bad_words = {{1, 0}, {2}}},
      {.dry_multiplier = 2.0f, .dry_allowed_length = 1},
      {.reasoning = {.tokens = 1, .open = {0}, .close = {1}}},
  };
  check(law::check_law(fd::Greedy{}, greedy, {{3, 1}, {3, 2, false}}), 60);
}

TEST_CASE("a reasoning budget holds when a draft crosses its end, and the law is the target's") {
  // 0 opens a part and 1 closes it: of three tokens, so parts open and close all the time.
  const std::vector<fd::SamplingOptions> budgets{
      {.temperature = 1.0f, .reasoning = {.tokens = 1, .open = {0}, .close = {1}}},
      {.temperature = 1.0f,
       .reasoning = {.tokens = 1, .open = {0}, .close = {1}, .message = {2, 2}}},
      {.temperature = 1.5f,
       .top_k = 2,
       .reasoning = {.tokens = 0, .open = {0, 0}, .close = {2, 1}}},
  };
  check(law::check_law(fd::RejectionSampling{}, budgets, {{3, 1}, {3, 2, false}}), 60);
  check(law::check_law(fd::SampleAndMatch{}, budgets, {{3, 1}}), 40);
  check(law::check_law(fd::BlockVerification{}, budgets, {{3, 1}, {3, 2}}), 40);
}

TEST_CASE("drafters that draw from a transformed q keep the law, whatever the transform") {
  toy::Target target(3, 0, 1.5, 5);
  toy::Target draft_model(3, 2, 2.0, 77);
  for (const fd::SamplingOptions& sampling : law::law_stepwise_transforms()) {
    if (sampling.greedy()) continue;
    fd::Options options{.max_tokens = 3, .n_draft = 2};
    options.sampling = sampling;
    // Whatever part of the text the draft model has read.
    const int tail = 1 + static_cast<int>(&sampling - law::law_stepwise_transforms().data()) % 4;
    const auto found = law::law_of([&](fd::Rng& rng) {
      fd::ModelDrafter drafter{draft_model,
                               toy::TokenCache{32, 16},
                               {.sampling = fd::DraftSampling::kDrawn, .tail = tail}};
      fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(drafter), setup::kRejection};
      decoder.use_rng(&rng);
      decoder.generate(setup::kPeriodic, options);
      return Tokens(decoder.tokens().begin(), decoder.tokens().end());
    });
    CAPTURE(&sampling - law::law_stepwise_transforms().data());
    CHECK(law::total_variation(found, setup::expected(target, setup::kPeriodic, sampling, 3)) <=
          kExact);
  }
}

TEST_CASE("no end token comes before min_tokens, in any part of a draft, and the law is kept") {
  toy::Target target(3, 0, 1.5, 5);
  const fd::TokenId end = 1;
  const int n = 5;
  for (const int least : {1, 3, 5}) {
    for (const TreeRule& rule : {setup::kMatch, setup::kRejection, setup::kBlock}) {
      fd::Options options = setup::with({.temperature = 1.0f}, 2);
      options.max_tokens = n;
      options.min_tokens = least;
      options.end_tokens = {end};
      const auto found = setup::law_of_calls(
          target, drawn({.draw_from = some_q(3)}), rule,
          [&](setup::Decoder& decoder) { decoder.generate(setup::kPeriodic, options); });
      // By definition: no end among the first tokens, then until the first end.
      law::JointLaw law{{setup::kPeriodic, 1.0}};
      for (int i = 0; i < n; ++i) {
        law::JointLaw longer;
        for (const auto& [text, probability] : law) {
          if (text.size() > setup::kPeriodic.size() && text.back() == end) {
            longer[text] += probability;
            continue;
          }
          std::vector<float> logits = target.logits_after(text);
          if (i < least) logits[end] = -std::numeric_limits<float>::infinity();
          const auto p = law::p_of(logits, {.temperature = 1.0f});
          for (fd::TokenId token = 0; token < 3; ++token) {
            Tokens next = text;
            next.push_back(token);
            if (p[fd::idx(token)] > 0) {
              longer[next] += probability * p[fd::idx(token)];
            }
          }
        }
        law = std::move(longer);
      }
      CAPTURE(least);
      CHECK(law::total_variation(found, law) <= kExact);
    }
  }
}
