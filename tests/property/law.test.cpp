// The law of the emitted text, computed through the shipped decoder: every rule, transform, way to
// draft, chain and tree.

#include "property/law_setup.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using law::Tokens;
using setup::kExact;

namespace {

void check(const law::LawReport& report, int at_least) {
  INFO(report);
  CHECK(report.keeps_the_law());
  CHECK(report.cases >= at_least);
}

const fd::SamplingOptions kPlain{.temperature = 1.0f};
// Top-k 2 leaves few texts possible, which is what makes larger sizes affordable.
const fd::SamplingOptions kTwo{.temperature = 1.0f, .top_k = 2};

}  // namespace

TEST_CASE("every lossless rule keeps the law under every transform, on chains and trees") {
  check(law::check_law(fd::RejectionSampling{}), 500);
  check(law::check_law(fd::SampleAndMatch{}), 500);
  check(law::check_law(fd::BlockVerification{}), 300);
  check(law::check_law(fd::AnyAcceptance(fd::BlockVerification{})), 300);
}

TEST_CASE("larger vocabularies and deeper drafts keep the law") {
  check(law::check_law(fd::RejectionSampling{}, {kPlain}, {{4, 1, false}, {3, 2, false}}), 20);
  check(law::check_law(fd::RejectionSampling{}, {kPlain}, {{2, 3, false}, {2, 4, false}}), 20);
  check(law::check_law(fd::SampleAndMatch{}, {kTwo}, {{4, 1, false}, {2, 3, false}}), 20);
  check(law::check_law(fd::BlockVerification{}, {kPlain}, {{4, 1}, {3, 2}, {2, 4}}), 30);
  check(law::check_law(fd::BlockVerification{}, {kTwo}, {{4, 2}, {5, 2}}), 20);
}

TEST_CASE("three siblings of four tokens keep the law, however they were made") {
  // With three tokens the third sibling without replacement is certain, so a wrong q of it is
  // not seen.
  toy::Target target(4, 0, 1.5, 5);
  for (const fd::Siblings made :
       {fd::Siblings::kPointMass, fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
    const TreeFunction drafter = law::drafting<fd::Shape::kTree>(
        4, [made](const Tokens&) { return law::Brood{made, 3}; }, setup::some_q(4));
    CAPTURE(static_cast<int>(made));
    CHECK(law::law_distance(target, drafter, setup::kRejection, kPlain, 1) <= kExact);
  }
}

TEST_CASE("the law holds where probabilities are next to nothing, and where they are all alike") {
  const std::vector<fd::SamplingOptions> extreme{
      {.temperature = 0.02f}, {.temperature = 0.005f}, {.temperature = 50.0f}};
  check(law::check_law(fd::RejectionSampling{}, extreme), 100);
  check(law::check_law(fd::SampleAndMatch{}, extreme), 100);
  check(law::check_law(fd::BlockVerification{}, extreme), 80);
}

TEST_CASE("greedy text is the most probable token, with any chain or tree") {
  const std::vector<fd::SamplingOptions> greedy{{}, {.repeat_penalty = 2.0f, .penalty_last_n = 2}};
  check(law::check_law(fd::Greedy{}, greedy, {{2, 0}, {3, 1}, {2, 2}, {4, 3, false}}), 100);
}

TEST_CASE("what the lossy rules do to the law is seen") {
  CHECK(!law::check_law(fd::lossy::TypicalAcceptance{}).keeps_the_law());
  CHECK(!law::check_law(fd::lossy::RelaxedAcceptance{}).keeps_the_law());
  // With nothing but the best token acceptable, the relaxed rule is greedy.
  check(law::check_law(fd::lossy::RelaxedAcceptance{.top_k = 1}, {{}}), 50);
  check(law::check_law(fd::lossy::TypicalAcceptance{}, {{}}), 50);
}

TEST_CASE("the report refuses what is no evidence") {
  CHECK(!law::LawReport{}.keeps_the_law());
  CHECK(law::check_law(fd::Greedy{}, {kPlain}).cases == 0);  // greedy refuses to sample
  CHECK(!law::check_law(fd::Greedy{}, {kPlain}).keeps_the_law());
}

// ---- whole paths: what following round by round takes for granted, and what it cannot do --------

namespace {

void check_shipped(const fd::AnyAcceptance& rule, bool lookup,
                   const fd::SamplingOptions& sampling) {
  toy::Target target(2, 0, 1.0, 9);
  fd::Options options = setup::with(sampling, 3);
  options.max_tokens = 6;
  const auto found = law::law_of([&](fd::Rng& rng) {
    fd::AnyDrafter<> drafter = fd::NoDraft{};
    if (lookup) drafter = fd::PromptLookup({.min_match = 1});
    fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(drafter), rule};
    decoder.use_rng(&rng);
    decoder.generate(setup::kPeriodic, options);
    return Tokens(decoder.tokens().begin(), decoder.tokens().end());
  });
  const auto law = setup::expected(target, setup::kPeriodic, sampling, 6);
  CHECK(law::total_variation(found, law) <= kExact);
}

void check_cuts(const TreeRule& rule, const TreeFunction& drafter) {
  toy::Target target(2, 0, 1.5, 3);
  const fd::SamplingOptions sampling{.temperature = 1.5f};
  const int n = 5;
  const auto law = setup::expected(target, setup::kPeriodic, sampling, n);
  for (int cut = 0; cut <= n; ++cut) {
    CAPTURE(cut);
    const auto found =
        setup::law_of_calls(target, drafter, rule, setup::in_two_calls(sampling, 2, n, cut));
    CHECK(law::total_variation(found, law) <= kExact);
  }
  const auto found =
      setup::law_of_calls(target, drafter, rule, setup::stopping_at_ends(sampling, 2, n));
  CHECK(law::total_variation(found, law) <= kExact);
}

TreeFunction drafting(fd::Siblings made, int count) {
  return law::drafting<fd::Shape::kTree>(
      2, [=](const Tokens&) { return law::Brood{made, count}; }, setup::some_q(2));
}

}  // namespace

TEST_CASE("shipped drafters keep the law, first round included") {
  for (const fd::SamplingOptions& sampling : {law::law_transforms()[2], law::law_transforms()[5]}) {
    for (const bool lookup : {false, true}) {
      check_shipped(fd::SampleAndMatch{}, lookup, sampling);
      check_shipped(fd::RejectionSampling{}, lookup, sampling);
      check_shipped(fd::BlockVerification{}, lookup, sampling);
    }
  }
}

TEST_CASE("several calls have the law of one, wherever they are cut") {
  const TreeFunction chain = drafting(fd::Siblings::kIndependent, 1);
  check_cuts(setup::kRejection, chain);
  check_cuts(setup::kMatch, chain);
  check_cuts(setup::kBlock, chain);
  check_cuts(setup::kRejection, drafting(fd::Siblings::kWithoutReplacement, 2));
}

TEST_CASE("following whole paths and following round by round find the same law") {
  toy::Target target(2, 0, 1.5, 3);
  setup::Decoder start{target, toy::TokenCache{32, 16}, drafting(fd::Siblings::kIndependent, 1),
                       setup::kBlock};
  start.generate(Tokens{0, 1}, {.max_tokens = 1});
  const fd::Options options = setup::with(kPlain, 2);
  const auto by_rounds = law::law_by_rounds(start, options, 6);
  const auto by_paths = law::law_of([&](fd::Rng& rng) {
    auto decoder = start;
    decoder.use_rng(&rng);
    fd::Options all = options;
    all.max_tokens = 6;
    return decoder.resume(all).tokens;
  });
  CHECK(by_paths.size() == 64);
  CHECK(law::total_variation(by_rounds, by_paths) <= kExact);
}
