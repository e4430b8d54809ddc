#include <foredraft/generate.hpp>

#include <foredraft/foredraft.hpp>
#include <memory>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// Everything that happens in a call, in order.
using Log = std::vector<std::string>;

/// A toy cache that logs, so that the order of a round's steps can be read off.
struct LoggingCache : toy::TokenCache {
  LoggingCache(Log& to, int max_staged) : toy::TokenCache(64, max_staged), log(&to) {}
  void stage(std::span<const fd::Node> nodes) {
    log->push_back("stage " + std::to_string(nodes.size()));
    toy::TokenCache::stage(nodes);
  }
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    log->push_back("commit " + std::to_string(path.size()));
    toy::TokenCache::commit(path);
  }
  Log* log;
};

struct LoggingTarget {
  [[maybe_unused]] static constexpr bool row_exact = true;
  int vocab_size() const { return toy.vocab_size(); }
  void forward(std::span<fd::Request<LoggingCache>> requests) {
    log->push_back("forward " + std::to_string(requests[0].count));
    fd::Request<toy::TokenCache> request{requests[0].cache, requests[0].first, requests[0].count,
                                         requests[0].want, requests[0].scores};
    toy.forward({&request, 1});
  }
  toy::Target toy;
  Log* log;
};

/// Proposes what it is given and checks what it is told.
struct LoggingDrafter : fd::NoDraft {
  int max_depth() const noexcept { return 3; }
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) const {
    log->push_back("propose " + std::to_string(limit.depth));
    CHECK(context.tokens.size() == fd::idx(*known));
    for (int i = 0; i < limit.depth; ++i) draft.extend((*next)(draft.size(), context));
  }
  void absorb(const fd::PromptBlock& block) const {
    log->push_back("absorb " + std::to_string(block.begin) + "+" +
                   std::to_string(block.tokens.size()));
    CHECK(block.scores->rows() == static_cast<int>(block.tokens.size()));
    *known = block.begin + static_cast<int>(block.tokens.size()) + 1;
  }
  void commit(const fd::Round& round) const noexcept {
    log->push_back("learn " + std::to_string(round.tokens.size()));
    CHECK(round.anchor_position == *known - 1);
    CHECK(round.path.size() == round.tokens.size());
    CHECK(round.path[0] == 0);
    CHECK(round.scores.rows() == round.draft.size());  // rejected rows too
    for (std::size_t i = 1; i < round.path.size(); ++i) {
      CHECK(round.draft.token(round.path[i]) == round.tokens[i - 1]);
    }
    *known += static_cast<int>(round.tokens.size());
  }
  Log* log = nullptr;
  int* known = nullptr;  // final tokens that the drafter knows of
  const std::function<fd::TokenId(int, const fd::Context&)>* next = nullptr;
};

struct Fixture {
  explicit Fixture(std::function<fd::TokenId(int, const fd::Context&)> drafts, int max_staged = 16)
      : next(std::move(drafts)),
        sequence(target, LoggingCache(log, max_staged), drafter(), fd::Greedy{}) {}
  LoggingDrafter drafter() {
    LoggingDrafter drafter;
    drafter.log = &log;
    drafter.known = &known;
    drafter.next = &next;
    return drafter;
  }
  fd::FinishReason run(const fd::Options& options) {
    const auto call = std::make_shared<fd::Call>(options, target, fd::Greedy{});
    const auto emit = [this](const fd::Emitted& emitted) {
      log.push_back("emit");
      tokens.push_back(emitted.token);
    };
    const auto reason = fd::prefill(sequence, call) ? fd::generate(sequence, call, emit)
                                                    : fd::FinishReason::kCancelled;
    stats = call->stats;
    return reason;
  }
  Tokens text() const { return {sequence.tokens().begin(), sequence.tokens().end()}; }
  fd::TokenId truth_after(const Tokens& text) const {
    return fd::Scores::argmax_of(target.toy.logits_after(text));
  }

  Log log;
  int known = 1;
  std::function<fd::TokenId(int, const fd::Context&)> next;
  LoggingTarget target{toy::Target(16, 0), &log};
  fd::Sequence<LoggingTarget, LoggingCache, LoggingDrafter, fd::Greedy> sequence;
  fd::Stats stats;
  Tokens tokens;
};

}  // namespace

TEST_CASE("the steps come in one order, and the cache never holds the anchor") {
  Fixture f([](int, const fd::Context&) { return 0; });
  // Draft index 1 is right where the truth is 0, so make it wrong for certain: all but the truth.
  f.next = [&f](int, const fd::Context& context) {
    return (f.truth_after(Tokens(context.tokens.begin(), context.tokens.end())) + 1) % 16;
  };
  f.sequence.begin(Tokens{3, 1, 4, 1, 5});
  CHECK(f.run({.max_tokens = 3, .prefill_block = 3}) == fd::FinishReason::kLength);
  CHECK(f.log == Log{"stage 3",   "forward 3", "absorb 0+3", "commit 3",  // the prompt
                     "stage 1",   "forward 1", "absorb 3+1", "commit 1",  // but its last token
                     "stage 1",   "forward 1", "commit 1",   "learn 1",  "emit",  // no draft yet
                     "propose 1", "stage 2",   "forward 2",  "commit 1", "learn 1", "emit",
                     "propose 0", "stage 1",   "forward 1",  "commit 1", "learn 1", "emit"});
  CHECK(f.sequence.cache().size() + 1 == static_cast<int>(f.sequence.tokens().size()));
  CHECK(f.sequence.cache().staged() == 0);
}

TEST_CASE("a right draft is one round, and depth keeps to every limit") {
  Fixture f({});
  f.next = [&f](int node, const fd::Context& context) {
    Tokens text(context.tokens.begin(), context.tokens.end());
    for (int i = 1; i < node; ++i) text.push_back(f.truth_after(text));
    return f.truth_after(text);
  };
  f.sequence.begin(Tokens{3});
  CHECK(f.run({.max_tokens = 8, .n_draft = 9}) == fd::FinishReason::kLength);
  // The drafter's own greatest depth is 3; the last draft is one shorter than what is left.
  CHECK(f.log == Log{"stage 1", "forward 1", "commit 1",  "learn 1", "emit",      "propose 3",
                     "stage 4", "forward 4", "commit 4",  "learn 4", "emit",      "emit",
                     "emit",    "emit",      "propose 2", "stage 3", "forward 3", "commit 3",
                     "learn 3", "emit",      "emit",      "emit"});
  CHECK(f.stats.accepted == 5);
  CHECK(f.stats.bonus == 2);
  const Tokens text = f.text();
  for (std::size_t i = 1; i < text.size(); ++i) {
    CHECK(text[i] ==
          f.truth_after(Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i))));
  }
}

TEST_CASE("a cache that stages few rows bounds prompt blocks and drafts") {
  Fixture f([](int, const fd::Context&) { return 0; }, 2);
  f.sequence.begin(Tokens{3, 1, 4, 1});
  f.run({.max_tokens = 4});
  CHECK(std::count(f.log.begin(), f.log.end(), "stage 2") >=
        2);  // two blocks hold the prompt's three rows
  CHECK(std::count(f.log.begin(), f.log.end(), "propose 1") >= 1);
  CHECK(std::count(f.log.begin(), f.log.end(), "propose 2") == 0);
}

TEST_CASE("a failing proposal, prompt block or verification changes nothing that is seen later") {
  for (const bool in_proposal : {true, false}) {
    Fixture f([](int, const fd::Context&) { return 1; });
    f.sequence.begin(Tokens{3, 1, 4});
    f.run({.max_tokens = 2});
    const Tokens before = f.text();
    const int committed = f.sequence.cache().size();
    if (in_proposal) {
      f.next = [](int, const fd::Context&) -> fd::TokenId { throw std::runtime_error("no draft"); };
    } else {
      f.target.toy.before_forward = [] { throw std::runtime_error("no rows"); };
    }
    CHECK_THROWS_AS(f.run({.max_tokens = 5}), std::runtime_error);
    CHECK(f.text() == before);
    CHECK(f.sequence.cache().size() == committed);
    CHECK(f.sequence.cache().staged() == 0);
    f.next = [](int, const fd::Context&) { return 1; };
    f.target.toy.before_forward = nullptr;
    CHECK(f.run({.max_tokens = 5}) == fd::FinishReason::kLength);
    Fixture whole([](int, const fd::Context&) { return 1; });
    whole.sequence.begin(Tokens{3, 1, 4});
    whole.run({.max_tokens = 7});
    CHECK(f.text() == whole.text());
  }
}

TEST_CASE("a cancelled prompt is read on where it was left") {
  Fixture f([](int, const fd::Context&) { return 1; });
  f.sequence.begin(Tokens{3, 1, 4, 1, 5, 9});
  int polls = 0;
  CHECK(f.run({.max_tokens = 5, .cancelled = [&] { return ++polls == 3; }, .prefill_block = 2}) ==
        fd::FinishReason::kCancelled);
  CHECK(f.sequence.cache().size() == 4);
  CHECK(f.run({.max_tokens = 1, .prefill_block = 2}) == fd::FinishReason::kLength);
  CHECK(std::count(f.log.begin(), f.log.end(), "absorb 0+2") == 1);
  CHECK(std::count(f.log.begin(), f.log.end(), "absorb 4+1") == 1);
  CHECK(f.tokens[0] == f.truth_after({3, 1, 4, 1, 5, 9}));
}
