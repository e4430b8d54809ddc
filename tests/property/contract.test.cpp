// The loop keeps the contract of Drafter to the letter, whatever its callers do.

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/strict_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

constexpr int kVocab = 4;  // texts repeat, so a lookup finds something

/// A cache that cannot go back to its beginning, as one with recurrent states.
struct OneWayCache : toy::TokenCache {
  using toy::TokenCache::TokenCache;
  void truncate(int) = delete;
};
static_assert(fd::Cache<OneWayCache> && !fd::Truncatable<OneWayCache>);

/// The toy target over any cache.
struct Target : toy::Target {
  using toy::Target::forward;
  using toy::Target::Target;
  void forward(std::span<fd::Request<OneWayCache>> requests) {
    for (auto& request : requests) {
      fd::Request<toy::TokenCache> same{request.cache, request.first, request.count, request.want,
                                        request.scores};
      toy::Target::forward(std::span(&same, 1));
    }
  }
};

std::vector<fd::TokenId> random_text(std::mt19937& random, std::size_t n) {
  std::vector<fd::TokenId> tokens(n);
  for (auto& token : tokens) token = static_cast<fd::TokenId>(random() % kVocab);
  return tokens;
}

/// Calls a decoder in random order and way, with cancels and exceptions at any place, and compares
/// what comes of it with a decoder that drafts nothing and is never disturbed.
template <typename Cache, typename D>
void disturb(D inner, std::uint32_t seed) {
  std::mt19937 random(seed);
  Target target(kVocab, 0);
  using Strict = StrictDrafter<D>;
  fd::Decoder decoder{target, Cache(160, 48), Strict{std::move(inner)}, fd::Greedy{}};
  const auto snapshot_type = decoder.snapshot();
  std::vector<std::remove_const_t<decltype(snapshot_type)>> snapshots;

  const auto options = [&] {
    fd::Options o{.max_tokens = static_cast<int>(random() % 30),
                  .n_draft = static_cast<int>(random() % 12),
                  .prefill_block = 1 + static_cast<int>(random() % 20)};
    if (random() % 4 == 0) o.cancelled = [&random] { return random() % 6 == 0; };
    if (random() % 4 == 0) o.end_tokens = {static_cast<fd::TokenId>(random() % kVocab)};
    return o;
  };
  const auto emit = [&](const fd::Emitted&) {
    if (random() % 100 == 0) throw std::runtime_error("the user's own trouble");
  };
  for (int step = 0; step < 150; ++step) {
    if (random() % 5 == 0) {
      target.before_forward = [&target] {
        target.before_forward = {};
        throw std::runtime_error("device lost");
      };
    }
    try {
      switch (random() % 7) {
        case 0: decoder.generate(random_text(random, 1 + random() % 60), options(), emit); break;
        case 1: {  // a prompt that begins like the text, or is all of it
          const auto tokens = decoder.tokens();
          auto prompt = std::vector<fd::TokenId>(
              tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(
                                                   tokens.size() - random() % (tokens.size() + 1)));
          const auto rest = random_text(random, 1 + random() % 5);
          prompt.insert(prompt.end(), rest.begin(), rest.end());
          decoder.generate(prompt, options(), emit);
          break;
        }
        case 2: decoder.prefill(random_text(random, 1 + random() % 60), options()); break;
        case 3: snapshots.push_back(decoder.snapshot()); break;
        case 4:
          if (!snapshots.empty()) decoder.restore(snapshots[random() % snapshots.size()]);
          break;
        default: decoder.resume(options(), emit);
      }
    } catch (const fd::Error&) {  // nothing to resume, a full context
    } catch (const std::runtime_error&) {
    }
    target.before_forward = {};
  }

  const auto& log = decoder.drafter().log();
  CHECK(std::set<std::string>(log.broken.begin(), log.broken.end()) == std::set<std::string>{});
  CHECK(log.absorbed > 0);
  CHECK(log.cold > 0);
  CHECK(log.proposed > 0);
  CHECK(log.idle > 0);
  CHECK(log.committed > log.cold);
  CHECK(log.truncated > 0);
  CHECK(log.restored > 0);

  std::vector<fd::TokenId> prompt = random_text(random, 20);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const fd::Options all{.max_tokens = 60};
  CHECK(decoder.generate(prompt, all).tokens == plain.generate(prompt, all).tokens);
}

}  // namespace

TEST_CASE("drafters are called as their contract says, in any order of calls and interruptions") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    disturb<toy::TokenCache>(fd::PromptLookup({.min_match = 2}), seed);
    disturb<OneWayCache>(fd::PromptLookup({.min_match = 2}), seed);
    disturb<toy::TokenCache>(fd::SuffixDecoding<fd::Shape::kTree>(), seed);
    disturb<toy::TokenCache>(fd::SuffixAutomaton({.min_match = 1, .max_history = 50}), seed);
    disturb<toy::TokenCache>(fd::TokenRecycling<fd::Shape::kTree>(), seed);
    disturb<toy::TokenCache>(fd::Lookahead({.window = 3, .ngram = 3, .max_keys = 64}), seed);
    disturb<toy::TokenCache>(fd::NgramSimple({.size_n = 2}), seed);
    disturb<OneWayCache>(fd::NgramMapK({.size_n = 2}), seed);
    disturb<toy::TokenCache>(fd::NgramMapK4V({.size_n = 2}), seed);
    disturb<toy::TokenCache>(fd::NgramMod(std::make_shared<fd::NgramModTable>(2, 1 << 8)), seed);
    disturb<toy::TokenCache>(fd::NgramCache(std::make_shared<fd::SharedNgramCounts>()), seed);
    toy::Target model(kVocab, 1, 2.0, 5);
    using Model = fd::ModelDrafter<toy::Target, toy::TokenCache>;
    disturb<toy::TokenCache>(Model(model, toy::TokenCache(160, 48), {}), seed);
    disturb<toy::TokenCache>(
        fd::Chain{fd::PromptLookup({.min_match = 2}), fd::SuffixDecoding<fd::Shape::kTree>(),
                  Model(model, toy::TokenCache(160, 48), {})},
        seed);
    disturb<toy::TokenCache>(OracleDrafter(std::vector<fd::TokenId>(200, 1), kVocab, 0.3, seed, 3),
                             seed);
  }
}

TEST_CASE("a loop that breaks the contract is seen") {
  using Strict = StrictDrafter<fd::PromptLookup>;
  fd::Philox rng;
  fd::DraftTree draft;
  fd::Scores scores;
  const std::vector<fd::TokenId> tokens{1, 2, 3};
  const auto prompt = [&](Strict& drafter, fd::Position begin, std::size_t n) {
    scores.reset({fd::RowNeed::kNothing, {}}, static_cast<int>(n), kVocab);
    drafter.absorb({begin, std::span(tokens).subspan(fd::idx(begin), n), &scores});
  };
  const auto propose = [&](Strict& drafter, std::span<const fd::TokenId> final_tokens,
                           fd::Limit limit) {
    draft.reset(final_tokens.back());
    drafter.propose({final_tokens, {}, {}, false, &rng, kVocab}, limit, draft);
  };
  const auto commit = [&](Strict& drafter, const std::vector<fd::NodeIndex>& path,
                          const std::vector<fd::TokenId>& made, fd::Position anchor) {
    scores.reset({fd::RowNeed::kArgmax, {}}, draft.size(), kVocab);
    drafter.commit({draft, path, made, scores, anchor});
  };
  const auto broken = [&](auto&& calls) {
    Strict drafter{fd::PromptLookup{}};
    prompt(drafter, 0, 2);
    calls(drafter);
    return drafter.log().broken.size();
  };

  CHECK(broken([&](Strict& d) {  // as it ought to be
          draft.reset(3);
          commit(d, {0}, {1}, 2);
          propose(d, std::vector<fd::TokenId>{1, 2, 3, 1}, {2, 2});
          commit(d, {0}, {2}, 3);
        }) == 0);
  CHECK(broken([&](Strict& d) { prompt(d, 1, 1); }) > 0);               // a block twice
  CHECK(broken([&](Strict& d) { propose(d, tokens, {2, 1}); }) > 0);    // too few nodes
  CHECK(broken([&](Strict& d) { propose(d, tokens, {64, 64}); }) > 0);  // too many
  CHECK(broken([&](Strict& d) { propose(d, std::span(tokens).first(2), {}); }) > 0);  // one lacks
  CHECK(broken([&](Strict& d) { d.truncate(3); }) > 0);  // more than there is
  CHECK(broken([&](Strict& d) {                          // a final token that no commit named
          propose(d, tokens, {});
          propose(d, std::vector<fd::TokenId>{1, 2, 3, 1}, {});
        }) > 0);
  CHECK(broken([&](Strict& d) {  // another anchor
          propose(d, tokens, {});
          commit(d, {0}, {1}, 3);
        }) > 0);
  CHECK(broken([&](Strict& d) {  // a round twice
          propose(d, tokens, {});
          commit(d, {0}, {1}, 2);
          commit(d, {0}, {1}, 2);
        }) > 0);
  CHECK(broken([&](Strict& d) {  // a draft of the loop's own
          propose(d, tokens, {});
          draft.extend(1);
          commit(d, {0, 1}, {1, 2}, 2);
        }) > 0);
}
