#include <foredraft/detail/round_parts.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
namespace parts = foredraft::detail;

namespace {

using Tokens = std::vector<fd::TokenId>;

struct ShallowTree : TreeFunction {
  int deepest = 100;
  int max_depth() const noexcept { return deepest; }
};

/// A sequence with final tokens, behind its first round.
struct Fixture {
  explicit Fixture(int capacity = 100, int max_staged = 32)
      : sequence(target, toy::TokenCache(capacity, max_staged), {}, {}) {
    sequence.tokens = {1, 2, 3};
    sequence.cold = false;
    sequence.draft.reset(3);
  }
  parts::Call call(const fd::Options& options) {
    return {
        options, nullptr, fd::RowNeed::kArgmax, false, [this](fd::TokenId t) { return t == end; },
        piece};
  }
  /// Cut a verdict that accepts all of the chain `drafted` and ends with `last`.
  parts::Cut cut(const Tokens& drafted, fd::TokenId last, const fd::Options& options,
                 int made = 0) {
    sequence.draft.reset(3);
    fd::Verdict verdict;
    verdict.start();
    for (const fd::TokenId token : drafted) verdict.accept(sequence.draft.extend(token));
    verdict.last = last;
    return parts::cut(sequence, call(options), made, verdict);
  }

  toy::Target target{16};
  fd::Sequence<toy::Target, toy::TokenCache, ShallowTree, fd::Greedy> sequence;
  fd::TokenId end = -1;
  std::function<std::string(fd::TokenId)> piece;
};

std::string text_of(const parts::Cut& cut) {
  std::string text;
  for (const fd::Emitted& emitted : cut.emitted) text += emitted.text;
  return text;
}

}  // namespace

TEST_CASE("rows are staged for a scope and gone behind it, by any way out") {
  toy::TokenCache cache;
  const auto nodes = parts::chain_of(Tokens{7, 8, 9}, 1, 2);
  CHECK(nodes == std::vector<fd::Node>{{8, fd::kCommitted}, {9, 0}});
  try {
    const parts::StagedRows staged(cache, nodes);
    CHECK(cache.staged() == 2);
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
    CHECK(cache.staged() == 0);
  }
  CHECK(cache.size() == 0);
  CHECK(parts::first_nodes(3) == std::vector<fd::NodeIndex>{0, 1, 2});
}

TEST_CASE("the depth of a draft keeps to the tightest limit") {
  Fixture f;
  const auto depth = [&](int n_draft, int max_tokens, int made) {
    return parts::draft_limit(f.sequence, f.call({.max_tokens = max_tokens, .n_draft = n_draft}),
                              made)
        .depth;
  };
  CHECK(depth(5, 100, 0) == 5);
  CHECK(depth(5, 100, 97) == 2);  // three are left, one of which no draft is needed for
  CHECK(depth(5, 100, 99) == 0);
  CHECK(depth(5, -1, 1000) == 5);
  CHECK(depth(500, 1000, 0) == 31);  // 32 staged rows, the anchor's included
  f.sequence.drafter.deepest = 4;
  CHECK(depth(500, 1000, 0) == 4);
  f.sequence.tokens.assign(97, 1);
  CHECK(depth(5, 100, 0) == 2);  // of the context
  f.sequence.tokens.assign(100, 1);
  CHECK(depth(5, 100, 0) == 0);
}

TEST_CASE("a tree may have as many nodes as can be staged, a cold sequence drafts nothing") {
  Fixture small(100, 9);
  CHECK(parts::draft_limit(small.sequence, small.call({.n_draft = 3}), 0).nodes == 8);
  Fixture large(500, 400);
  CHECK(parts::draft_limit(large.sequence, large.call({.n_draft = 3}), 0).nodes ==
        fd::DraftTree::kMaxNodes - 1);
  large.sequence.cold = true;
  CHECK(parts::draft_limit(large.sequence, large.call({}), 0).depth == 0);
}

TEST_CASE("a draft beyond its limit, its vocabulary or its anchor is refused") {
  Fixture f;
  const auto verdict_on = [&](std::function<void(fd::DraftTree&)> draft) {
    f.sequence.draft.reset(3);
    f.sequence.drafter.function = [&](const fd::Context&, fd::Limit, fd::DraftTree& tree) {
      draft(tree);
    };
    try {
      parts::propose(f.sequence, f.call({}), {2, 3});
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kInvalidDraft);
      return false;
    }
    return true;
  };
  CHECK(verdict_on([](fd::DraftTree&) {}));
  CHECK(verdict_on([](fd::DraftTree& t) { t.extend(0), t.extend(15), t.add(0, 4); }));
  CHECK_FALSE(
      verdict_on([](fd::DraftTree& t) { t.extend(0), t.extend(0), t.extend(0); }));  // too deep
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) {
    for (int i = 0; i < 4; ++i) t.add(0, i);
  }));  // too many
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.extend(16); }));
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.extend(-1); }));
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.reset(4); }));
}

TEST_CASE("a q that is no law is refused wherever it stands, if the rule makes use of it") {
  Fixture f;
  const fd::Options options;
  parts::Call call = f.call(options);
  const auto accepts = [&](const fd::Law& q, fd::NodeIndex at) {
    f.sequence.draft.reset(3);
    f.sequence.drafter.function = [&](const fd::Context&, fd::Limit, fd::DraftTree& tree) {
      for (fd::NodeIndex node = 0; node < 3; ++node) {
        tree.drawn_from(node) = node == at ? q : fd::Law{{5, 6}, {0.5, 0.5}};
        tree.extend(5);
      }
    };
    try {
      parts::propose(f.sequence, call, {3, 3});
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kInvalidDraft);
      return false;
    }
    return true;
  };
  const std::vector<fd::Law> bad{{{5, 6}, {0.5, 0.4}},    {{5, 6}, {0.5, 0.6}},
                                 {{6, 5}, {0.5, 0.5}},    {{5, 5}, {0.5, 0.5}},
                                 {{5, 6}, {1.5, -0.5}},   {{5, 6}, {1.0, std::nan("")}},
                                 {{5, 6, 7}, {0.5, 0.5}}, {}};
  for (fd::NodeIndex node = 0; node < 3; ++node) {
    for (const fd::Law& q : bad) {
      call.uses_law = true;
      CHECK_FALSE(accepts(q, node));
      call.uses_law = false;
      CHECK(accepts(q, node));
    }
    call.uses_law = true;
    CHECK(accepts({{2, 5}, {0.25, 0.75}}, node));
    CHECK(accepts({}, 3));  // nothing was drawn behind the last node
  }
}

TEST_CASE("a whole verdict is kept where nothing ends the text") {
  Fixture f;
  const parts::Cut cut = f.cut({5, 6}, 7, {});
  CHECK(cut.tokens == Tokens{5, 6, 7});
  CHECK(cut.path().size() == 3);
  CHECK_FALSE(cut.reason);
  CHECK(cut.emitted[1].from_draft);
  CHECK_FALSE(cut.emitted[2].from_draft);
}

TEST_CASE("end tokens and limits cut at every index, the token itself is kept") {
  for (int at = 0; at < 4; ++at) {
    Fixture f;
    f.end = 10 + at;
    const parts::Cut ended = f.cut({10, 11, 12}, 13, {});
    CHECK(ended.kept() == at + 1);
    CHECK(ended.path().size() ==
          static_cast<std::size_t>(at) + 1);  // the last token's row is not kept
    CHECK(ended.reason == fd::FinishReason::kEnd);
    // An end token at the limit is an end.
    CHECK(f.cut({10, 11, 12}, 13, {.max_tokens = at + 1}).reason == fd::FinishReason::kEnd);
    f.end = -1;
    const parts::Cut limited = f.cut({10, 11, 12}, 13, {.max_tokens = 20 + at + 1}, 20);
    CHECK(limited.kept() == at + 1);
    CHECK(limited.reason == fd::FinishReason::kLength);
    Fixture full(3 + at + 1);
    const parts::Cut out_of_context = full.cut({10, 11, 12}, 13, {.max_tokens = -1});
    CHECK(out_of_context.kept() == at + 1);
    CHECK(out_of_context.reason == fd::FinishReason::kContext);
  }
}

TEST_CASE("a stop string cuts behind the token that completes it, and its text is not shown") {
  Fixture f;
  f.piece = [](fd::TokenId token) { return std::string(1, static_cast<char>('a' + token)); };
  const parts::Cut cut = f.cut({0, 1, 2, 3}, 4, {.stop = {"cd"}});
  CHECK(cut.tokens == Tokens{0, 1, 2, 3});
  CHECK(cut.reason == fd::FinishReason::kStop);
  CHECK(text_of(cut) == "ab");
  // What is held at a limit is shown with the last token; without one it stays held.
  CHECK(text_of(f.cut({0, 1}, 2, {.max_tokens = 3, .stop = {"cd"}})) == "abc");
  const parts::Cut held = f.cut({0, 1}, 2, {.stop = {"cd"}});
  CHECK(text_of(held) == "ab");
  CHECK(held.text.held() == "c");
  CHECK(f.sequence.text.held().empty());  // a verdict that is not committed has left no trace
}

TEST_CASE("each emitted token is counted once, as what it is") {
  Fixture f;
  const auto counted = [&](const parts::Cut& cut) {
    fd::Stats stats;
    parts::count(stats, f.sequence.draft, cut);
    CHECK(stats.rounds == 1);
    CHECK(stats.emitted == stats.accepted + stats.bonus + stats.corrected + stats.plain);
    return std::vector<std::int64_t>{stats.accepted, stats.bonus, stats.corrected, stats.plain};
  };
  using Counts = std::vector<std::int64_t>;
  CHECK(counted(f.cut({}, 7, {})) == Counts{0, 0, 0, 1});
  CHECK(counted(f.cut({5, 6}, 7, {})) == Counts{2, 1, 0, 0});
  CHECK(counted(f.cut({5, 6}, 7, {.max_tokens = 2})) == Counts{2, 0, 0, 0});  // the bonus was cut
  CHECK(counted(f.cut({5, 6}, 7, {.max_tokens = 1})) == Counts{1, 0, 0, 0});  // and a draft
  parts::Cut rejected = f.cut({5, 6}, 7, {});
  rejected.verdict.path_size = 2;
  rejected.tokens = {5, 9};
  CHECK(counted(rejected) == Counts{1, 0, 1, 0});
  // The end of a branch is full acceptance, even where another branch is longer.
  fd::DraftTree& tree = f.sequence.draft;
  tree.reset(3);
  tree.add(0, 5);
  tree.add(1, 6);
  fd::Verdict verdict;
  verdict.start();
  verdict.accept(tree.add(0, 7));
  verdict.last = 8;
  CHECK(counted(parts::cut(f.sequence, f.call({}), 0, verdict)) == Counts{1, 1, 0, 0});
}

TEST_CASE("delivery goes on behind the token whose emit threw") {
  Fixture f;
  f.sequence.undelivered = {{5, {}, true}, {6, {}, true}, {7, {}, false}};
  Tokens seen;
  const auto emit = [&](const fd::Emitted& emitted) {
    seen.push_back(emitted.token);
    if (emitted.token == 6) throw std::runtime_error("full disk");
  };
  CHECK_THROWS(parts::deliver(f.sequence, emit));
  parts::deliver(f.sequence, emit);
  parts::deliver(f.sequence, emit);
  CHECK(seen == Tokens{5, 6, 7});
}
