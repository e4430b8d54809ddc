#include <foredraft/turn.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

struct ShallowTree : TreeFunction {
  int deepest = 100;
  int max_depth() const noexcept { return deepest; }
};

/// A sequence of `n_tokens` final tokens, behind its first round.
struct Fixture {
  explicit Fixture(int n_tokens = 3, int capacity = 100, int max_staged = 32)
      : sequence(target, toy::TokenCache(capacity, max_staged), {}, {}) {
    sequence.begin(Tokens(fd::idx(n_tokens - 1), 1));
    fd::prefill(sequence, call({}));
    round(call({}));
  }
  std::shared_ptr<fd::Call> call(const fd::Options& options) {
    return std::make_shared<fd::Call>(options, target, fd::Greedy{});
  }
  void round(const std::shared_ptr<fd::Call>& call) {
    fd::Turn turn(sequence, call);
    fd::forward_one(target, turn.request());
    turn.finish();
  }
  /// What the drafter of the next round is allowed.
  fd::Limit limit(const fd::Options& options, int made = 0) {
    fd::Limit allowed{-1, -1};
    sequence.drafter().function = [&](const fd::Context&, fd::Limit limit, fd::DraftTree&) {
      allowed = limit;
    };
    const auto next = call(options);
    next->stats.emitted = made;
    const fd::Turn turn(sequence, next);
    return allowed;
  }

  toy::Target target{16, 0};
  fd::Sequence<toy::Target, toy::TokenCache, ShallowTree, fd::Greedy> sequence;
};

}  // namespace

TEST_CASE("the depth of a draft keeps to the tightest limit") {
  Fixture f;
  const auto depth = [&](int n_draft, int max_tokens, int made) {
    return f.limit({.max_tokens = max_tokens, .n_draft = n_draft}, made).depth;
  };
  CHECK(depth(5, 100, 0) == 5);
  CHECK(depth(5, 100, 97) == 2);  // three are left, one of which no draft is needed for
  CHECK(depth(5, 100, 99) == 0);
  CHECK(depth(5, -1, 1000) == 5);
  CHECK(depth(500, 1000, 0) == 31);  // 32 staged rows, the anchor's included
  f.sequence.drafter().deepest = 4;
  CHECK(depth(500, 1000, 0) == 4);
  CHECK(Fixture(97).limit({.max_tokens = 100, .n_draft = 5}).depth == 2);  // of the context
  CHECK(Fixture(100).limit({.max_tokens = 100, .n_draft = 5}).depth == 0);
}

TEST_CASE("a tree may have as many nodes as can be staged, a cold sequence drafts nothing") {
  CHECK(Fixture(3, 100, 9).limit({.n_draft = 3}).nodes == 8);
  Fixture large(3, 500, 400);
  CHECK(large.limit({.n_draft = 3}).nodes == fd::DraftTree::kMaxNodes - 1);
  large.sequence.begin(Tokens{5});
  CHECK(large.limit({}).depth == -1);  // the drafter was not asked
}

TEST_CASE("whoever limits nodes is given no more, nor a depth that no branch could have") {
  Fixture f;
  const auto limit = [&](int n_draft, int n_nodes) {
    return f.limit({.max_tokens = 100, .n_draft = n_draft, .n_nodes = n_nodes});
  };
  CHECK(limit(3, 12).nodes == 12);
  CHECK(limit(3, 12).depth == 3);
  CHECK(limit(3, 12).fixed_nodes);
  CHECK_FALSE(limit(3, fd::Options::kAutomatic).fixed_nodes);
  CHECK(limit(9, 4).depth == 4);
  CHECK(limit(3, 1'000'000).nodes == 31);  // as many as can be staged
  CHECK(limit(1'000'000, 1'000'000).depth == 31);
  CHECK(limit(fd::Options::kAutomatic, 2).depth == 2);
  CHECK(limit(fd::Options::kAutomatic, 2).nodes == 2);
}

TEST_CASE("a draft that breaks its contract never becomes a turn") {
  Fixture f;
  f.sequence.drafter().function = [](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    draft.extend(16);
  };
  CHECK_THROWS_AS(fd::Turn(f.sequence, f.call({})), fd::Error);
  CHECK(f.sequence.cache().staged() == 0);
}

TEST_CASE("a turn that is dropped at any point has left no trace") {
  Fixture f;
  f.sequence.drafter().function = [](const fd::Context&, fd::Limit, fd::DraftTree& draft) {
    draft.extend(7);
  };
  const Tokens before(f.sequence.tokens().begin(), f.sequence.tokens().end());
  for (const int steps : {0, 1, 2}) {
    CAPTURE(steps);
    const auto call = f.call({});
    std::optional<fd::Turn<decltype(f.sequence)>> turn(std::in_place, f.sequence, call);
    if (steps > 0) CHECK(turn->request().count == 2);
    if (steps > 1) fd::forward_one(f.target, turn->request());
    CHECK(f.sequence.cache().staged() == (steps > 0 ? 2 : 0));
    turn.reset();
    CHECK(f.sequence.cache().staged() == 0);
    CHECK(f.sequence.cache().size() == 2);
    CHECK(std::ranges::equal(f.sequence.tokens(), before));
    CHECK(call->stats.emitted == 0);
  }
  f.sequence.begin(Tokens{3, 1, 4, 1});
  {
    fd::PromptTurn block(f.sequence, f.call({.prefill_block = 2}));
    CHECK(block.request().count == 2);
    CHECK(f.sequence.cache().staged() == 2);
  }
  CHECK(f.sequence.cache().staged() == 0);
  CHECK(f.sequence.cache().size() == 0);
  CHECK(f.sequence.reading());
}

TEST_CASE("a turn shares what its call resolved, and needs nothing of the caller") {
  Fixture f;
  std::optional<fd::Options> options(fd::Options{.max_tokens = 1, .end_tokens = {1, 2, 3}});
  fd::Turn turn(f.sequence, f.call(*options));
  options.reset();
  fd::forward_one(f.target, turn.request());
  turn.finish();
  CHECK(f.sequence.tokens().size() == 4);
}

TEST_CASE("a turn that drafts in steps waits for the passes of its model") {
  // The toy target drafts for itself, so nothing it proposes is wrong.
  struct Stepped : fd::NoDraft {
    using DraftCache = toy::TokenCache;
    int max_depth() const noexcept { return 2; }
    void begin(const fd::Context& told, fd::Limit limit, fd::DraftTree&) {
      context = told;
      depth = limit.depth;
      cache.discard();
      next(told.anchor());
    }
    std::optional<fd::Request<DraftCache>> request() {
      if (cache.staged() == 0) return {};
      return fd::Request<DraftCache>{&cache, 0, 1, {}, &scores};
    }
    void advance(fd::DraftTree& draft, double) {
      draft.extend(scores.argmax(0));
      cache.discard();
      next(draft.token(draft.size() - 1));
    }
    void next(fd::TokenId token) {
      const fd::Node node{token, fd::kCommitted};
      if (depth-- > 0) cache.stage({&node, 1});
    }
    fd::Context context;
    int depth = 0;
    toy::TokenCache cache{100};
    fd::Scores scores;
  };
  static_assert(fd::SteppedDrafter<Stepped>);
  toy::Target target{16, 1};  // the next token depends on the last one only
  fd::Sequence<toy::Target, toy::TokenCache, Stepped, fd::Greedy> sequence{
      target, toy::TokenCache(100), {}, {}};
  sequence.begin(Tokens{3});
  const auto call = std::make_shared<fd::Call>(fd::Options{}, target, fd::Greedy{});
  for (const int passes : {0, 2}) {
    fd::Turn turn(sequence, call, fd::Drafting::kInSteps);
    int made = 0;
    for (; const auto request = turn.draft_request(); ++made) {
      CHECK_THROWS_AS(turn.request(), fd::Error);
      CHECK(sequence.cache().staged() == 0);
      fd::forward_one(target, *request);
      turn.advance();
    }
    CHECK(made == passes);  // the first round behind a prompt drafts nothing
    fd::forward_one(target, turn.request());
    turn.finish();
  }
  CHECK(call->stats.accepted == 2);
  CHECK(call->stats.bonus == 1);
}

TEST_CASE("texts that choose how much to draft share the passes of both models") {
  using Cache = toy::TokenCache;
  using Drafter = fd::Controlled<fd::ModelDrafter<toy::Target, Cache>>;
  using Sequence = fd::Sequence<toy::Target, Cache, Drafter, fd::Greedy>;
  using Turn = fd::Turn<Sequence>;
  toy::Target target{16, 1}, draft{16, 1};
  std::deque<Sequence> sequences;
  std::vector<std::shared_ptr<fd::Call>> calls;
  for (fd::TokenId i = 0; i < 3; ++i) {
    sequences.emplace_back(target, Cache(2000), Drafter{{draft, Cache(2000), {}}}, fd::Greedy{});
    sequences.back().begin(Tokens{i});
    calls.push_back(std::make_shared<fd::Call>(fd::Options{.max_tokens = 2000, .ignore_end = true},
                                               target, fd::Greedy{}));
  }
  const auto ignore = [](const fd::Emitted&) {};
  for (int round = 0; round < 20; ++round) {
    std::deque<Turn> turns;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].deliver(ignore);
      turns.emplace_back(sequences[i], calls[i], fd::Drafting::kInSteps);
    }
    // docs/design/sequences.md: begin
    // Forward them all. @return seconds of the pass, an equal share for each
    const auto forward = [](auto& model, auto& requests) {
      const auto start = std::chrono::steady_clock::now();
      model.forward(std::span(requests));
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      return seconds.count() / static_cast<double>(requests.size());
    };
    for (;;) {  // a pass of the draft model for each level
      std::vector<fd::Request<Cache>> requests;
      std::vector<Turn*> drafting;
      for (Turn& turn : turns) {
        const auto request = turn.draft_request();
        if (request) requests.push_back(*request), drafting.push_back(&turn);
      }
      if (requests.empty()) break;
      const double seconds = forward(draft, requests);
      for (Turn* turn : drafting) turn->advance(seconds);
    }
    std::vector<fd::Request<Cache>> requests;
    for (Turn& turn : turns) requests.push_back(turn.request());
    const double seconds = forward(target, requests);
    for (Turn& turn : turns) turn.finish(seconds);
    // docs/design/sequences.md: end
    CHECK(requests.size() == 3);
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    CHECK(calls[i]->stats.seconds.verify > 0);
    fd::Decoder plain{target, Cache(2000), fd::NoDraft{}, fd::Greedy{}};
    const std::span text(sequences[i].tokens());
    plain.generate(text.first(1),
                   {.max_tokens = static_cast<int>(text.size()) - 1, .ignore_end = true});
    CHECK(std::ranges::equal(text, plain.tokens()));
  }
}

TEST_CASE("a pass hands out what acceptance or drafter needs, whichever is more") {
  struct Reader : fd::NoDraft {
    fd::RowNeed need = fd::RowNeed::kNothing;
    fd::RowNeed needs() const noexcept { return need; }
  };
  toy::Target target(16, 0);
  const auto wanted = [&](fd::RowNeed need, const fd::Options& options) {
    fd::Sequence sequence{target, toy::TokenCache{}, Reader{{}, need}, fd::SampleAndMatch{}};
    const auto call = std::make_shared<fd::Call>(options, target, fd::SampleAndMatch{});
    sequence.begin(Tokens{1, 2});
    CHECK(fd::PromptTurn(sequence, call).request().want.rows == fd::RowNeed::kNothing);
    fd::prefill(sequence, call);
    return fd::Turn(sequence, call).request().want.rows;
  };
  const fd::Options greedy;
  const fd::Options with_logprobs{.logprobs = 0};
  CHECK(wanted(fd::RowNeed::kNothing, greedy) == fd::RowNeed::kArgmax);
  CHECK(wanted(fd::RowNeed::kLogits, greedy) == fd::RowNeed::kLogits);
  CHECK(wanted(fd::RowNeed::kArgmax, with_logprobs) == fd::RowNeed::kLogits);
}

TEST_CASE("a drafter is told what the round cost") {
  struct Asking : fd::NoDraft {
    int max_depth() const noexcept { return 1; }
    void propose(const fd::Context&, fd::Limit, fd::DraftTree&) { call->stats.seconds.draft += 7; }
    void commit(const fd::Round& round) noexcept { *cost = round.cost; }
    std::shared_ptr<fd::Call> call;
    std::shared_ptr<fd::Round::Cost> cost = std::make_shared<fd::Round::Cost>();
  };
  toy::Target target{16, 0};
  fd::Sequence<toy::Target, toy::TokenCache, Asking, fd::Greedy> sequence{
      target, toy::TokenCache(100), {}, {}};
  sequence.begin(Tokens{3});
  const auto call = std::make_shared<fd::Call>(fd::Options{}, target, fd::Greedy{});
  sequence.drafter().call = call;
  for (const double draft : {0.0, 7.0}) {  // nothing is drafted behind a prompt
    fd::Turn turn(sequence, call);
    fd::forward_one(target, turn.request());
    call->stats.seconds.verify += 3;  // as whoever made the pass says
    turn.finish();
    CHECK(sequence.drafter().cost->draft == Approx(draft).margin(0.5));
    CHECK(sequence.drafter().cost->verify == Approx(3.0));
  }
}

TEST_CASE("a drafter is told what passes cost that others made") {
  struct Stepped : fd::NoDraft {
    using DraftCache = toy::TokenCache;
    int max_depth() const noexcept { return 2; }
    void begin(const fd::Context&, fd::Limit limit, fd::DraftTree&) { left = limit.depth; }
    std::optional<fd::Request<toy::TokenCache>> request() const {
      if (left == 0) return std::nullopt;
      return fd::Request<toy::TokenCache>{};
    }
    void advance(fd::DraftTree& draft, double seconds) {
      --left;
      draft.extend(5);
      told->push_back(seconds);
    }
    void commit(const fd::Round& round) noexcept { *cost = round.cost; }
    int left = 0;
    std::shared_ptr<std::vector<double>> told = std::make_shared<std::vector<double>>();
    std::shared_ptr<fd::Round::Cost> cost = std::make_shared<fd::Round::Cost>();
  };
  toy::Target target{16, 0};
  fd::Sequence<toy::Target, toy::TokenCache, Stepped, fd::Greedy> sequence{
      target, toy::TokenCache(100), {}, {}};
  sequence.begin(Tokens{3});
  const auto call = std::make_shared<fd::Call>(fd::Options{}, target, fd::Greedy{});
  for (const bool cold : {true, false}) {  // nothing is drafted behind a prompt
    fd::Turn turn(sequence, call, fd::Drafting::kInSteps);
    for (const double seconds : {5.0, 7.0}) {
      if (!cold) turn.advance(seconds);
    }
    CHECK_THROWS_AS(turn.advance(9.0), fd::Error);
    fd::forward_one(target, turn.request());
    turn.finish(3.0);
    CHECK(sequence.drafter().cost->draft == Approx(cold ? 0.0 : 12.0).margin(0.5));
    CHECK(sequence.drafter().cost->verify == Approx(3.0));
  }
  CHECK(*sequence.drafter().told == std::vector{5.0, 7.0});
}
