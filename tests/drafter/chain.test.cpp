#include <foredraft/drafter/chain.hpp>

#include <algorithm>
#include <foredraft/foredraft.hpp>
#include <foredraft/testing/drafts.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "drafter/given_costs.hpp"
#include "support/catch.hpp"
#include "support/exact_law.hpp"
#include "support/function_policies.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
using fd::Shape;

namespace {

using Chain = fd::Chain<Shape::kTree>;
using Senseless = given::Chain<Shape::kTree>;

struct Named {
  std::string name;
  fd::AnyDrafter<Shape::kTree> drafter;
};
template <typename D>
Named part(std::string name, D drafter) {
  return {std::move(name), fd::AnyDrafter<Shape::kTree>(std::move(drafter))};
}
template <typename C = Chain, typename... P>
C chain_of(P... parts) {
  C chain;
  (chain.add(std::move(parts.name), std::move(parts.drafter)), ...);
  return chain;
}

/// Rows are known to cost nothing: where nothing is known, few of them are tried at first.
template <typename C>
C with_free_rows(C chain) {
  fd::ControllerState state;
  for (auto& mean : state.passes.front()) mean = {.seconds = 0.01, .samples = 9};
  chain.learn_from(state);
  return chain;
}

TreeFunction fixed(std::vector<fd::TokenId> tokens) {
  return {[tokens](const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
    for (const fd::TokenId token : tokens) {
      if (draft.drafted() < limit.depth) draft.extend(token);
    }
  }};
}

/// A drafter with a model that has read everything.
struct Reader : TreeFunction {
  std::optional<int> backlog(int) const { return 0; }
};
/// One that drafts behind what is assumed.
struct Continuing : TreeFunction {
  bool continues() const { return true; }
};

constexpr fd::Limit kWide{.depth = 8, .nodes = 8};
const std::vector<fd::TokenId> kText{1, 2, 3};

fd::DraftTree propose(Chain& chain, fd::Limit limit = kWide) {
  fd::DraftTree draft;
  draft.reset(kText.back());
  chain.propose({kText, {}, {}}, limit, draft);
  return draft;
}

struct Failing : fd::StatelessDrafter {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  int max_depth() const { return 8; }
  void propose(const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    draft.extend(5);
    throw fd::Error(fd::ErrorCode::kOutOfMemory, "a drafter without memory", "some", "");
  }
  void absorb(const fd::PromptBlock&) {
    throw fd::Error(fd::ErrorCode::kOutOfMemory, "no memory to read in", "some", "");
  }
};

struct Tapped : fd::StatelessDrafter {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  std::vector<int> layers;
  int depth = 0;
  int max_depth() const { return depth; }
  std::span<const int> taps() const { return layers; }
  fd::RowNeed need = fd::RowNeed::kNothing;
  fd::RowNeed needs() const { return need; }
  std::optional<int> backlog(int n) const { return n - depth; }
  void propose(const fd::Context&, fd::Limit, fd::DraftTree&) {}
};

}  // namespace

TEST_CASE("what two drafters propose is one tree, and each node says whose it is") {
  Chain chain = with_free_rows(chain_of(part("a", fixed({7, 8})), part("b", fixed({7, 9}))));
  const fd::DraftTree draft = propose(chain);
  CHECK(draft.drafted() == 3);
  CHECK(draft.child_with(draft.child_with(0, 7), 8) > 0);
  const fd::NodeIndex other = draft.child_with(draft.child_with(0, 7), 9);
  REQUIRE(other > 0);
  CHECK(draft.origin(other) == 1);
  CHECK(draft.origin(draft.child_with(0, 7)) == 0);
}

TEST_CASE("a fixed depth is kept, whatever it costs") {
  Chain chain = chain_of(part("a", fixed({7, 8, 9, 1, 2, 3})));
  CHECK(propose(chain, {.depth = 5, .nodes = 5, .fixed = true}).drafted() == 5);
  Chain two = chain_of(part("a", fixed({7, 8, 9, 1, 2, 3})), part("b", fixed({})));
  CHECK(propose(two, {.depth = 5, .nodes = 5, .fixed = true}).drafted() == 5);
  CHECK(propose(two, {.fixed = true}).drafted() == 0);
}

TEST_CASE("of a draft nothing is learned behind its first wrong token") {
  Chain chain = chain_of(part("wrong", fixed({7, 8, 9})), part("none", fixed({})));
  const fd::DraftTree draft = propose(chain, {.depth = 4, .nodes = 4, .fixed = true});
  REQUIRE(draft.drafted() == 3);
  const fd::Scores scores;
  const std::vector<fd::NodeIndex> path{0, 1};
  const std::vector<fd::TokenId> tokens{7, 5};
  chain.commit({draft, path, tokens, scores, 2, {}});
  CHECK(chain.controller().acceptance(0).trials() == Approx(2).margin(0.01));  // 7, and 8 behind it
}

TEST_CASE("a drafter that fails or breaks its contract has proposed nothing; the others have") {
  const TreeFunction too_long{[](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    for (int i = 0; i < 20; ++i) draft.extend(1);
  }};
  Chain chain = with_free_rows(
      chain_of(part("fails", Failing{}), part("drafts", fixed({7, 8})), part("breaks", too_long)));
  const fd::DraftTree draft = propose(chain);
  CHECK(draft.drafted() == 2);
  CHECK(draft.origin(1) == 1);
  CHECK_THAT(chain.summary(),
             Catch::Contains("fails: asked 1 times") && Catch::Contains("failed 1 times"));
  const std::string said = chain.summary();
  CHECK_THAT(said, Catch::Contains("  the last failure: "));
  fd::ControllerState state = chain.learned();
  state.drafters[0].seconds = -1;
  CHECK_THROWS_AS(chain.learn_from(state), fd::Error);
  CHECK(chain.summary() == said);
  state.drafters[0].seconds = 0;
  chain.learn_from(state);
  CHECK_THAT(chain.summary(), !Catch::Contains("failure") && !Catch::Contains("failed"));
  Chain alone = chain_of(part("fails", Failing{}));
  CHECK_THROWS_AS(propose(alone), fd::Error);
}

TEST_CASE("whatever it throws") {
  const TreeFunction senseless{[](const fd::Context&, fd::Limit, fd::DraftTree&) { throw 42; }};
  Chain chain = with_free_rows(chain_of(part("fails", senseless), part("drafts", fixed({7, 8}))));
  CHECK(propose(chain).drafted() == 2);
  CHECK_THAT(chain.summary(), Catch::Contains("the last failure: an exception without a text"));
  Chain alone = chain_of(part("fails", senseless));
  CHECK_THROWS_AS(propose(alone), int);
}

TEST_CASE("no more does one that fails while all catch up, or read the prompt") {
  int caught_up = 0;
  const TreeFunction reads{[&](const fd::Context&, fd::Limit, fd::DraftTree&) { ++caught_up; }};
  Chain chain = chain_of(part("fails", Failing{}), part("reads", reads));
  CHECK(propose(chain, {.fixed = true}).drafted() == 0);
  CHECK(caught_up == 1);
  chain.absorb({});
  CHECK_THAT(chain.summary(), Catch::Contains("failed 2 times"));
  Chain alone = chain_of(part("fails", Failing{}));
  CHECK_THROWS_AS(propose(alone, {.fixed = true}), fd::Error);
  CHECK_THROWS_AS(alone.absorb({}), fd::Error);
}

TEST_CASE("a drawn draft is handed on as it is, with its law") {
  struct Drawn : TreeFunction {
    std::optional<int> backlog(int) const { return 0; }
  };
  Drawn drawn;
  drawn.function = [](const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < std::min(limit.depth, 2); ++i) {
      draft.drawn_from(draft.size() - 1) = fd::Law{{4, 6}, {0.25, 0.75}};
      draft.extend(6);
    }
  };
  Chain chain = chain_of(part("found", fixed({})), part("drawn", drawn));
  const fd::DraftTree draft = propose(chain, {.depth = 8, .nodes = 8, .fixed = true});
  REQUIRE(draft.drafted() == 2);
  CHECK(draft.siblings(1) == fd::Siblings::kIndependent);
  CHECK(draft.law(1)(6) == 0.75);
  CHECK(draft.origin(2) == 1);
}

TEST_CASE("what a part wants and can do is what the chain wants and can do") {
  Tapped one, two;
  one.layers = {5, 2};
  one.depth = 3;
  two.layers = {2, 9};
  two.depth = 7;
  two.need = fd::RowNeed::kLogits;
  const Chain chain = chain_of(part("one", one), part("none", fd::NoDraft{}), part("two", two));
  const std::vector<int> all{2, 5, 9};
  CHECK(std::ranges::equal(chain.taps(), all));
  CHECK(chain.needs() == fd::RowNeed::kLogits);
  CHECK(chain.max_depth() == 7);
  CHECK(chain.backlog(20) == 17);
  CHECK_FALSE(chain_of(part("none", fd::NoDraft{})).backlog(20).has_value());
  Chain many;
  for (int i = 0; i < Chain::kMostParts; ++i) many.add("none", fd::NoDraft{});
  CHECK(propose(many).drafted() == 0);
  CHECK_THROWS_AS(many.add("none", fd::NoDraft{}), fd::Error);
}

TEST_CASE("what follows a model's draft in the text is drafted behind it") {
  const std::vector<fd::TokenId> text{5, 6, 7, 8, 9, 1, 2, 3};
  for (const bool drawn : {false, true}) {
    CAPTURE(drawn);
    Reader model;
    model.function = [&](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
      for (const fd::TokenId token : {6, 7}) {
        if (drawn) draft.drawn_from(draft.size() - 1) = fd::Law{{token}, {1.0}};
        draft.extend(token);
      }
    };
    Chain chain = chain_of(part("model", model), part("lookup", fd::PromptLookup{}));
    fd::DraftTree draft;
    draft.reset(text.back());
    fd::Philox rng(1);
    const fd::Limit limit{.depth = 6, .nodes = 6, .fixed = true};
    chain.propose({text, {}, {}, true, &rng}, limit, draft);
    REQUIRE(draft.drafted() == 6);
    for (fd::NodeIndex node = 1; node <= 4; ++node) {
      CHECK(draft.token(node) == 5 + node);
      CHECK(draft.parent(node) == node - 1);
      CHECK(draft.origin(node) == (node > 2));
    }
    CHECK(draft.siblings(1) == (drawn ? fd::Siblings::kIndependent : fd::Siblings::kPointMass));
    CHECK(draft.siblings(2) == fd::Siblings::kPointMass);
    // What the lookup drafted is not held against the model, nor for it.
    const fd::Scores scores;
    const std::vector<fd::NodeIndex> path{0, 1, 2};
    const std::vector<fd::TokenId> tokens{6, 7, 4};
    chain.commit({draft, path, tokens, scores, 7, {}});
    CHECK(chain.controller().acceptance(0).trials() == Approx(2).margin(0.01));
    CHECK(chain.controller().acceptance(0).rate(fd::DraftTree::kUnknown, 1) > 0.6);
    CHECK_THAT(chain.summary(), Catch::Contains("model: asked 1 times") &&
                                    Catch::Contains("2 tokens verified, 2 accepted") &&
                                    Catch::Contains("4 tokens verified, 0 accepted"));
  }
}

TEST_CASE("drafts of a fixed depth share the nodes of one chain, or as many as were asked for") {
  const auto drafted = [](fd::Limit limit) {
    Chain chain = chain_of(part("one", fixed({4, 5, 6})), part("other", fixed({7, 8, 9})));
    return propose(chain, limit).drafted();
  };
  CHECK(drafted({.depth = 3, .nodes = 60, .fixed = true}) == 3);
  CHECK(drafted({.depth = 3, .nodes = 60, .fixed = true, .fixed_nodes = true}) == 6);
  CHECK(drafted({.depth = 3, .nodes = 5, .fixed = true, .fixed_nodes = true}) == 5);
}

TEST_CASE("of a round that never ended nothing is learned in another text") {
  for (const bool drawn : {false, true}) {
    CAPTURE(drawn);
    Reader model;
    model.function = [&](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
      for (int i = 0; i < 3; ++i) {
        if (drawn) draft.drawn_from(draft.size() - 1) = fd::Law{{6}, {1.0}};
        draft.extend(6);
      }
    };
    Chain chain = chain_of(part("model", model), part("found", fixed({7, 8})));
    propose(chain, {.depth = 4, .nodes = 4, .fixed = true});
    chain.truncate(1);
    fd::DraftTree draft;
    draft.reset(2);
    const fd::Scores scores;
    const std::vector<fd::NodeIndex> path{0};
    const std::vector<fd::TokenId> tokens{9};
    chain.commit({draft, path, tokens, scores, 1, {}});
    CHECK(chain.controller().acceptance(0).trials() == 0);
    CHECK(chain.controller().acceptance(1).trials() == 0);
  }
}

TEST_CASE("of a round that failed nothing is learned in one of a fixed depth") {
  Chain chain = chain_of(part("alone", fixed({7, 8})));
  propose(chain);
  const fd::DraftTree draft = propose(chain, {.depth = 2, .nodes = 2, .fixed = true});
  const fd::Scores scores;
  const std::vector<fd::NodeIndex> path{0};
  const std::vector<fd::TokenId> tokens{9};
  chain.commit({draft, path, tokens, scores, 2, {}});
  CHECK(chain.controller().acceptance(0).trials() == 0);
}

TEST_CASE("no continuation is asked for where there is no draft or no room behind it") {
  int asked = 0;
  Continuing behind;
  behind.function = [&](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    if (context.assumed.empty()) return;
    ++asked;
    CHECK(draft.token(0) == context.end());
    CHECK(limit.depth > 0);
  };
  Reader model;
  int length = 0;
  model.function = [&](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    for (int i = 0; i < length; ++i) draft.extend(4);
  };
  Chain chain = chain_of(part("model", model), part("behind", behind));
  const fd::Limit limit{.depth = 3, .nodes = 3, .fixed = true};
  for (length = 0; length <= 3; ++length) {
    asked = 0;
    CHECK(propose(chain, limit).drafted() == length);
    CHECK(asked == (length == 1 || length == 2));
  }
}

TEST_CASE("of a model's tree those nodes count as rows that are worth one") {
  fd::PassCost dear;
  for (int rows = 1; rows <= fd::PassCost::kMostRows; ++rows) {
    for (int i = 0; i < 9; ++i) dear.learn(rows, 0, 0.01 * (1 + 0.1 * (rows - 1)));
  }
  for (const auto& [siblings, width] : {std::pair(0.001f, 1.0), {0.4f, 4.0}}) {
    CAPTURE(siblings);
    Reader model{{[siblings = siblings](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
      for (const fd::TokenId token : {5, 6, 7, 8}) {
        draft.set_confidence(draft.add(0, token), token == 5 ? 0.9f : siblings);
      }
    }}};
    Chain chain = chain_of(part("model", model));
    fd::ControllerState state = chain.learned();
    state.passes = dear.state();
    chain.learn_from(state);
    (void)propose(chain);
    CHECK(chain.learned().drafters[0].width == Approx(width));
  }
}

TEST_CASE("a snapshot is that of its drafters") {
  Chain chain = chain_of(part("lookup", fd::PromptLookup{}), part("none", fd::NoDraft{}));
  const auto snapshot = chain.snapshot();
  propose(chain);
  chain.restore(snapshot);
  Chain other = chain_of(part("lookup", fd::PromptLookup{}));
  CHECK_THROWS_AS(other.restore(snapshot), fd::Error);
  CHECK_NOTHROW(other.restore({}));
}

TEST_CASE("a Decoder controls what it is given, and says so") {
  toy::Target target;
  fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  static_assert(std::is_same_v<decltype(decoder.drafter()), fd::PromptLookup&>);
  const auto result = decoder.generate(kText, {.max_tokens = 30});
  CHECK_THAT(result.speculation, Catch::Contains("asked"));
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  CHECK(plain.generate(kText, {.max_tokens = 30}).tokens == result.tokens);
  CHECK(plain.generate(kText, {.max_tokens = 30}).speculation.empty());
}

TEMPLATE_TEST_CASE("a controller that decides at random leaves the text alone", "", fd::Greedy,
                   fd::SampleAndMatch) {
  toy::Target target;
  const float temperature = std::is_same_v<TestType, fd::Greedy> ? 0.0f : 1.0f;
  fd::Options options{.max_tokens = 200, .sampling = {.temperature = temperature}, .seed = 3};
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, TestType{}};
  const auto truth = plain.generate(kText, options).tokens;
  std::vector<fd::TokenId> whole = kText;
  whole.insert(whole.end(), truth.begin(), truth.end());
  std::int64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    given::reading = 1000 * seed;
    Senseless chain =
        chain_of<Senseless>(part("lookup", fd::PromptLookup{}),
                            part("oracle", OracleDrafter(whole, target.vocab_size(), 0.3, seed, 2)),
                            part("wrong", fixed({1, 1, 1, 1})));
    fd::Decoder decoder{target, toy::TokenCache{}, std::move(chain), TestType{}};
    const auto result = decoder.generate(kText, options);
    CHECK(result.tokens == truth);
    accepted += result.stats.accepted;
  }
  CHECK(accepted > 500);
}

TEST_CASE("rejection keeps the law with a controller whose choices depend on all past rounds") {
  toy::Target target(3, 0, 1.5, 5);
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  const law::Tokens prompt{0, 1};
  constexpr int kTokens = 6;
  const auto q = [](const law::Tokens& text) {
    return fd::Law{{0, 1, 2},
                   text.size() % 2 == 0 ? std::vector{0.2, 0.5, 0.3} : std::vector{0.6, 0.1, 0.3}};
  };
  const auto one = [](fd::Siblings made, int count) {
    return [=](const law::Tokens&) { return law::Brood{made, count}; };
  };
  Reader drawn;
  drawn.function = law::drafting<Shape::kTree>(3, one(fd::Siblings::kIndependent, 1), q).function;
  const auto found = law::drafting<Shape::kTree>(3, one(fd::Siblings::kPointMass, 2), q);
  // By place in the text: whose drafts were verified there on any path, -1 for none.
  std::map<fd::Position, std::set<int>> choices;
  fd::Options options{.max_tokens = kTokens, .sampling = sampling};
  options.observer = [&](const fd::RoundEvent& round) {
    const fd::DraftTree& draft = round.draft;
    choices[round.anchor_position].insert(draft.drafted() > 0 ? draft.origin(1) : -1);
  };
  bool failed = false;
  const auto written = law::law_of([&](fd::Rng& rng) {
    given::reading = 0;
    fd::Decoder decoder{target, toy::TokenCache{},
                        chain_of<Senseless>(part("found", found), part("drawn", drawn),
                                            part("fixed", Continuing{fixed({2})})),
                        fd::RejectionSampling{}};
    decoder.use_rng(&rng);
    const fd::Result result = decoder.generate(prompt, options);
    failed |= result.speculation.find("failed") != std::string::npos;
    return result.tokens;
  });
  CHECK_FALSE(failed);  // of several nobody sees it
  // The drawn draft was chosen, and whether it was depended on the path.
  CHECK(std::any_of(choices.begin(), choices.end(), [](const auto& place) {
    return place.second.contains(1) && place.second.size() > 1;
  }));
  CHECK(law::total_variation(written, law::target_law(target, prompt, sampling, kTokens)) < 1e-12);
}

TEST_CASE("of drafters that propose trees a rule for chains gets paths") {
  const TreeFunction forks{[](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    const fd::NodeIndex first = draft.extend(4);
    draft.set_confidence(draft.add(0, 5), 0.1f);
    draft.add(first, 6);
  }};
  fd::ControlledDrafters<fd::AnyDrafter<Shape::kTree>, Shape::kChain> paths;
  static_assert(decltype(paths)::shape == Shape::kChain);
  paths.add("forks", forks);
  paths = with_free_rows(std::move(paths));
  for (const bool fixed : {false, true}) {
    fd::DraftTree draft;
    draft.reset(kText.back());
    paths.propose({kText, {}, {}}, {.depth = 8, .nodes = 8, .fixed = fixed}, draft);
    CHECK(draft.is_chain());
    CHECK(draft.drafted() == 2);
  }
}

TEST_CASE("where there is no room for a draft, not even a model that is not known yet drafts") {
  Reader model;
  model.function = [](const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < limit.depth; ++i) {
      draft.drawn_from(draft.size() - 1) = fd::Law{{6}, {1.0}};
      draft.extend(6);
    }
  };
  Chain chain = chain_of(part("model", model));
  CHECK(propose(chain).drafted() == 1);  // once, to see what it costs
  const fd::Scores scores;
  const std::vector<fd::NodeIndex> path{0};
  for (int round = 0; round < 20; ++round) {
    fd::DraftTree draft;
    draft.reset(kText.back());
    const std::vector<fd::TokenId> tokens{9};
    chain.commit({draft, path, tokens, scores, 2 + round, {0.0, 1.0}});
    CHECK(propose(chain, {}).drafted() == 0);
    CHECK(propose(chain, {.depth = 1, .nodes = 1}).drafted() <= 1);
  }
}

TEST_CASE("origins of a drafter that numbers its nodes itself do no harm") {
  const TreeFunction numbered{[](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    draft.set_origin(draft.extend(4), 9);
  }};
  Chain chain = chain_of(part("numbered", numbered));
  const fd::DraftTree draft = propose(chain, {.depth = 2, .nodes = 2, .fixed = true});
  CHECK(draft.origin(1) == 9);
  const fd::Scores scores;
  const std::vector<fd::NodeIndex> path{0, 1};
  const std::vector<fd::TokenId> tokens{4, 5};
  chain.commit({draft, path, tokens, scores, 2, {}});
  CHECK_THAT(chain.summary(), Catch::Contains("1 tokens verified, 1 accepted"));
  // Nor where another one, above several, has numbered them.
  Chain two = chain_of(part("a", fixed({})), part("b", fixed({})));
  two.commit({draft, path, tokens, scores, 2, {}});
  CHECK_THAT(two.summary(), Catch::Contains("b: asked 0 times, 0 ms in all; 1 tokens verified"));
}
