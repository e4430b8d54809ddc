#include <foredraft/drafter/draft_choice.hpp>

#include <algorithm>
#include <map>
#include <set>

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/testing/function_policies.hpp>

#include "support/catch.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;
using Way = fd::DraftSampling;
using law::Tokens;

namespace {

constexpr Way kDrawn = Way::kDrawn;
constexpr Way kArgmax = Way::kArgmax;

/// Ways of `n` rounds in which each way has its own rate of acceptance, in tenths.
std::vector<Way> ways(fd::DraftChoice& choice, int n, int drawn_tenths, int argmax_tenths) {
  std::vector<Way> chosen;
  for (int i = 0; i < n; ++i) {
    chosen.push_back(choice.way());
    choice.learn(chosen.back(), chosen.back() == kArgmax ? argmax_tenths : drawn_tenths, 10);
  }
  return chosen;
}

}  // namespace

TEST_CASE("both ways are tried, then the better one drafts and the other is probed now and then") {
  static_assert(noexcept(std::declval<fd::DraftChoice&>().learn(kDrawn, 1, 1)));
  for (const bool argmax_is_better : {false, true}) {
    const Way better = argmax_is_better ? kArgmax : kDrawn;
    fd::DraftChoice choice(8);
    const auto chosen = ways(choice, 80, argmax_is_better ? 4 : 6, argmax_is_better ? 6 : 4);
    CHECK(chosen[0] == kDrawn);
    CHECK(chosen[1] == kArgmax);
    for (std::size_t i = 2; i < chosen.size(); ++i) {
      CHECK((chosen[i] == better) == (i % 8 != 7));
    }
  }
}

TEST_CASE("what is never rejected is left for probes only") {
  fd::DraftChoice choice(8);
  const auto chosen = ways(choice, 64, 10, 5);
  for (std::size_t i = 0; i < chosen.size(); ++i) CHECK((chosen[i] == kArgmax) == (i % 8 == 7));
}

TEST_CASE("the choice follows the text when it changes") {
  fd::DraftChoice choice(8);
  ways(choice, 100, 8, 5);
  CHECK(choice.way() == kDrawn);
  ways(choice, 100, 4, 6);
  CHECK(choice.way() == kArgmax);
  ways(choice, 400, 8, 5);
  CHECK(choice.way() == kDrawn);
}

TEST_CASE("rounds that tried nothing teach nothing, and settings that never settle are refused") {
  fd::DraftChoice choice(4, 0.5);
  choice.learn(kDrawn, 0, 0);
  CHECK(choice == fd::DraftChoice(4, 0.5));
  choice.learn(kDrawn, 0, 3);
  CHECK(choice != fd::DraftChoice(4, 0.5));
  CHECK_THROWS_AS(fd::DraftChoice(1), fd::Error);
  CHECK_THROWS_AS(fd::DraftChoice(16, 1.5), fd::Error);
}

// ---- in a drafter -------------------------------------------------------------------------------

namespace {

using Chain = fd::ModelDrafter<toy::Target, toy::TokenCache>;
using Tree = fd::ModelTreeDrafter<toy::Target, toy::TokenCache>;
const Tokens kPrompt{0, 1};

/// Law of the `n` tokens behind the first one, along whole paths: the drafter remembers more than
/// the tokens. Notes the ways that were chosen on any path, in order.
template <typename D>
law::JointLaw law_with(toy::Target& target, const D& drafter, const fd::Options& options, int n,
                       std::set<std::vector<Way>>& chosen) {
  return law::law_of([&](fd::Rng& rng) {
    fd::Decoder decoder{target, toy::TokenCache{32, 16}, drafter, fd::RejectionSampling{}};
    decoder.use_rng(&rng);
    fd::Options all = options;
    all.max_tokens = n;
    std::vector<Way> of_path;
    int round_begins = 0;  // tokens that were final before the round
    decoder.generate(kPrompt, all, [&](const fd::Emitted&) {
      const int now = static_cast<int>(decoder.tokens().size());
      if (now != round_begins) of_path.push_back(decoder.drafter().choice().way());
      round_begins = now;
    });
    chosen.insert(of_path);
    return Tokens(decoder.tokens().begin() + 2, decoder.tokens().end());
  });
}

/// Some round was drafted in one way on one path and in the other on another: the choice did depend
/// on what was accepted.
bool depends_on_the_path(const std::set<std::vector<Way>>& chosen) {
  std::map<std::size_t, std::set<Way>> at_round;
  for (const std::vector<Way>& path : chosen) {
    for (std::size_t round = 0; round < path.size(); ++round) at_round[round].insert(path[round]);
  }
  return std::any_of(at_round.begin(), at_round.end(),
                     [](const auto& ways) { return ways.second.size() == 2; });
}

}  // namespace

TEST_CASE("choosing between drawn and argmax drafts by past rounds leaves the law alone") {
  toy::Target target(2, 0, 1.5, 3);
  toy::Target draft(2, 0, 1.5, 8);
  for (const fd::SamplingOptions& sampling :
       {fd::SamplingOptions{.temperature = 1.0f}, fd::SamplingOptions{.temperature = 0.6f}}) {
    const fd::Options options{.n_draft = 1, .sampling = {.temperature = sampling.temperature}};
    for (const int probe_every : {2, 3, 16}) {
      CAPTURE(sampling.temperature, probe_every);
      std::set<std::vector<Way>> chosen;
      const Chain drafter{draft, toy::TokenCache{}, {.choice = fd::DraftChoice(probe_every, 0.5)}};
      const auto found = law_with(target, drafter, options, 7, chosen);
      CHECK(law::total_variation(found, law::target_law(target, kPrompt, sampling, 7)) <= 1e-12);
      CHECK(depends_on_the_path(chosen));
    }
  }
}

TEST_CASE("so it does with chains of two and with trees") {
  toy::Target target(2, 0, 1.5, 3);
  toy::Target draft(2, 0, 1.5, 8);
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  std::set<std::vector<Way>> chosen;
  const Chain chain{draft, toy::TokenCache{}, {.choice = fd::DraftChoice(2, 0.5)}};
  const auto deep = law_with(
      target, chain, {.n_draft = 2, .sampling = {.temperature = sampling.temperature}}, 6, chosen);
  CHECK(law::total_variation(deep, law::target_law(target, kPrompt, sampling, 6)) <= 1e-12);
  CHECK(depends_on_the_path(chosen));

  toy::Target target3(3, 0, 1.5, 3);
  toy::Target draft3(3, 0, 1.5, 8);
  for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
    chosen.clear();
    const Tree tree{draft3,
                    toy::TokenCache{},
                    {.branching = {2}, .siblings = siblings, .choice = fd::DraftChoice(2, 0.5)}};
    const auto found =
        law_with(target3, tree, {.n_draft = 1, .sampling = {.temperature = sampling.temperature}},
                 4, chosen);
    CHECK(law::total_variation(found, law::target_law(target3, kPrompt, sampling, 4)) <= 1e-12);
    CHECK(depends_on_the_path(chosen));
  }
}

TEST_CASE("mutant: a choice that looks at the drawn token") {
  // A drawn token passes only where it is the argmax; else the round drafts nothing.
  toy::Target target(3, 0, 1.5, 3);
  toy::Target draft(3, 0, 1.5, 8);
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  for (const bool looks : {false, true}) {
    const law::ChainFunction drafter{
        [&, looks](const fd::Context& context, fd::Limit limit, fd::DraftTree& tree) {
          if (limit.depth == 0) return;
          const auto q =
              law::p_of(draft.logits_after(context.tokens), {.temperature = 1.0f}, context.tokens);
          fd::Law& law = tree.drawn_from(0);
          law = {{0, 1, 2}, q};
          const auto chosen = context.rng->categorical(
              {fd::Purpose::kDraft, context.anchor_position(), 1}, law.ids, law.p);
          const bool is_best = q[chosen] == *std::max_element(q.begin(), q.end());
          if (!looks || is_best) tree.extend(law.ids[chosen]);
        }};
    const auto found = law::law_of([&](fd::Rng& rng) {
      fd::Decoder decoder{target, toy::TokenCache{32, 16}, drafter, fd::RejectionSampling{}};
      decoder.use_rng(&rng);
      decoder.generate(kPrompt, {.max_tokens = 4, .n_draft = 1, .sampling = {.temperature = 1.0f}});
      return Tokens(decoder.tokens().begin() + 2, decoder.tokens().end());
    });
    const double distance =
        law::total_variation(found, law::target_law(target, kPrompt, sampling, 4));
    if (looks) CHECK(distance > 1e-6);
    if (!looks) CHECK(distance <= 1e-12);
  }
}

TEST_CASE("the same prompt and seed give the same text, whatever was generated before") {
  toy::Target target(16, 2, 2.0, 3);
  toy::Target draft(16, 2, 2.0, 4);
  fd::Decoder decoder{target, toy::TokenCache{}, Chain{draft, toy::TokenCache{}, {}},
                      fd::RejectionSampling{}};
  const fd::Options options{
      .max_tokens = 100, .n_draft = 3, .sampling = {.temperature = 1.0f}, .seed = 4};
  const auto first = decoder.generate(kPrompt, options).tokens;
  CHECK_FALSE(decoder.drafter().choice() == fd::DraftChoice());
  decoder.generate(Tokens{3, 2, 1}, options);
  CHECK(decoder.generate(kPrompt, options).tokens == first);
  // A prompt that goes on from the text so far, whose last round had no draft.
  int same = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    fd::Options again = options;
    again.seed = seed;
    again.max_tokens = 40;
    decoder.generate(kPrompt, again);
    decoder.resume({.max_tokens = 1, .n_draft = 0, .sampling = {.temperature = 1.0f}});
    Tokens longer(decoder.tokens().begin(), decoder.tokens().end());
    longer.insert(longer.end(), {1, 2});
    fd::Decoder fresh{target, toy::TokenCache{}, Chain{draft, toy::TokenCache{}, {}},
                      fd::RejectionSampling{}};
    same += decoder.generate(longer, again).tokens == fresh.generate(longer, again).tokens;
  }
  CHECK(same == 20);
  // Cut in two, the text differs no more than the draft limits at the cut do: the choice goes on.
  const auto before = decoder.drafter().choice();
  decoder.resume({.max_tokens = 1, .n_draft = 0, .sampling = {.temperature = 1.0f}});
  CHECK(decoder.drafter().choice() == before);
}

TEST_CASE("a round teaches as far as it was tried: up to the first rejection") {
  toy::Target draft(16, 2, 2.0, 4);
  const Tokens text{3, 2, 1};
  const std::vector<fd::NodeIndex> path{0, 1, 2, 3, 4};
  for (int accepted = 0; accepted <= 4; ++accepted) {
    Chain drafter{draft, toy::TokenCache{}, {}};
    fd::Philox rng(1);
    fd::Context context;
    context.tokens = text;
    context.sampling.temperature = 1.0f;
    context.uses_law = true;
    context.rng = &rng;
    fd::DraftTree tree;
    tree.reset(text.back());
    drafter.propose(context, {4, 4}, tree);
    REQUIRE(tree.drafted() == 4);
    const std::size_t kept = fd::idx(accepted) + 1;
    Tokens tokens;
    for (int node = 1; node <= accepted; ++node) tokens.push_back(tree.token(node));
    tokens.push_back((tree.token(std::min(accepted + 1, 4)) + 1) % 16);  // none that was drafted
    fd::DraftTree another = tree;  // verified in place of this drafter's: teaches nothing
    another.truncate(4);
    another.extend((tree.token(4) + 1) % 16);
    drafter.commit({another, std::span(path).first(kept), tokens, {}, 2});
    CHECK(drafter.choice() == fd::DraftChoice());
    drafter.commit({tree, std::span(path).first(kept), tokens, {}, 2});
    fd::DraftChoice expected;
    expected.learn(kDrawn, accepted, std::min(accepted + 1, 4));
    CHECK(drafter.choice() == expected);

    // Cut off, so that the last token is a drafted one: it counts as accepted, nothing as rejected.
    if (accepted == 4) continue;
    Chain cut{draft, toy::TokenCache{}, {}};
    tree.reset(text.back());
    cut.propose(context, {4, 4}, tree);
    tokens.back() = tree.token(accepted + 1);
    cut.commit({tree, std::span(path).first(kept), tokens, {}, 2});
    expected = fd::DraftChoice();
    expected.learn(kDrawn, accepted + 1, accepted + 1);
    CHECK(cut.choice() == expected);
  }
}

TEST_CASE("a round whose way was not chosen teaches nothing") {
  toy::Target target(16, 2, 2.0, 3);
  toy::Target draft(16, 2, 2.0, 4);
  fd::Decoder decoder{target, toy::TokenCache{}, Chain{draft, toy::TokenCache{}, {}},
                      fd::RejectionSampling{}};
  decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 3, .sampling = {.temperature = 1.0f}});
  const fd::DraftChoice choice = decoder.drafter().choice();
  CHECK(decoder.resume({.max_tokens = 40, .n_draft = 3}).stats.drafted > 0);  // temperature 0
  CHECK(decoder.drafter().choice() == choice);
}

TEST_CASE("a snapshot holds the choice") {
  toy::Target target(16, 2, 2.0, 3);
  toy::Target draft(16, 2, 2.0, 4);
  fd::Decoder decoder{target, toy::TokenCache{}, Chain{draft, toy::TokenCache{}, {}},
                      fd::RejectionSampling{}};
  decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 3, .sampling = {.temperature = 1.0f}});
  Chain& drafter = decoder.drafter();
  const auto snapshot = drafter.snapshot();
  const fd::DraftChoice choice = drafter.choice();
  drafter.reset();
  CHECK(drafter.choice() == fd::DraftChoice());
  drafter.restore(snapshot);
  CHECK(drafter.choice() == choice);
}

TEST_CASE("each way wins where it should") {
  // The draft is the target at another temperature. Where p is sharp its best token is nearly
  // certain; where p is flat, drawing from a q near p is accepted far more often.
  toy::Target target(16, 2, 3.0, 3);
  const auto rate = [&](Way way, float temperature, float draft_temperature) {
    fd::Decoder decoder{
        target, toy::TokenCache{2048},
        Chain{target,
              toy::TokenCache{2048},
              {.sampling = way, .law = fd::SamplingOptions{.temperature = draft_temperature}}},
        fd::RejectionSampling{}};
    return decoder
        .generate(kPrompt,
                  {.max_tokens = 1500, .n_draft = 2, .sampling = {.temperature = temperature}})
        .stats.acceptance_rate();
  };
  CHECK(rate(kArgmax, 0.3f, 3.0f) > rate(kDrawn, 0.3f, 3.0f) + 0.2);
  CHECK(rate(kDrawn, 1.5f, 1.2f) > rate(kArgmax, 1.5f, 1.2f) + 0.2);
  // The choice comes near the better of the two, up to its probes.
  CHECK(rate(Way::kAuto, 0.3f, 3.0f) > rate(kArgmax, 0.3f, 3.0f) - 0.1);
  CHECK(rate(Way::kAuto, 1.5f, 1.2f) > rate(kDrawn, 1.5f, 1.2f) - 0.1);
}
