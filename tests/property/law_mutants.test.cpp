// Each known way to get the law wrong is caught, and its repair passes.

#include "property/law_setup.hpp"
#include "property/mutants.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using law::Tokens;
using mutants::drawn;
using setup::kCaught;
using setup::kExact;
using setup::some_q;

namespace {

const fd::SamplingOptions kWarped{.temperature = 0.7f};

double distance(const TreeFunction& drafter, const TreeRule& rule,
                const fd::SamplingOptions& sampling = kWarped, int depth = 1) {
  toy::Target target(3, 0, 1.5, 5);
  return law::law_distance(target, drafter, rule, sampling, depth);
}

const mutants::Drawing kDrawn{.draw_from = some_q(3)};

}  // namespace

TEST_CASE("the harness passes the rules that are right") {
  CHECK(distance(drawn(kDrawn), mutants::rejection({})) <= kExact);
  CHECK(distance(drawn(kDrawn), mutants::block({})) <= kExact);
  CHECK(distance(drawn(kDrawn), mutants::block({}), kWarped, 2) <= kExact);
}

TEST_CASE("mutant: an un-warped q") {
  toy::Target draft_model(3, 2, 2.0, 77);
  for (const fd::SamplingOptions& warp : {fd::SamplingOptions{.temperature = 0.5f},
                                          fd::SamplingOptions{.temperature = 1.0f, .top_k = 2}}) {
    const law::LawAfter warped = [=](const Tokens& text) {
      return law::sparse(law::p_of(draft_model.logits_after(text), warp));
    };
    for (const TreeRule& rule : {setup::kRejection, setup::kBlock}) {
      CHECK(distance(drawn({.draw_from = warped}), rule) <= kExact);
      CHECK(distance(drawn({.draw_from = warped, .hand_over = some_q(3)}), rule) > kCaught);
    }
  }
}

TEST_CASE("mutant: a wrong residual") {
  using Residual = mutants::Rejection::Residual;
  const auto next = mutants::point_mass([](const Tokens& text) { return (text.back() + 1) % 3; });
  for (const TreeFunction& drafter : {drawn(kDrawn), next}) {
    CHECK(distance(drafter, mutants::rejection({})) <= kExact);
    CHECK(distance(drafter, mutants::rejection({.residual = Residual::kNotSubtracted})) > kCaught);
  }
  CHECK(distance(drawn(kDrawn), mutants::rejection({.residual = Residual::kNotRenormalised})) >
        kCaught);
}

TEST_CASE("mutant: p without the transforms") {
  const auto next = mutants::point_mass([](const Tokens& text) { return (text.back() + 1) % 3; });
  CHECK(distance(next, mutants::rejection({.ignore_temperature = true})) > kCaught);
}

TEST_CASE("mutant: a target that hands over wrong sums of weights") {
  toy::Target target(3, 0, 1.5, 5);
  const auto next = mutants::point_mass([](const Tokens& text) { return (text.back() + 1) % 3; });
  const auto distance_from = [&](double factor, const fd::SamplingOptions& sampling) {
    target.sum_factor = factor;
    return law::law_distance(target, next, fd::RejectionSampling{}, sampling, 1);
  };
  const fd::SamplingOptions top_p{.temperature = 0.7f, .top_p = 0.6f};
  for (const fd::SamplingOptions& sampling : {kWarped, top_p}) {
    CHECK(distance_from(1.0, sampling) <= kExact);
    CHECK(distance_from(1.6, sampling) > kCaught);
  }
  const fd::SamplingOptions top_k{.temperature = 0.7f, .top_k = 2};  // does not read them
  CHECK(distance_from(1.6, top_k) <= kExact);
}

TEST_CASE("mutant: p before penalties") {
  const fd::SamplingOptions penalised{
      .temperature = 1.0f, .repeat_penalty = 1.5f, .presence_penalty = 0.5f, .penalty_last_n = 2};
  CHECK(distance(drawn(kDrawn), mutants::rejection({}), penalised) <= kExact);
  CHECK(distance(drawn(kDrawn), mutants::rejection({.ignore_penalties = true}), penalised) >
        kCaught);
}

TEST_CASE("mutant: block verification that stops at the first failure") {
  CHECK(distance(drawn(kDrawn), mutants::block({.stop_at_first_failure = true}), kWarped, 2) >
        kCaught);
}

TEST_CASE("mutant: a drawn token withdrawn by p_min") {
  using Unlikely = mutants::Drawing::Unlikely;
  const auto distance_of = [](Unlikely unlikely, const TreeRule& rule) {
    return distance(drawn({.draw_from = some_q(3), .p_min = 0.3, .unlikely = unlikely}), rule,
                    kWarped, 2);
  };
  for (const TreeRule& rule : {setup::kRejection, setup::kBlock}) {
    CHECK(distance_of(Unlikely::kWithdraw, rule) > kCaught);
    // The two ways that the contract names: stop after the token, or hand all on as point mass.
    CHECK(distance_of(Unlikely::kStopAfter, rule) <= kExact);
    CHECK(distance_of(Unlikely::kWithdrawUnlawed, rule) <= kExact);
  }
}

TEST_CASE("mutant: a drawn token withdrawn by a mask") {
  for (const TreeRule& rule : {setup::kRejection, setup::kBlock}) {
    CHECK(distance(mutants::masked({.draw_from = some_q(3)}), rule, kWarped, 2) <= kExact);
    CHECK(distance(mutants::masked({.draw_from = some_q(3), .before_drawing = false}), rule,
                   kWarped, 2) > kCaught);
  }
}

TEST_CASE("mutant: a drawn token withdrawn by choice between two drafts") {
  for (const TreeRule& rule : {setup::kRejection, setup::kBlock}) {
    CHECK(distance(mutants::better_of_two({.draw_from = some_q(3)}), rule) <= kExact);
    CHECK(distance(mutants::better_of_two({.draw_from = some_q(3), .hand_over_q = true}), rule) >
          kCaught);
  }
}

TEST_CASE("mutant: siblings re-ranked after drawing") {
  for (const fd::Siblings made : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
    const mutants::Ranking right{.draw_from = some_q(3), .made = made};
    mutants::Ranking wrong = right;
    wrong.after_drawing = true;
    CHECK(distance(mutants::ranked(right), setup::kRejection) <= kExact);
    CHECK(distance(mutants::ranked(wrong), setup::kRejection) > kCaught);
  }
}

TEST_CASE("mutant: siblings said to be made in another way than they were") {
  const mutants::Ranking right{.draw_from = some_q(3), .made = fd::Siblings::kIndependent};
  const TreeFunction claimed{
      [right](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
        mutants::Ranking other = right;
        other.made = fd::Siblings::kWithoutReplacement;
        fd::DraftTree drawn;
        drawn.reset(draft.token(0));
        mutants::ranked(other).function(context, limit, drawn);
        draft.drawn_from(0, fd::Siblings::kIndependent) = drawn.law(0);
        for (fd::NodeIndex node = 1; node < drawn.size(); ++node) draft.add(0, drawn.token(node));
      }};
  CHECK(distance(claimed, setup::kRejection) > kCaught);
}

TEST_CASE("mutant: keys by absolute position") {
  using mutants::KeyBy;
  using Reuse = EnumeratingRng::Reuse;
  toy::Target target(2, 0, 1.5, 3);
  const fd::SamplingOptions sampling{.temperature = 1.5f};
  const int n = 5;
  const auto law = setup::expected(target, setup::kPeriodic, sampling, n);
  const auto law_with = [&](const TreeRule& rule, KeyBy drafts_by, const setup::Program& calls,
                            Reuse reuse) {
    return setup::law_of_calls(target, drawn({.draw_from = some_q(2), .key_by = drafts_by}), rule,
                               calls, reuse);
  };
  const auto one_call = setup::in_two_calls(sampling, 2, n, n);
  const TreeRule wrong = mutants::block({.key_by = KeyBy::kPosition});
  CHECK(law::total_variation(law_with(setup::kBlock, KeyBy::kAnchor, one_call, Reuse::kRefuse),
                             law) <= kExact);
  CHECK_THROWS_AS(law_with(wrong, KeyBy::kAnchor, one_call, Reuse::kRefuse), KeyReuse);
  CHECK_THROWS_AS(law_with(setup::kBlock, KeyBy::kPosition, one_call, Reuse::kRefuse), KeyReuse);
  // The refusal is no formality: a source that answers equal keys equally gives the wrong law.
  CHECK(law::total_variation(law_with(mutants::block({}), KeyBy::kAnchor, one_call, Reuse::kShare),
                             law) <= kExact);
  CHECK(law::total_variation(law_with(wrong, KeyBy::kAnchor, one_call, Reuse::kShare), law) >
        kCaught);
  // The token-wise rule draws a test again only where a cut threw its outcome away.
  const auto with_ends = setup::stopping_at_ends(sampling, 2, n);
  CHECK(law::total_variation(
            law_with(mutants::rejection({}), KeyBy::kAnchor, with_ends, Reuse::kRefuse), law) <=
        kExact);
  CHECK_THROWS_AS(law_with(mutants::rejection({.key_by = KeyBy::kPosition}), KeyBy::kAnchor,
                           with_ends, Reuse::kRefuse),
                  KeyReuse);
}
