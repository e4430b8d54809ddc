#include <foredraft/foredraft.hpp>

#include "property/mutants.hpp"
#include "support/catch.hpp"
#include "support/chi_square.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;
using law::Tokens;
using mutants::drawn;
using mutants::point_mass;
using mutants::sparse;

namespace {

constexpr double kExact = 1e-12;  // what rounding may move
constexpr double kCaught = 1e-6;  // a mutant is off by more

const std::vector<fd::SamplingOptions> kTransforms{
    {.temperature = 0.0f},
    {.temperature = 0.5f},
    {.temperature = 1.0f},
    {.temperature = 2.0f},
    {.temperature = 1.0f, .top_k = 2},
    {.temperature = 1.0f, .top_p = 0.7f},
    {.temperature = 1.5f, .min_p = 0.3f},
    {.temperature = 2.0f, .top_k = 3, .top_p = 0.9f, .min_p = 0.05f},
};

fd::Options with(const fd::SamplingOptions& s, int depth) {
  return {.n_draft = depth,
          .temperature = s.temperature,
          .top_k = s.top_k,
          .top_p = s.top_p,
          .min_p = s.min_p};
}

struct NamedDrafter {
  const char* name;
  ChainFunction drafter;
};

fd::TokenId extreme(const std::vector<float>& logits, bool greatest) {
  const auto found = greatest ? std::max_element(logits.begin(), logits.end())
                              : std::min_element(logits.begin(), logits.end());
  return static_cast<fd::TokenId>(found - logits.begin());
}

/// Every way to draft that a rule has to get right, for this target and these transforms.
std::vector<NamedDrafter> drafters_for(const toy::Target& target,
                                       const fd::SamplingOptions& sampling) {
  const int n_vocab = target.vocab_size();
  const toy::Target other(n_vocab, 2, 2.0, 77);
  const auto q = [other](const Tokens& text) {
    return sparse(law::p_of(other.logits_after(text), {.temperature = 1.0f}));
  };
  const auto p = [target, sampling](const Tokens& text) {
    return sparse(law::p_of(target.logits_after(text), sampling));
  };
  const auto nearly_disjoint = [target](const Tokens& text) {
    std::vector<float> logits = target.logits_after(text);
    for (float& x : logits) x *= -3.0f;
    return sparse(law::p_of(logits, {.temperature = 1.0f}));
  };
  // Zero where p has mass; and p, cut by top-k or temperature 0, is zero where this has mass.
  const auto two_tokens = [other](const Tokens& text) {
    return sparse(law::p_of(other.logits_after(text), {.temperature = 1.0f, .top_k = 2}));
  };
  const auto mixed = [q](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    Tokens text(context.tokens.begin(), context.tokens.end());
    for (int i = 0; i < limit.depth; ++i) {
      const fd::Law law = q(text);
      fd::TokenId token = law.ids[0];
      if (text.size() % 2 == 0) {
        const fd::RngKey key{fd::Purpose::kDraft, context.anchor_position(), draft.size()};
        token = law.ids[context.rng->categorical(key, law.ids, law.p)];
        draft.drawn_from(draft.size() - 1) = law;
      }
      text.push_back(token);
      draft.extend(token);
    }
  };
  return {
      {"none", {}},
      {"right", point_mass([target](const Tokens& text) {
         return extreme(target.logits_after(text), true);
       })},
      {"wrong", point_mass([target](const Tokens& text) {
         return extreme(target.logits_after(text), false);
       })},
      {"arbitrary", point_mass([n_vocab](const Tokens& text) {
         fd::TokenId sum = 1;
         for (const fd::TokenId token : text) sum = 2 * sum + token;
         return sum % n_vocab;
       })},
      {"drawn from q", drawn({.draw_from = q})},
      {"drawn from p", drawn({.draw_from = p})},
      {"drawn, nearly disjoint", drawn({.draw_from = nearly_disjoint})},
      {"drawn, other support", drawn({.draw_from = two_tokens})},
      {"drawn and found", {mixed}},
  };
}

// Two decoder types for all drafters and rules: each costs the compiler ten seconds.
using ChainDecoder = fd::Decoder<toy::Target, toy::TokenCache, ChainFunction, ChainRule>;
using TreeDecoder = fd::Decoder<toy::Target, toy::TokenCache, TreeFunction, TreeRule>;

const ChainRule kMatch = ChainRule::of(fd::SampleAndMatch{});
const ChainRule kRejection = ChainRule::of(fd::RejectionSampling{});

/// A decoder behind its first round, which never drafts.
template <typename D, typename A>
auto warm(toy::Target& target, const D& drafter, const A& rule) {
  fd::Decoder decoder{target, toy::TokenCache{32, 16}, drafter, rule};
  decoder.generate(Tokens{0, 1}, {.max_tokens = 1});
  return decoder;
}

/// Total variation of the next 2 (depth + 1) tokens, that is at least two rounds, from p.
template <typename D, typename A>
double distance(toy::Target& target, const D& drafter, const A& rule,
                const fd::SamplingOptions& sampling, int depth) {
  const auto decoder = warm(target, drafter, rule);
  const Tokens prefix(decoder.tokens().begin(), decoder.tokens().end());
  const int n = 2 * (depth + 1);
  return law::total_variation(law::law_by_rounds(decoder, with(sampling, depth), n),
                              law::target_law(target, prefix, sampling, n));
}

struct Size {
  int n_vocab;
  int depth;
};

void check_chains(const ChainRule& rule, const fd::SamplingOptions& sampling,
                  std::initializer_list<Size> sizes, int order) {
  for (const auto& [n_vocab, depth] : sizes) {
    toy::Target target(n_vocab, order, 1.5, 5);
    for (const auto& [name, drafter] : drafters_for(target, sampling)) {
      CAPTURE(n_vocab, depth, order, name, sampling.temperature, sampling.top_k, sampling.top_p,
              sampling.min_p);
      CHECK(distance(target, drafter, rule, sampling, depth) <= kExact);
    }
  }
}

}  // namespace

TEST_CASE("chains keep the law under every transform") {
  for (const fd::SamplingOptions& sampling : kTransforms) {
    check_chains(kRejection, sampling, {{2, 0}, {3, 1}, {2, 2}}, 0);
    check_chains(kMatch, sampling, {{2, 0}, {3, 1}, {2, 2}}, 0);
  }
  check_chains(kRejection, kTransforms[2], {{3, 1}}, 1);
  check_chains(kMatch, kTransforms[2], {{3, 1}}, 1);
}

TEST_CASE("larger vocabularies and deeper chains keep the law") {
  // Top-k 2 leaves few texts possible, which is what makes these sizes affordable.
  const fd::SamplingOptions two{.temperature = 1.0f, .top_k = 2};
  check_chains(kRejection, kTransforms[6], {{4, 1}}, 0);
  check_chains(kMatch, two, {{2, 3}, {4, 2}}, 0);
  toy::Target target(4, 0, 1.5, 5);
  const auto drafters = drafters_for(target, two);
  CHECK(distance(target, drafters[7].drafter, kRejection, two, 2) <= kExact);
  toy::Target deep(2, 1, 1.5, 6);
  for (const std::size_t i : {3u, 4u}) {
    const auto drafter = drafters_for(deep, kTransforms[2])[i].drafter;
    CHECK(distance(deep, drafter, kRejection, kTransforms[2], 3) <= kExact);
  }
}

TEST_CASE("greedy text is the most probable token, with any chain or tree") {
  check_chains(ChainRule::of(fd::Greedy{}), {}, {{2, 0}, {3, 1}, {4, 3}}, 0);
}

namespace {

/// Two siblings at every node, in an order that depends on the text; as many nodes as fit.
TreeFunction siblings(int n_vocab) {
  return {[n_vocab](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (fd::NodeIndex node = 0; node < draft.size(); ++node) {
      if (draft.depth(node) == limit.depth) continue;
      for (int i = 0; i < 2 && draft.drafted() < limit.nodes; ++i) {
        const int swap = static_cast<int>(context.tokens.size()) + node;
        draft.add(node, (draft.token(node) + (i + swap) % 2) % n_vocab);
      }
    }
  }};
}

}  // namespace

TEST_CASE("trees of point-mass siblings keep the law") {
  for (const fd::SamplingOptions& sampling : kTransforms) {
    CAPTURE(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p);
    toy::Target three(3, 0, 1.5, 8);
    toy::Target two(2, 0, 1.5, 8);
    CHECK(distance(three, siblings(3), TreeRule::of(fd::SampleAndMatch{}), sampling, 1) <= kExact);
    CHECK(distance(two, siblings(2), TreeRule::of(fd::SampleAndMatch{}), sampling, 3) <= kExact);
    if (sampling.greedy())
      CHECK(distance(three, siblings(3), TreeRule::of(fd::Greedy{}), sampling, 3) <= kExact);
  }
}

// ---- whole paths: what following round by round takes for granted, and what it cannot do
// ----------

namespace {

using Program = std::function<void(ChainDecoder&)>;

/// Law of the tokens after the calls of `program`, from the first round on.
law::JointLaw law_of_calls(toy::Target& target, const ChainFunction& drafter, const ChainRule& rule,
                           const Program& program,
                           EnumeratingRng::Reuse reuse = EnumeratingRng::Reuse::kRefuse) {
  return law::law_of(
      [&](fd::Rng& rng) {
        ChainDecoder decoder{target, toy::TokenCache{32, 16}, drafter, rule};
        decoder.use_rng(&rng);
        program(decoder);
        return Tokens(decoder.tokens().begin(), decoder.tokens().end());
      },
      reuse);
}

law::JointLaw expected(const toy::Target& target, const Tokens& prompt,
                       const fd::SamplingOptions& sampling, int n) {
  law::JointLaw with_prompt;
  for (const auto& [tokens, probability] : law::target_law(target, prompt, sampling, n)) {
    Tokens text = prompt;
    text.insert(text.end(), tokens.begin(), tokens.end());
    with_prompt[text] = probability;
  }
  return with_prompt;
}

const Tokens kPeriodic{0, 1, 0, 1, 0};  // something for a lookup to find

void check_shipped(const fd::AnyAcceptance& rule, bool lookup,
                   const fd::SamplingOptions& sampling) {
  toy::Target target(2, 0, 1.0, 9);
  fd::Options options = with(sampling, 3);
  options.max_tokens = 6;
  const auto found = law::law_of([&](fd::Rng& rng) {
    fd::AnyDrafter<> drafter = fd::NoDraft{};
    if (lookup) drafter = fd::PromptLookup({.min_match = 1});
    fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(drafter), rule};
    decoder.use_rng(&rng);
    decoder.generate(kPeriodic, options);
    return Tokens(decoder.tokens().begin(), decoder.tokens().end());
  });
  CHECK(law::total_variation(found, expected(target, kPeriodic, sampling, 6)) <= kExact);
}

/// The calls to make `n` tokens final, the first of which stops at `cut`.
Program in_two_calls(const fd::SamplingOptions& sampling, int depth, int n, int cut) {
  return [=](ChainDecoder& decoder) {
    fd::Options options = with(sampling, depth);
    options.max_tokens = cut;
    decoder.generate(kPeriodic, options);
    options.max_tokens = n - cut;
    decoder.resume(options);
  };
}

/// The calls to make `n` tokens final, stopping behind each token 1.
Program stopping_at_ends(const fd::SamplingOptions& sampling, int depth, int n) {
  return [=](ChainDecoder& decoder) {
    fd::Options options = with(sampling, depth);
    options.end_tokens = {1};
    options.max_tokens = n;
    int left = n - static_cast<int>(decoder.generate(kPeriodic, options).tokens.size());
    while (left > 0) {
      options.max_tokens = left;
      left -= static_cast<int>(decoder.resume(options).tokens.size());
    }
  };
}

mutants::LawAfter some_q(int n_vocab) {
  return [target = toy::Target(n_vocab, 2, 2.0, 77)](const Tokens& text) {
    return sparse(law::p_of(target.logits_after(text), {.temperature = 1.0f}));
  };
}

void check_cuts(const ChainRule& rule) {
  toy::Target target(2, 0, 1.5, 3);
  const fd::SamplingOptions sampling{.temperature = 1.5f};
  const int n = 5;
  const auto law = expected(target, kPeriodic, sampling, n);
  const ChainFunction drafter = drawn({.draw_from = some_q(2)});
  for (int cut = 0; cut <= n; ++cut) {
    CAPTURE(cut);
    const auto found = law_of_calls(target, drafter, rule, in_two_calls(sampling, 2, n, cut));
    CHECK(law::total_variation(found, law) <= kExact);
  }
  const auto found = law_of_calls(target, drafter, rule, stopping_at_ends(sampling, 2, n));
  CHECK(law::total_variation(found, law) <= kExact);
}

}  // namespace

TEST_CASE("shipped drafters keep the law, first round included") {
  for (const fd::SamplingOptions& sampling : {kTransforms[2], kTransforms[7]}) {
    for (const bool lookup : {false, true}) {
      check_shipped(fd::SampleAndMatch{}, lookup, sampling);
      check_shipped(fd::RejectionSampling{}, lookup, sampling);
    }
  }
}

TEST_CASE("several calls have the law of one, wherever they are cut") {
  check_cuts(kRejection);
  check_cuts(kMatch);
}

TEST_CASE("following whole paths and following round by round find the same law") {
  toy::Target target(2, 0, 1.5, 3);
  const auto start = warm(target, drawn({.draw_from = some_q(2)}), fd::RejectionSampling{});
  const fd::Options options = with({.temperature = 1.0f}, 2);
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

// ---- mutants
// ---------------------------------------------------------------------------------------

namespace {

const fd::SamplingOptions kWarped{.temperature = 0.7f};

double mutant_distance(ChainFunction drafter, ChainRule rule) {
  toy::Target target(3, 0, 1.5, 5);
  return distance(target, std::move(drafter), std::move(rule), kWarped, 1);
}

}  // namespace

TEST_CASE("the harness passes the rules that are right") {
  CHECK(mutant_distance(drawn({.draw_from = some_q(3)}), mutants::rejection({})) <= kExact);
  CHECK(mutant_distance(drawn({.draw_from = some_q(3)}), mutants::block(mutants::KeyBy::kAnchor)) <=
        kExact);
}

TEST_CASE("mutant: an un-warped q") {
  toy::Target draft_model(3, 2, 2.0, 77);
  for (const fd::SamplingOptions& warp : {fd::SamplingOptions{.temperature = 0.5f},
                                          fd::SamplingOptions{.temperature = 1.0f, .top_k = 2}}) {
    const mutants::LawAfter warped = [=](const Tokens& text) {
      return sparse(law::p_of(draft_model.logits_after(text), warp));
    };
    toy::Target target(3, 0, 1.5, 5);
    CHECK(distance(target, drawn({.draw_from = warped}), kRejection, kWarped, 1) <= kExact);
    CHECK(distance(target, drawn({.draw_from = warped, .hand_over = some_q(3)}), kRejection,
                   kWarped, 1) > kCaught);
  }
}

TEST_CASE("mutant: a wrong residual") {
  using Residual = mutants::Rejection::Residual;
  const mutants::Drawing q{.draw_from = some_q(3)};
  CHECK(mutant_distance(drawn(q), mutants::rejection({.residual = Residual::kNotSubtracted})) >
        kCaught);
  CHECK(mutant_distance(drawn(q), mutants::rejection({.residual = Residual::kNotRenormalised})) >
        kCaught);
  // The same with a point-mass draft.
  const auto found = point_mass([](const Tokens& text) { return (text.back() + 1) % 3; });
  CHECK(mutant_distance(found, mutants::rejection({})) <= kExact);
  CHECK(mutant_distance(found, mutants::rejection({.residual = Residual::kNotSubtracted})) >
        kCaught);
}

TEST_CASE("mutant: p without the transforms") {
  const auto found = point_mass([](const Tokens& text) { return (text.back() + 1) % 3; });
  CHECK(mutant_distance(found, mutants::rejection({.ignore_temperature = true})) > kCaught);
}

TEST_CASE("mutant: a drawn token withdrawn by p_min") {
  using Unlikely = mutants::Drawing::Unlikely;
  const auto distance_of = [](Unlikely unlikely) {
    toy::Target target(3, 0, 1.5, 5);
    return distance(target, drawn({.draw_from = some_q(3), .p_min = 0.3, .unlikely = unlikely}),
                    kRejection, kWarped, 2);
  };
  CHECK(distance_of(Unlikely::kWithdraw) > kCaught);
  // The two ways that the contract names: stop after the token, or hand all on as point mass.
  CHECK(distance_of(Unlikely::kStopAfter) <= kExact);
  CHECK(distance_of(Unlikely::kWithdrawUnlawed) <= kExact);
}

TEST_CASE("mutant: keys by absolute position") {
  using mutants::KeyBy;
  using Reuse = EnumeratingRng::Reuse;
  toy::Target target(2, 0, 1.5, 3);
  const fd::SamplingOptions sampling{.temperature = 1.5f};
  const int n = 5;
  const auto law = expected(target, kPeriodic, sampling, n);
  const auto law_with = [&](const ChainRule& rule, KeyBy drafts_by, const Program& calls,
                            Reuse reuse) {
    return law_of_calls(target, drawn({.draw_from = some_q(2), .key_by = drafts_by}), rule, calls,
                        reuse);
  };
  const auto one_call = in_two_calls(sampling, 2, n, n);
  const ChainRule right = mutants::block(KeyBy::kAnchor);
  const ChainRule wrong = mutants::block(KeyBy::kPosition);
  CHECK(law::total_variation(law_with(right, KeyBy::kAnchor, one_call, Reuse::kRefuse), law) <=
        kExact);
  CHECK_THROWS_AS(law_with(wrong, KeyBy::kAnchor, one_call, Reuse::kRefuse), KeyReuse);
  CHECK_THROWS_AS(law_with(right, KeyBy::kPosition, one_call, Reuse::kRefuse), KeyReuse);
  // The refusal is no formality: a source that answers equal keys equally gives the wrong law.
  CHECK(law::total_variation(law_with(right, KeyBy::kAnchor, one_call, Reuse::kShare), law) <=
        kExact);
  CHECK(law::total_variation(law_with(wrong, KeyBy::kAnchor, one_call, Reuse::kShare), law) >
        kCaught);
  // The token-wise rule draws a test again only where a cut threw its outcome away.
  const auto with_ends = stopping_at_ends(sampling, 2, n);
  CHECK(law::total_variation(
            law_with(mutants::rejection({}), KeyBy::kAnchor, with_ends, Reuse::kRefuse), law) <=
        kExact);
  CHECK_THROWS_AS(law_with(mutants::rejection({.key_by = KeyBy::kPosition}), KeyBy::kAnchor,
                           with_ends, Reuse::kRefuse),
                  KeyReuse);
}

// ---- the shipped source of randomness
// --------------------------------------------------------------

namespace {

constexpr int kVocab = 8;
constexpr int kTexts = 4000;
constexpr int kLength = 5;
// One chance in a million that any of all these tests fails without a reason, shared out equally.
constexpr int kTests = 4 * (kLength - 1);
constexpr double kFalseAlarm = 1e-6 / kTests;

/// Smallest p-value of the G-tests of all pairs of neighbouring tokens, the first text token
/// included, over texts of different sequences. `kFalseAlarm` is its threshold.
double smallest_p_value(const fd::SamplingOptions& sampling, const ChainRule& rule,
                        std::uint64_t seed) {
  toy::Target target(kVocab, 1, 2.0, 4);
  const Tokens prompt{3};
  const auto exact = law::target_law(target, prompt, sampling, kLength);
  ChainDecoder decoder{target, toy::TokenCache{32, 16}, drawn({.draw_from = some_q(kVocab)}), rule};
  std::vector<std::vector<double>> seen(kLength - 1, std::vector<double>(kVocab * kVocab));
  auto wanted = seen;
  const auto cell = [](const Tokens& tokens, std::size_t i) {
    return static_cast<std::size_t>(tokens[i] * kVocab + tokens[i + 1]);
  };
  for (const auto& [tokens, p] : exact) {
    for (std::size_t i = 0; i + 1 < kLength; ++i) wanted[i][cell(tokens, i)] += p * kTexts;
  }
  fd::Options options = with(sampling, 3);
  options.max_tokens = kLength;
  options.seed = seed;
  for (std::uint32_t text = 0; text < kTexts; ++text) {
    options.sequence = text;
    const Tokens tokens = decoder.generate(prompt, options).tokens;
    for (std::size_t i = 0; i + 1 < kLength; ++i) seen[i][cell(tokens, i)] += 1;
  }
  double smallest = 1;
  for (std::size_t i = 0; i + 1 < kLength; ++i)
    smallest = std::min(smallest, stat::g_test(seen[i], wanted[i]));
  return smallest;
}

}  // namespace

TEST_CASE(
    "texts of the shipped source have the law: G-test of pairs, one false alarm in a million") {
  const fd::SamplingOptions full{.temperature = 1.0f};
  const fd::SamplingOptions cut{.temperature = 1.3f, .top_k = 5, .top_p = 0.95f};
  CHECK(smallest_p_value(full, kMatch, 1) > kFalseAlarm);
  CHECK(smallest_p_value(full, kRejection, 2) > kFalseAlarm);
  CHECK(smallest_p_value(cut, kMatch, 3) > kFalseAlarm);
  CHECK(smallest_p_value(cut, kRejection, 4) > kFalseAlarm);
  // The test has the power to see a mistake at this size.
  CHECK(smallest_p_value(
            full, mutants::rejection({.residual = mutants::Rejection::Residual::kNotSubtracted}),
            5) < kFalseAlarm);
}

TEST_CASE("texts of different seeds and sequences are independent") {
  toy::Target target(4, 1, 1.0, 4);
  ChainDecoder decoder{target, toy::TokenCache{32, 16}, ChainFunction{}, kMatch};
  const auto first_token = [&](std::uint64_t seed, std::uint32_t sequence) {
    const fd::Options options{
        .max_tokens = 1, .temperature = 1.0f, .seed = seed, .sequence = sequence};
    return static_cast<std::size_t>(decoder.generate(Tokens{2}, options).tokens[0]);
  };
  const std::vector<double> p = law::p_of(target.logits_after(Tokens{2}), {.temperature = 1.0f});
  std::vector<double> by_seed(16), by_sequence(16), wanted(16);
  const int pairs = 4000;
  for (std::size_t i = 0; i < 16; ++i) wanted[i] = pairs * p[i / 4] * p[i % 4];
  for (int i = 0; i < pairs; ++i) {
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const auto sequence = static_cast<std::uint32_t>(2 * i);
    by_seed[first_token(seed, 0) * 4 + first_token(seed + 1, 0)] += 1;
    by_sequence[first_token(7, sequence) * 4 + first_token(7, sequence + 1)] += 1;
  }
  CHECK(stat::g_test(by_seed, wanted) > 1e-6 / 2);
  CHECK(stat::g_test(by_sequence, wanted) > 1e-6 / 2);
}
