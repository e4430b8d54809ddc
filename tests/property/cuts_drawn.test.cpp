// Cuts under the rules that draw: rejection on chains and trees, and block verification. Where such a
// text is cut, its rounds up to the cut are those of the uncut run, so the tokens before the cut are
// too. What follows a cut inside a block is drawn anew, with the law that law.test.cpp computes; here
// it has to be the same after every kind of cut at that place, and where nothing was thrown away it
// has to be the uncut text.

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/model_tree_drafter.hpp>
#include <foredraft/foredraft.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "property/cuts_setup.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using namespace cuts;
using fd::FinishReason;

using Coverage = std::map<std::string, Cells>;

template <typename D>
class Grid {
 public:
  using Decoder = fd::Decoder<Target, toy::TokenCache, Watched<D>, TreeRule>;

  Grid(std::uint32_t seed, TreeRule rule, std::function<D(Fallible&)> drafter, Coverage& coverage)
      : target_(seed),
        draft_(target_),
        rule_(std::move(rule)),
        drafter_(std::move(drafter)),
        coverage_(coverage) {
    prompt_ = {1, 2, 3, 4, 5, 6, 7, 8, static_cast<fd::TokenId>(seed % kVocab)};
    options_.max_tokens = static_cast<int>(kTokens);
    options_.n_draft = kDepth;
    options_.sampling.temperature = 1.0f;
    options_.seed = seed;
    options_.logprobs = 2;
    options_.piece = [](fd::TokenId token) { return "[" + std::to_string(token) + "]"; };
    Watch watch;
    Decoder decoder = make(watch);
    tokens_ = decoder.generate(prompt_, options_).tokens;
    REQUIRE(tokens_.size() == kTokens);
    for (std::size_t round = 0; round < watch.rounds.size(); ++round) {
      const auto [depth, made] = watch.rounds[round];
      for (std::size_t i = 0; i < made; ++i) places_.push_back({round, i, made - 1, depth});
    }
  }

  void check() {
    for (std::size_t at = 1; at < kCuts; ++at) {
      CAPTURE(options_.seed, at, places_[at].index, places_[at].accepted);
      check_end_and_stop(at);
      check_throwing_emit(at);
      check_cancel_in_emit(at);
      check_limits(at);
      if (places_[at].index == 0) check_cancelled_round(at);
    }
  }

 private:
  Decoder make(Watch& watch, int capacity = kCapacity) {
    return {target_, toy::TokenCache{capacity}, Watched<D>(drafter_(draft_), watch), rule_};
  }

  void note(const std::string& kind, std::size_t at) {
    const Place& place = places_[at];
    if (place.depth == kDepth) coverage_[kind].insert({place.index, place.accepted});
  }

  Tokens before(std::size_t n) const {
    return {tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  Tokens from(std::size_t n) const {
    return {tokens_.begin() + static_cast<std::ptrdiff_t>(n), tokens_.end()};
  }
  std::size_t end_of_round(std::size_t at) const {
    return at - places_[at].index + places_[at].accepted + 1;
  }

  /// Final tokens of a decoder: the cache holds all but the last, the draft model no more, and what
  /// is drafted next is what a drafter without a past would draft.
  void check_state(Decoder& decoder) {
    const std::span<const fd::TokenId> all = decoder.tokens();
    const auto cached = decoder.cache().tokens();
    CHECK(cached.size() == all.size() - 1);
    CHECK(std::equal(cached.begin(), cached.end(), all.begin()));
    CHECK(decoder.cache().staged() == 0);
    const auto drafted_from = decoder.drafter().cache().tokens();
    CHECK(drafted_from.size() < all.size());
    CHECK(std::equal(drafted_from.begin(), drafted_from.end(), all.begin()));
    const D& used = decoder.drafter();
    CHECK(draft_behind(used, all, options_) == draft_behind(drafter_(draft_), all, options_));
  }

  /// Each token's own row, whatever it was drafted from.
  void check_logprobs(const fd::Result& result) {
    Tokens text = prompt_;
    REQUIRE(result.logprobs.size() == result.tokens.size());
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
      CHECK(result.logprobs[i] == fd::logprobs_of(target_.row_after(text), result.tokens[i], 2));
      text.push_back(result.tokens[i]);
    }
  }

  /// Ends the text behind token `at`, by an end token and by a stop string.
  void check_end_and_stop(std::size_t at) {
    const auto first = std::find(tokens_.begin(), tokens_.end(), tokens_[at]);
    if (first - tokens_.begin() != static_cast<std::ptrdiff_t>(at)) return;
    fd::Options ends = options_;
    ends.end_tokens = {tokens_[at]};
    fd::Options stops = options_;
    stops.stop = {options_.piece(tokens_[at])};
    std::vector<Tokens> after;
    for (const fd::Options& how : {ends, stops}) {
      const bool by_end = how.stop.empty();
      Watch watch;
      Decoder decoder = make(watch);
      const fd::Result found = decoder.generate(prompt_, how);
      CHECK(found.tokens == before(at + 1));
      CHECK(found.finish_reason == (by_end ? FinishReason::kEnd : FinishReason::kStop));
      std::string text;
      for (std::size_t i = 0; i < at + (by_end ? 1 : 0); ++i) text += how.piece(tokens_[i]);
      CHECK(found.text == text);
      check_logprobs(found);
      check_state(decoder);
      note(by_end ? "end token" : "stop", at);
      fd::Options rest = options_;
      rest.max_tokens = static_cast<int>(kTokens - at - 1);
      after.push_back(decoder.resume(rest).tokens);
      CHECK(after.back().size() == kTokens - at - 1);
    }
    CHECK(after[0] == after[1]);
    if (at + 1 == end_of_round(at)) CHECK(after[0] == from(at + 1));  // nothing was thrown away
  }

  /// A throwing emit and a cancel throw no final token away, so the uncut text follows.
  void check_throwing_emit(std::size_t at) {
    Watch watch;
    Decoder decoder = make(watch);
    Tokens seen;
    const auto fail = [&](const fd::Emitted& token) {
      seen.push_back(token.token);
      if (seen.size() == at + 1) throw std::runtime_error("full disk");
    };
    CHECK_THROWS_AS(decoder.generate(prompt_, options_, fail), std::runtime_error);
    CHECK(seen == before(at + 1));
    CHECK(decoder.tokens().size() == prompt_.size() + end_of_round(at));
    check_state(decoder);
    note("throwing emit", at);
    check_rest(decoder, end_of_round(at), at + 1);
  }

  void check_cancel_in_emit(std::size_t at) {
    Watch watch;
    Decoder decoder = make(watch);
    std::size_t seen = 0;
    fd::Options options = options_;
    options.cancelled = [&] { return seen > at; };
    const fd::Result found =
        decoder.generate(prompt_, options, [&](const fd::Emitted&) { ++seen; });
    CHECK(found.finish_reason == FinishReason::kCancelled);
    CHECK(found.tokens == before(end_of_round(at)));
    check_logprobs(found);
    check_state(decoder);
    note("cancel in emit", at);
    check_rest(decoder, end_of_round(at), end_of_round(at));
  }

  /// Cancelled in the middle of the round that begins with token `at`: the round is made again.
  void check_cancelled_round(std::size_t at) {
    for (int poll = 0; poll < 3; ++poll) {
      Watch watch;
      Decoder decoder = make(watch);
      std::size_t seen = 0;
      int polls = 0;
      fd::Options options = options_;
      options.cancelled = [&] { return seen >= at && polls++ == poll; };
      const fd::Result found =
          decoder.generate(prompt_, options, [&](const fd::Emitted&) { ++seen; });
      CHECK(found.finish_reason == FinishReason::kCancelled);
      CHECK(found.tokens == before(at));
      check_state(decoder);
      check_rest(decoder, at, at);
      coverage_["cancelled round"].insert({fd::idx(poll), 0});
    }
  }

  /// A limit shortens the draft before it, so the last round is another one; what it leaves holds.
  void check_limits(std::size_t at) {
    for (const bool context : {false, true}) {
      Watch watch;
      const auto full = static_cast<int>(prompt_.size() + at) + 1;
      Decoder decoder = make(watch, context ? full : kCapacity);
      fd::Options options = options_;
      if (!context) options.max_tokens = static_cast<int>(at) + 1;
      const fd::Result found = decoder.generate(prompt_, options);
      CHECK(found.tokens.size() == at + 1);
      CHECK(found.finish_reason == (context ? FinishReason::kContext : FinishReason::kLength));
      check_logprobs(found);
      check_state(decoder);
      Decoder larger = make(watch);
      larger.restore(decoder.snapshot());
      CHECK(larger.resume(options_).tokens.size() == kTokens);
      note(context ? "context limit" : "token limit", at);
    }
  }

  /// @param made tokens that are final @param seen of those that a call has delivered
  void check_rest(Decoder& decoder, std::size_t made, std::size_t seen) {
    fd::Options rest = options_;
    rest.max_tokens = static_cast<int>(kTokens - made);
    CHECK(decoder.resume(rest).tokens == from(seen));
  }

  Target target_;
  Fallible draft_;
  TreeRule rule_;
  std::function<D(Fallible&)> drafter_;
  Coverage& coverage_;
  fd::Options options_;
  Tokens prompt_;
  Tokens tokens_;
  std::vector<Place> places_;
};

template <typename D>
void check_all(const TreeRule& rule, std::function<D(Fallible&)> drafter) {
  Coverage coverage;
  const std::vector<std::string> kinds{"end token",      "stop",        "throwing emit",
                                       "cancel in emit", "token limit", "context limit"};
  const auto all_met = [&] {
    return std::all_of(kinds.begin(), kinds.end(),
                       [&](const std::string& kind) { return coverage[kind] == all_cells(); });
  };
  for (std::uint32_t seed = 1; seed <= 40 && !all_met(); ++seed) {
    Grid<D>(seed, rule, drafter, coverage).check();
  }
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    CHECK(coverage[kind] == all_cells());
  }
  CHECK(coverage["cancelled round"].size() == 3);
}

using Chain = fd::ModelDrafter<Fallible, toy::TokenCache>;
using Tree = fd::ModelTreeDrafter<Fallible, toy::TokenCache>;

Chain chain(Fallible& draft) {
  return {draft, toy::TokenCache{kCapacity}, {.sampling = fd::DraftSampling::kDrawn}};
}
Tree tree(Fallible& draft, fd::Siblings siblings) {
  return {draft,
          toy::TokenCache{kCapacity},
          {.branching = {2, 1, 2, 1}, .siblings = siblings, .sampling = fd::DraftSampling::kDrawn}};
}

}  // namespace

TEST_CASE("cuts at every place of a drawn chain, under rejection") {
  check_all<Chain>(TreeRule::of(fd::RejectionSampling{}), chain);
}

TEST_CASE("cuts at every place of a drawn chain, under block verification") {
  check_all<Chain>(TreeRule::of(fd::BlockVerification{}), chain);
}

TEST_CASE("cuts at every place of a drawn tree") {
  for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
    check_all<Tree>(TreeRule::of(fd::RejectionSampling{}),
                    [siblings](Fallible& draft) { return tree(draft, siblings); });
  }
}
