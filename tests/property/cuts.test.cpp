// A text may end anywhere in a drafted block: at each index, with the draft accepted or rejected
// there, for every reason that there is. What is left has to be what plain decoding would have
// left: tokens, text, log probabilities, the state of caches and drafters. So what follows when the
// call is resumed is the text as if nothing had ended it.
//
// The grid is made from an uncut run, which shows where in its round each token stands. Each cut is
// then put at each token; which places were met is counted, and all of them have to be.

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/model_tree_drafter.hpp>
#include <foredraft/foredraft.hpp>

#include <algorithm>
#include <concepts>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "property/cuts_setup.hpp"
#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"

namespace fd = foredraft;

namespace {

using namespace cuts;
using fd::FinishReason;

const TreeRule kGreedy = TreeRule::of(fd::Greedy{});
const TreeRule kMatch = TreeRule::of(fd::SampleAndMatch{});

using Coverage = std::map<std::string, Cells>;

/// One way to end a call, and what it has to leave.
struct Cut {
  std::string kind;
  fd::Options options;
  std::size_t kept = 0;  // tokens
  std::string text;
  FinishReason reason = FinishReason::kLength;
  int capacity = kCapacity;
};

template <typename D>
class Grid {
 public:
  using Decoder = fd::Decoder<Target, toy::TokenCache, Watched<D>, TreeRule>;

  Grid(Text& text, TreeRule rule, std::function<D(Text&)> drafter, Coverage& coverage)
      : text_(text), rule_(std::move(rule)), drafter_(std::move(drafter)), coverage_(coverage) {
    Watch watch;
    Decoder decoder = make(watch);
    REQUIRE(decoder.generate(text_.prompt, text_.options).tokens == text_.tokens);
    for (std::size_t round = 0; round < watch.rounds.size(); ++round) {
      const auto [depth, made] = watch.rounds[round];
      for (std::size_t i = 0; i < made; ++i) places_.push_back({round, i, made - 1, depth});
    }
    REQUIRE(places_.size() == kTokens);
  }

  void check() {
    for (std::size_t at = 1; at < kCuts; ++at) {
      CAPTURE(at, places_[at].index, places_[at].accepted, places_[at].depth);
      check_ends(at);
      check_stops(at);
      check_limits(at);
      check_throwing_emit(at);
      check_cancel_in_emit(at);
      if (places_[at].index == 0) check_cancelled_round(at);
    }
  }

 private:
  Decoder make(Watch& watch, int capacity = kCapacity) const {
    return {text_.target, toy::TokenCache{capacity}, Watched<D>(drafter_(text_), watch), rule_};
  }

  fd::Options options(std::size_t at) const {
    fd::Options options = text_.options;
    options.logprobs = at % 2 == 0 ? 2 : -1;  // with them rows are whole, without only the argmax
    return options;
  }

  void note(const std::string& kind, std::size_t at) const {
    const Place& place = places_[at];
    if (place.depth == kDepth) coverage_[kind].insert({place.index, place.accepted});
  }

  // -- cuts by the loop itself

  /// Token `at` ends the text; so it does where it is also the last that a limit allows.
  void check_ends(std::size_t at) const {
    const auto first = std::find(text_.tokens.begin(), text_.tokens.end(), text_.tokens[at]);
    if (first - text_.tokens.begin() != static_cast<std::ptrdiff_t>(at)) return;
    Cut cut{"end token", options(at), at + 1, {}, FinishReason::kEnd};
    cut.options.end_tokens = {text_.tokens[at]};
    cut.text = text_.shown(cut.options, at + 1);
    check_cut(cut, at);
    cut.kind = "end token and token limit";
    cut.options.max_tokens = static_cast<int>(at) + 1;
    check_cut(cut, at);
    cut.options.max_tokens = static_cast<int>(kTokens);
    cut.kind = "end token and context limit";
    cut.capacity = static_cast<int>(text_.prompt.size() + at) + 1;
    check_cut(cut, at);
    cut.kind = "end token that completes a stop string";
    cut.capacity = kCapacity;
    cut.options.stop = {cut.options.piece(text_.tokens[at])};
    cut.text = text_.shown(cut.options, at + 1, cut.options.stop[0]);
    check_cut(cut, at);
  }

  /// A stop string that begins in token `from`, behind its first byte, and ends in token `at`,
  /// before its last.
  void check_stop(const std::string& kind, std::size_t from, std::size_t at) const {
    const fd::Options free = options(at);
    std::string stop;
    for (std::size_t i = from; i <= at; ++i) stop += free.piece(text_.tokens[i]);
    check_stop_string(kind, at, free, {"never", stop.substr(1, stop.size() - 2)});
  }

  void check_stop_string(const std::string& kind, std::size_t at, fd::Options options,
                         const std::vector<std::string>& stops) const {
    const std::string& stop = stops.back();
    if (text_.completed_by(options, stop) != at) return;  // it occurs earlier in this text
    options.stop = stops;
    const int limit = options.max_tokens;
    Cut cut{kind, options, at + 1, text_.shown(options, at + 1, stop), FinishReason::kStop};
    check_cut(cut, at);
    // A limit at the same token or behind it has no say, whatever it is that limits ...
    for (const std::size_t behind : {0, 1}) {
      cut.kind = kind + " and token limit " + (behind == 0 ? "at it" : "behind it");
      cut.options.max_tokens = static_cast<int>(at + 1 + behind);
      check_cut(cut, at);
      cut.options.max_tokens = limit;
      cut.kind = kind + " and context limit " + (behind == 0 ? "at it" : "behind it");
      cut.capacity = static_cast<int>(text_.prompt.size() + at + 1 + behind);
      check_cut(cut, at);
      cut.capacity = kCapacity;
    }
    // ... and one before it wins: what was held back as the stop's beginning is text after all.
    cut = {kind + " and token limit before it", options, at, text_.shown(options, at),
           FinishReason::kLength};
    cut.options.max_tokens = static_cast<int>(at);
    check_cut(cut, at - 1);
    check_stop_after_throw(kind, at, options);
    check_stop_after_cancel(kind, at, options);
  }

  void check_stops(std::size_t at) const {
    const Place& place = places_[at];
    check_stop("stop in a token", at, at);
    if (place.index >= 1) check_stop("stop across tokens", at - 1, at);
    check_stop("stop across rounds", at - place.index - 1, at);

    // A character of which token `at` has the last byte, and the token before it the others.
    const fd::TokenId head = text_.tokens[at - 1];
    const fd::TokenId tail = text_.tokens[at];
    if (head == tail) return;
    const auto simple = text_.options.piece;
    fd::Options split = options(at);
    split.piece = [=](fd::TokenId token) {
      if (token == head) return std::string("<\xE2\x82");
      return token == tail ? std::string("\xAC>") : simple(token);
    };
    check_stop_string("stop at a split character", at, split, {"never", "\xE2\x82\xAC"});
    check_stop_string("stop behind a split character", at, split, {"\xE2\x82\xAC!", ">"});
    Cut cut{"token limit in a character", split, at, text_.shown(split, at)};
    cut.options.max_tokens = static_cast<int>(at);
    check_cut(cut, at - 1);
  }

  void check_limits(std::size_t at) const {
    Cut cut{"token limit", options(at), at + 1, text_.shown(text_.options, at + 1)};
    cut.options.max_tokens = static_cast<int>(at) + 1;
    check_cut(cut, at);
    cut.kind = "context limit";
    cut.reason = FinishReason::kContext;
    cut.options.max_tokens = at % 3 == 0 ? -1 : static_cast<int>(kTokens);
    cut.capacity = static_cast<int>(text_.prompt.size() + at) + 1;
    check_cut(cut, at);
  }

  /// Plain decoding and drafting leave the same, which is what `cut` says; and both go on as if
  /// they had not ended.
  void check_cut(const Cut& cut, std::size_t at) const {
    CAPTURE(cut.kind);
    const Tokens kept(text_.tokens.begin(),
                      text_.tokens.begin() + static_cast<std::ptrdiff_t>(cut.kept));
    const fd::Result expected = text_.plain(rule_, cut.options, cut.capacity);
    REQUIRE(expected.tokens == kept);
    REQUIRE(expected.text == cut.text);
    REQUIRE(expected.finish_reason == cut.reason);

    Watch watch;
    Decoder decoder = make(watch, cut.capacity);
    Tokens emitted;
    std::string text;
    std::vector<fd::Logprobs> logprobs;
    bool split = false;  // a character was shown in two parts
    const fd::Result found =
        decoder.generate(text_.prompt, cut.options, [&](const fd::Emitted& token) {
          emitted.push_back(token.token);
          text += token.text;
          split |= emitted.size() < cut.kept && fd::complete_utf8_prefix(text) != text.size();
          if (token.logprobs) logprobs.push_back(*token.logprobs);
        });
    CHECK(found.tokens == kept);
    CHECK(found.text == cut.text);
    CHECK(found.finish_reason == cut.reason);
    CHECK(found.logprobs == expected.logprobs);
    CHECK(found.from_draft.size() == kept.size());
    CHECK(found.stats.emitted == static_cast<int>(kept.size()));
    CHECK(emitted == kept);
    CHECK(text == cut.text);
    CHECK(!split);
    CHECK(logprobs == expected.logprobs);
    check_state(decoder, cut.kept);
    note(cut.kind, at);
    if (cut.capacity == kCapacity) {
      check_rest(decoder, cut.kept, cut.options);
    } else {  // a full context can go on in a larger one
      Decoder larger = make(watch);
      larger.restore(decoder.snapshot());
      check_rest(larger, cut.kept, cut.options);
    }
  }

  // -- what is left

  /// `n` tokens are final. The cache holds all but the last of them, the drafter at most as many,
  /// and it proposes what one that never drafted before would propose.
  void check_state(Decoder& decoder, std::size_t n) const {
    const std::span<const fd::TokenId> all = decoder.tokens();
    REQUIRE(all.size() == text_.prompt.size() + n);
    CHECK(std::equal(all.begin() + static_cast<std::ptrdiff_t>(text_.prompt.size()), all.end(),
                     text_.tokens.begin()));
    const auto cached = decoder.cache().tokens();
    CHECK(cached.size() == all.size() - 1);
    CHECK(std::equal(cached.begin(), cached.end(), all.begin()));
    CHECK(decoder.cache().staged() == 0);
    if constexpr (requires { decoder.drafter().cache().tokens(); }) {
      const auto drafted_from = decoder.drafter().cache().tokens();
      CHECK(drafted_from.size() < all.size());
      CHECK(std::equal(drafted_from.begin(), drafted_from.end(), all.begin()));
    }
    if constexpr (!std::same_as<D, OracleDrafter>) {  // whose drafts depend on how many it made
      const D& used = decoder.drafter();
      CHECK(draft_behind(used, all, text_.options) ==
            draft_behind(drafter_(text_), all, text_.options));
    }
  }

  /// Without any cut the rest follows.
  void check_rest(Decoder& decoder, std::size_t kept, fd::Options options) const {
    options.end_tokens = {};
    options.stop = {};
    options.max_tokens = static_cast<int>(kTokens - kept);
    const fd::Result rest = decoder.resume(options);
    const std::string all = text_.shown(options, kTokens);
    CHECK(rest.tokens ==
          Tokens(text_.tokens.begin() + static_cast<std::ptrdiff_t>(kept), text_.tokens.end()));
    CHECK(rest.text == all.substr(text_.shown(options, kept).size()));
    CHECK(rest.finish_reason == FinishReason::kLength);
  }

  // -- cuts from outside

  std::size_t begin_of_round(std::size_t at) const { return at - places_[at].index; }
  std::size_t end_of_round(std::size_t at) const {
    return begin_of_round(at) + places_[at].accepted + 1;
  }

  /// Collects what two calls deliver together.
  struct Reader {
    Tokens tokens;
    std::string text;
    std::function<void()> then = {};
    void operator()(const fd::Emitted& token) {
      tokens.push_back(token.token);
      text += token.text;
      if (then) then();
    }
  };

  void check_throwing_emit(std::size_t at) const {
    Watch watch;
    Decoder decoder = make(watch);
    Reader reader;
    reader.then = [&] {
      if (reader.tokens.size() == at + 1) throw std::runtime_error("full disk");
    };
    fd::Options options = text_.options;
    CHECK_THROWS_AS(decoder.generate(text_.prompt, options, std::ref(reader)), std::runtime_error);
    CHECK(reader.tokens.size() == at + 1);
    const std::size_t made = end_of_round(at);
    check_state(decoder, made);
    note("throwing emit", at);
    options.max_tokens = static_cast<int>(kTokens - made);
    CHECK(decoder.resume(options, std::ref(reader)).finish_reason == FinishReason::kLength);
    CHECK(reader.tokens == text_.tokens);
    CHECK(reader.text == text_.shown(options, kTokens));
  }

  /// The stop is found in the round whose delivery failed at its first token: the rest comes first,
  /// then the stop ends the next call too, without a token behind it.
  void check_stop_after_throw(const std::string& kind, std::size_t at,
                              const fd::Options& options) const {
    Watch watch;
    Decoder decoder = make(watch);
    Reader reader;
    reader.then = [&] {
      if (reader.tokens.size() == begin_of_round(at) + 1) throw std::runtime_error("full disk");
    };
    CHECK_THROWS_AS(decoder.generate(text_.prompt, options, std::ref(reader)), std::runtime_error);
    check_state(decoder, at + 1);
    note(kind + " and throwing emit", at);
    CHECK(decoder.resume(options, std::ref(reader)).finish_reason == FinishReason::kStop);
    CHECK(reader.tokens.size() == at + 1);
    CHECK(reader.text == text_.shown(options, at + 1, options.stop.back()));
    check_rest(decoder, at + 1, options);
  }

  /// Cancelled just before the round that completes the stop: what is held of it stays held.
  void check_stop_after_cancel(const std::string& kind, std::size_t at,
                               const fd::Options& options) const {
    Watch watch;
    Decoder decoder = make(watch);
    Reader reader;
    fd::Options cancelled = options;
    cancelled.cancelled = [&] { return reader.tokens.size() == begin_of_round(at); };
    const fd::Result first = decoder.generate(text_.prompt, cancelled, std::ref(reader));
    CHECK(first.finish_reason == FinishReason::kCancelled);
    note(kind + " and cancel before it", at);
    CHECK(decoder.resume(options, std::ref(reader)).finish_reason == FinishReason::kStop);
    CHECK(reader.tokens.size() == at + 1);
    CHECK(reader.text == text_.shown(options, at + 1, options.stop.back()));
    check_state(decoder, at + 1);
    check_rest(decoder, at + 1, options);
  }

  /// Who cancels while a token is delivered still gets the rest of its round, which is final.
  void check_cancel_in_emit(std::size_t at) const {
    Watch watch;
    Decoder decoder = make(watch);
    Reader reader;
    fd::Options options = text_.options;
    options.cancelled = [&] { return reader.tokens.size() > at; };
    const fd::Result found = decoder.generate(text_.prompt, options, std::ref(reader));
    const std::size_t made = end_of_round(at);
    CHECK(found.finish_reason == FinishReason::kCancelled);
    CHECK(found.tokens.size() == made);
    CHECK(found.text == text_.shown(options, made));
    check_state(decoder, made);
    note("cancel in emit", at);
    options.cancelled = {};
    check_rest(decoder, made, options);
  }

  /// Cancelled at each of the three polls of the round that begins with token `at`: the round has
  /// not happened.
  void check_cancelled_round(std::size_t at) const {
    constexpr int kPollsOfPrompt = 1;  // it is one block
    const int round = static_cast<int>(places_[at].round);
    for (const int point : {0, 1, 2}) {  // before the draft, behind it, behind the verification
      CAPTURE(point);
      Watch watch;
      Decoder decoder = make(watch);
      int polls = 0;
      fd::Options options = text_.options;
      options.cancelled = [&] { return polls++ == kPollsOfPrompt + 3 * round + point; };
      const int passes = text_.target.passes;
      const fd::Result found = decoder.generate(text_.prompt, options);
      // The first round drafts nothing and does not ask.
      CHECK(watch.proposals == round - 1 + (point >= 1 ? 1 : 0));
      CHECK(text_.target.passes - passes == 1 + round + (point == 2 ? 1 : 0));
      CHECK(found.finish_reason == FinishReason::kCancelled);
      CHECK(found.tokens.size() == at);
      CHECK(found.text == text_.shown(options, at));
      check_state(decoder, at);
      note("cancel at point " + std::to_string(point), at);
      options.cancelled = {};
      check_rest(decoder, at, options);
    }
  }

  Text& text_;
  TreeRule rule_;
  std::function<D(Text&)> drafter_;
  Coverage& coverage_;
  std::vector<Place> places_;  // [kTokens]
};

// ---- coverage ----------------------------------------------------------------------------------

/// Every kind of cut was made in every cell where it can be.
void check_coverage(const Coverage& coverage) {
  const auto met = [&](const std::string& kind, const Cells& cells) {
    CAPTURE(kind);
    const auto found = coverage.find(kind);
    REQUIRE(found != coverage.end());
    CHECK(std::includes(found->second.begin(), found->second.end(), cells.begin(), cells.end()));
  };
  for (const char* kind : {"end token", "end token and token limit", "end token and context limit",
                           "end token that completes a stop string", "token limit", "context limit",
                           "token limit in a character", "throwing emit", "cancel in emit"}) {
    met(kind, all_cells());
  }
  for (const std::string kind : {"stop in a token", "stop across tokens", "stop across rounds",
                                 "stop at a split character", "stop behind a split character"}) {
    const Cells cells = all_cells(kind == "stop across tokens" ? 1 : 0);
    met(kind, cells);
    for (const char* other :
         {" and token limit at it", " and token limit behind it", " and context limit at it",
          " and context limit behind it", " and throwing emit", " and cancel before it"}) {
      met(kind + other, cells);
    }
    met(kind + " and token limit before it", kind == "stop across tokens" ? Cells{} : all_cells());
  }
  Cells begins;
  for (std::size_t accepted = 0; accepted <= kDepth; ++accepted) begins.insert({0, accepted});
  for (const char* point : {"0", "1", "2"}) met(std::string("cancel at point ") + point, begins);
}

/// @param n_texts as many as it takes to meet every cell
template <typename D>
void check_cuts(std::uint32_t n_texts, const std::function<D(Text&)>& drafter) {
  for (const auto& [rule, temperature] : {std::pair(kGreedy, 0.0f), std::pair(kMatch, 1.0f)}) {
    CAPTURE(temperature);
    Coverage coverage;
    for (std::uint32_t seed = 1; seed <= n_texts; ++seed) {
      CAPTURE(seed);
      Text text(rule, temperature, seed);
      Grid<D>(text, rule, drafter, coverage).check();
    }
    check_coverage(coverage);
  }
}

std::function<OracleDrafter(Text&)> oracle(int branches) {
  return [branches](Text& text) {
    Tokens all = text.prompt;
    all.insert(all.end(), text.tokens.begin(), text.tokens.end());
    return OracleDrafter::sweeping(all, kVocab, branches);
  };
}

}  // namespace

TEST_CASE("cuts in chains whose errors are at each index in turn") {
  check_cuts<OracleDrafter>(2, oracle(1));
}

TEST_CASE("cuts in trees whose errors are at each index in turn") {
  check_cuts<OracleDrafter>(2, oracle(3));
}

TEST_CASE("cuts in drafts that were looked up in the prompt") {
  check_cuts<fd::PromptLookup>(
      6, [](Text&) { return fd::PromptLookup{{.min_match = 1, .tokens_per_match = kDepth}}; });
}

TEST_CASE("cuts in the drafts of a model") {
  using Draft = fd::ModelDrafter<Fallible, toy::TokenCache>;
  check_cuts<Draft>(4, [](Text& text) {
    return Draft(text.draft, toy::TokenCache{kCapacity}, {.sampling = fd::DraftSampling::kCoupled});
  });
}

TEST_CASE("cuts in the drafted trees of a model") {
  using Draft = fd::ModelTreeDrafter<Fallible, toy::TokenCache>;
  check_cuts<Draft>(4, [](Text& text) {
    return Draft(text.draft, toy::TokenCache{kCapacity},
                 {.branching = {2, 2, 1, 1}, .sampling = fd::DraftSampling::kCoupled});
  });
}
