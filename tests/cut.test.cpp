#include <foredraft/cut.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// A draft behind token 3, and what its verdict makes final.
struct Fixture {
  /// Cut a verdict that accepts all of the chain `drafted` and ends with `last`.
  fd::Cut cut(const Tokens& drafted, fd::TokenId last, fd::Options options, int made = 0) {
    fd::Verdict verdict;
    verdict.start();
    draft.reset(3);
    for (const fd::TokenId token : drafted) verdict.accept(draft.extend(token));
    verdict.last = last;
    return cut(verdict, std::move(options), made);
  }
  fd::Cut cut(const fd::Verdict& verdict, fd::Options options, int made = 0) {
    options.end_tokens = {end};
    options.piece = piece;
    fd::Call call(options, target, fd::Greedy{});
    call.stats.emitted = made;
    return fd::cut(verdict, draft, call, text, context_left);
  }

  toy::Target target{16};
  fd::DraftTree draft;
  fd::TextStream text;
  int context_left = 97;
  fd::TokenId end = -1;
  std::function<std::string(fd::TokenId)> piece;
};

std::string text_of(const fd::Cut& cut) {
  std::string text;
  for (const fd::Emitted& emitted : cut.emitted) text += emitted.text;
  return text;
}

}  // namespace

TEST_CASE("a whole verdict is kept where nothing ends the text") {
  Fixture f;
  const fd::Cut cut = f.cut({5, 6}, 7, {});
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
    const fd::Cut ended = f.cut({10, 11, 12}, 13, {});
    CHECK(ended.kept() == at + 1);
    CHECK(ended.path().size() == fd::idx(at) + 1);  // the last token's row is not kept
    CHECK(ended.reason == fd::FinishReason::kEnd);
    // An end token at the limit is an end.
    CHECK(f.cut({10, 11, 12}, 13, {.max_tokens = at + 1}).reason == fd::FinishReason::kEnd);
    f.end = -1;
    const fd::Cut limited = f.cut({10, 11, 12}, 13, {.max_tokens = 20 + at + 1}, 20);
    CHECK(limited.kept() == at + 1);
    CHECK(limited.reason == fd::FinishReason::kLength);
    f.context_left = at + 1;
    const fd::Cut out_of_context = f.cut({10, 11, 12}, 13, {.max_tokens = -1});
    CHECK(out_of_context.kept() == at + 1);
    CHECK(out_of_context.reason == fd::FinishReason::kContext);
  }
}

TEST_CASE("a stop string cuts behind the token that completes it, and its text is not shown") {
  Fixture f;
  f.piece = [](fd::TokenId token) { return std::string(1, static_cast<char>('a' + token)); };
  const fd::Cut cut = f.cut({0, 1, 2, 3}, 4, {.stop = {"cd"}});
  CHECK(cut.tokens == Tokens{0, 1, 2, 3});
  CHECK(cut.reason == fd::FinishReason::kStop);
  CHECK(text_of(cut) == "ab");
  // What is held at a limit is shown with the last token; without one it stays held.
  CHECK(text_of(f.cut({0, 1}, 2, {.max_tokens = 3, .stop = {"cd"}})) == "abc");
  const fd::Cut held = f.cut({0, 1}, 2, {.stop = {"cd"}});
  CHECK(text_of(held) == "ab");
  CHECK(held.text.held() == "c");
  CHECK(f.text.held().empty());  // a verdict that is not committed has left no trace
}

TEST_CASE("each emitted token is counted once, as what it is") {
  Fixture f;
  const auto counted = [&](const fd::Cut& cut) {
    fd::Stats stats;
    fd::count(stats, f.draft, cut);
    CHECK(stats.rounds == 1);
    CHECK(stats.emitted == stats.accepted + stats.bonus + stats.corrected + stats.plain);
    return std::vector<std::int64_t>{stats.accepted, stats.bonus, stats.corrected, stats.plain};
  };
  using Counts = std::vector<std::int64_t>;
  CHECK(counted(f.cut({}, 7, {})) == Counts{0, 0, 0, 1});
  CHECK(counted(f.cut({5, 6}, 7, {})) == Counts{2, 1, 0, 0});
  CHECK(counted(f.cut({5, 6}, 7, {.max_tokens = 2})) == Counts{2, 0, 0, 0});  // the bonus was cut
  CHECK(counted(f.cut({5, 6}, 7, {.max_tokens = 1})) == Counts{1, 0, 0, 0});  // and a draft
  fd::Cut rejected = f.cut({5, 6}, 7, {});
  rejected.verdict.path_size = 2;
  rejected.tokens = {5, 9};
  CHECK(counted(rejected) == Counts{1, 0, 1, 0});
  // The end of a branch is full acceptance, even where another branch is longer.
  f.draft.reset(3);
  f.draft.add(0, 5);
  f.draft.add(1, 6);
  fd::Verdict verdict;
  verdict.start();
  verdict.accept(f.draft.add(0, 7));
  verdict.last = 8;
  CHECK(counted(f.cut(verdict, {})) == Counts{1, 1, 0, 0});
}
