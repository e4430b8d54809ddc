// Drafters that run no model, as chains and trees: the text is the plain one, sampled text has the
// target's law, and commits allocate nothing.

#include <foredraft/foredraft.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "property/controlled_texts.hpp"
#include "property/law_setup.hpp"
#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using AnyDrafter = fd::AnyDrafter<fd::Shape::kTree>;

struct Named {
  const char* name;
  std::function<AnyDrafter()> make;
};

template <typename D, typename... Settings>
Named named(const char* name, const Settings&... settings) {
  return {name, [=] { return AnyDrafter(D(settings...)); }};
}

const std::vector<Named>& drafters() {
  using fd::Shape;
  const fd::SuffixSettings suffix{.max_spec_factor = 3.0, .max_history = 64};
  const fd::RecyclingSettings recycling{.max_nodes = 12, .min_probability = 0.001};
  const fd::LookaheadSettings lookahead{.window = 3, .ngram = 3, .guesses = 3, .max_keys = 64};
  static const std::vector<Named> all{
      named<fd::SuffixDecoding<Shape::kChain>>("suffix", suffix),
      named<fd::SuffixDecoding<Shape::kTree>>("suffix tree", suffix),
      named<fd::SuffixAutomaton>("suffix automaton",
                                 fd::SuffixAutomaton::Settings{.min_match = 1, .max_history = 64}),
      named<fd::TokenRecycling<Shape::kChain>>("recycling", recycling),
      named<fd::TokenRecycling<Shape::kTree>>("recycling tree", recycling),
      named<fd::Lookahead>("lookahead", lookahead),
  };
  return all;
}

/// Drafters as different as those of the program's `auto`: chains and trees, of this text and of others.
void add_all(given::Chain<fd::Shape::kTree>& chain) {
  chain.add("lookup", fd::PromptLookup());
  chain.add("cache", fd::NgramCache());
  for (const Named& named : drafters()) chain.add(named.name, named.make());
}

using Decoder = fd::Decoder<toy::Target, toy::TokenCache, AnyDrafter, TreeRule>;

Decoder decoder_of(toy::Target& target, AnyDrafter drafter, const TreeRule& rule) {
  return Decoder(target, toy::TokenCache(400, 64), std::move(drafter), rule);
}

/// Commits of its drafter, and what they allocate.
struct Watched : AnyDrafter {
  struct Log {
    int commits = 0;
    std::int64_t allocations = 0;
  };
  explicit Watched(AnyDrafter drafter) : AnyDrafter(std::move(drafter)) {}
  void commit(const fd::Round& round) noexcept {
    const std::int64_t before = memory::allocations;
    AnyDrafter::commit(round);
    log->allocations += memory::allocations - before;
    ++log->commits;
  }
  std::shared_ptr<Log> log = std::make_shared<Log>();
};

}  // namespace

TEST_CASE("greedy and matched texts are the plain ones, whatever was learnt before") {
  for (const Named& named : drafters()) {
    for (const int order : {1, 2}) {
      CAPTURE(named.name, order);
      toy::Target target(12, order, 3.0);
      Drafted drafted;
      auto greedy = decoder_of(target, named.make(), TreeRule::of(fd::Greedy{}));
      auto match = decoder_of(target, named.make(), TreeRule::of(fd::SampleAndMatch{}));
      auto plain = decoder_of(target, AnyDrafter(fd::NoDraft{}), TreeRule::of(fd::Greedy{}));
      auto sampled =
          decoder_of(target, AnyDrafter(fd::NoDraft{}), TreeRule::of(fd::SampleAndMatch{}));
      for (int request = 0; request < 12; ++request) {
        const Tokens prompt{request % 5, 3, request % 12, 1, 4};
        fd::Options options{.max_tokens = 120, .n_draft = 1 + request, .prefill_block = 2};
        auto result = greedy.generate(prompt, options);
        CHECK(result.tokens == plain.generate(prompt, options).tokens);
        drafted.add(result);
        options.sampling.temperature = 0.7f;
        options.seed = static_cast<std::uint64_t>(request / 2);
        result = match.generate(prompt, options);
        CHECK(result.tokens == sampled.generate(prompt, options).tokens);
        drafted.add(result);
      }
      CHECK(drafted.both());
    }
  }
}

TEST_CASE("so they are with a limit on nodes, which no draft exceeds") {
  for (const Named& named : drafters()) {
    toy::Target target(12, 1, 3.0);
    auto plain = decoder_of(target, AnyDrafter(fd::NoDraft{}), TreeRule::of(fd::Greedy{}));
    auto greedy = decoder_of(target, named.make(), TreeRule::of(fd::Greedy{}));
    std::set<int> sizes;
    for (int request = 0; request < 12; ++request) {
      const int most = 1 + request % 6;
      CAPTURE(named.name, most);
      fd::Options options{.max_tokens = 120, .prefill_block = 2};
      const Tokens prompt{request % 5, 3, request % 12, 1, 4};
      const auto expected = plain.generate(prompt, options).tokens;
      if (request % 2 == 0) options.n_draft = 3 + request;
      options.n_nodes = most;
      options.observer = [&](const fd::RoundEvent& round) {
        CHECK(round.draft.drafted() <= most);
        sizes.insert(round.draft.drafted());
      };
      CHECK(greedy.generate(prompt, options).tokens == expected);
    }
    CHECK(*sizes.rbegin() >= 4);
  }
}

TEST_CASE("so they are where a controller decides how much is drafted") {
  for (const Named& named : drafters()) {
    check_controlled_texts<fd::Shape::kTree>(named.name, named.make);
  }
}

TEST_CASE("and where it chooses among all of them, whose branches share a tree") {
  check_controlled_chain<fd::Shape::kTree>("all", add_all);
}

TEST_CASE("sampled text has the target's law, first round included") {
  toy::Target target(2, 0, 1.0, 9);
  for (const Named& named : drafters()) {
    for (const fd::SamplingOptions& sampling :
         {law::law_transforms()[2], law::law_transforms()[5]}) {
      for (const TreeRule& rule : {setup::kRejection, setup::kMatch}) {
        CAPTURE(named.name, sampling.temperature);
        fd::Options options = setup::with(sampling, 3);
        options.max_tokens = 6;
        const auto found = law::law_of([&](fd::Rng& rng) {
          fd::Decoder decoder{target, toy::TokenCache{32, 16}, named.make(), rule};
          decoder.use_rng(&rng);
          decoder.generate(setup::kPeriodic, options);
          return Tokens(decoder.tokens().begin(), decoder.tokens().end());
        });
        const auto expected = setup::expected(target, setup::kPeriodic, sampling, 6);
        CHECK(law::total_variation(found, expected) <= setup::kExact);
      }
    }
  }
}

TEST_CASE("and so it has with a controller that decides at random, of one drafter or of all") {
  using Chain = given::Chain<fd::Shape::kTree>;
  toy::Target target(2, 0, 1.0, 9);
  const auto sampling = law::law_transforms()[2];
  const auto check = [&](const char* name, const std::function<void(Chain&)>& fill) {
    CAPTURE(name);
    fd::Options options{.max_tokens = 7, .sampling = sampling};
    std::set<int> sizes;
    options.observer = [&](const fd::RoundEvent& round) { sizes.insert(round.draft.drafted()); };
    const auto found = law::law_of([&](fd::Rng& rng) {
      given::reading = 0;
      Chain chain;
      fill(chain);
      fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(chain), setup::kRejection};
      decoder.use_rng(&rng);
      decoder.generate(setup::kPeriodic, options);
      return Tokens(decoder.tokens().begin(), decoder.tokens().end());
    });
    CHECK(sizes.size() > 1);  // it drafts, and not always as much
    const auto expected = setup::expected(target, setup::kPeriodic, sampling, 7);
    CHECK(law::total_variation(found, expected) <= setup::kExact);
  };
  for (const Named& named : drafters()) {
    check(named.name, [&](Chain& chain) { chain.add(named.name, named.make()); });
  }
  check("all", add_all);
}

TEST_CASE("commits allocate nothing") {
  for (const Named& named : drafters()) {
    CAPTURE(named.name);
    toy::Target target(40, 1, 3.0);
    Watched watched(named.make());
    const auto log = watched.log;
    fd::Decoder decoder{target, toy::TokenCache(400, 64), std::move(watched), fd::Greedy{}};
    fd::Stats stats;
    for (fd::TokenId request = 0; request < 20; ++request) {
      const auto result = decoder.generate(Tokens{request, 2, request, 2},
                                           {.max_tokens = 1 + request * 10, .n_draft = 8});
      stats.rounds += result.stats.rounds;
      stats.accepted += result.stats.accepted;
    }
    CHECK(log->commits == stats.rounds);
    CHECK(log->allocations == 0);
    CHECK(stats.accepted > 0);
  }
}
