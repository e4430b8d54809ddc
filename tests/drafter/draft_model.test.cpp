#include <foredraft/drafter/draft_model.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Model = fd::DraftModel<toy::Target, toy::TokenCache>;

/// Text {7, 8, 9}, anchor 9, and a tree behind it with two equal children:
/// 9 - 1 - 2
///   - 1 - 3 - 4
///   - 5
struct Tree {
  Tree() {
    draft.reset(9);
    draft.add(0, 1);
    draft.add(0, 1);
    draft.add(0, 5);
    draft.add(1, 2);
    draft.add(2, 3);
    draft.add(5, 4);
  }
  fd::DraftTree draft;
};
const Tokens kText{7, 8, 9};

/// Forward the draft level by level, as drafters do, but for its last level.
void forward_levels(Model& model, const fd::DraftTree& whole) {
  fd::DraftTree draft;
  draft.reset(whole.token(0));
  for (int depth = 0; depth < whole.max_depth(); ++depth) {
    if (depth > 0) {
      for (fd::NodeIndex node = 0; node < whole.size(); ++node) {
        if (whole.depth(node) == depth) draft.add(whole.parent(node), whole.token(node));
      }
    }
    model.forward(draft, {fd::RowNeed::kLogits, {}});
  }
}

/// What the cache holds after a round that made `final` final, whatever draft was verified in it.
Tokens kept(const Tokens& final, const fd::DraftTree& verified, fd::Position anchor_position = 2) {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{});
  model.begin(kText);
  forward_levels(model, Tree().draft);
  const fd::Scores scores;
  const std::vector<fd::NodeIndex> path(final.size(), 0);
  model.commit({verified, path, final, scores, anchor_position});
  CHECK(model.cache().staged() == 0);
  return {model.cache().tokens().begin(), model.cache().tokens().end()};
}

}  // namespace

TEST_CASE("the deepest match looks through equal siblings") {
  const Tree tree;
  const auto match = [&](const Tokens& tokens) {
    return fd::deepest_match(tree.draft.nodes(), tokens);
  };
  CHECK(match({}) == 0);
  CHECK(match({6, 1}) == 0);
  CHECK(match({1}) == 1);
  CHECK(match({1, 2}) == 4);
  CHECK(match({1, 3}) == 5);  // below the second of the two
  CHECK(match({1, 3, 4, 4}) == 6);
  CHECK(match({5, 2}) == 3);
  CHECK(match({1, 4}) == 1);  // a 4 elsewhere in the tree is no match
}

TEST_CASE("rows of drafted tokens that turned out final are kept, all but that of the last token") {
  const Tree tree;
  CHECK(kept({6}, tree.draft) == Tokens{7, 8, 9});
  CHECK(kept({1}, tree.draft) == Tokens{7, 8, 9});
  CHECK(kept({1, 2}, tree.draft) == Tokens{7, 8, 9, 1});
  CHECK(kept({1, 3}, tree.draft) == Tokens{7, 8, 9, 1});
  CHECK(kept({1, 3, 6}, tree.draft) == Tokens{7, 8, 9, 1, 3});
  CHECK(kept({5, 2}, tree.draft) == Tokens{7, 8, 9, 5});
  CHECK(kept({1, 6, 2}, tree.draft) == Tokens{7, 8, 9, 1});
  // The last level was never forwarded, so its row cannot be kept: the next round catches up.
  CHECK(kept({1, 3, 4, 2}, tree.draft) == Tokens{7, 8, 9, 1, 3});
}

TEST_CASE("rows are kept whoever drafted the tokens, and none from another place") {
  fd::DraftTree other;
  other.reset(9);
  other.extend(1);
  other.extend(3);
  CHECK(kept({1, 3, 6}, other) == Tokens{7, 8, 9, 1, 3});
  other.reset(8);  // another anchor
  CHECK(kept({1, 3, 6}, other) == Tokens{7, 8});
  CHECK(kept({1, 3, 6}, Tree().draft, 3) == Tokens{7, 8});  // the same one, a token later
}

TEST_CASE("a few final tokens that the cache lacks share the anchor's pass") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{});
  Tokens text{1, 2, 3};
  fd::DraftTree draft;
  for (const int grow : {0, 1, 4, 5, 40}) {
    for (int i = 0; i < grow; ++i) text.push_back(i % 16);
    draft.reset(text.back());
    target.passes = 0;
    model.begin(text);
    model.forward(draft, {fd::RowNeed::kLogits, {}});
    CAPTURE(grow);
    CHECK(target.passes == (grow > 4 ? 2 : 1));
    // Its row is that of the anchor, as if nothing had been missing.
    const auto row = model.scores().logits(model.row(0));
    CHECK(std::vector<float>(row.begin(), row.end()) == target.logits_after(text));
    CHECK(model.cache().size() == static_cast<int>(text.size()) - 1);
    CHECK(model.cache().staged() == 1);
  }
}

TEST_CASE("of a pass that failed no row is kept, even if its tokens turn out final") {
  toy::Target target(16, 0);
  const auto fail_at = [&](int pass) {
    target.passes = 0;
    target.before_forward = [&target, pass] {
      if (target.passes == pass) throw std::runtime_error("device lost");
    };
  };
  Tokens longer(200, 3);
  for (const Tokens& text : {kText, longer}) {
    for (int pass = 1; pass <= 3; ++pass) {
      CAPTURE(text.size(), pass);
      Model model(target, toy::TokenCache{});
      fd::DraftTree draft;
      draft.reset(text.back());
      fail_at(pass);
      CHECK_THROWS_AS(
          [&] {
            model.begin(text);
            for (int level = 0; level < 3; ++level) {
              model.forward(draft, {fd::RowNeed::kLogits, {}});
              draft.extend(3);
            }
          }(),
          std::runtime_error);
      target.before_forward = {};
      const int before = model.cache().size();
      model.keep(before, text[fd::idx(before)], Tokens(80, 3));
      CHECK(model.cache().size() == before);
      CHECK(model.cache().staged() == 0);
      CHECK_FALSE(model.request());
    }
  }
}

TEST_CASE("passes can be made by others, one at a time") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{100, 10});
  const Tokens text(25, 3);
  fd::DraftTree draft;
  draft.reset(text.back());
  model.begin(text);
  for (const int rows : {10, 10}) {  // blocks of the 24 tokens that the cache lacks
    const auto request = model.request();
    REQUIRE(request);
    CHECK(request->count == rows);
    fd::forward_one(target, *request);
    CHECK_FALSE(model.advance());
  }
  CHECK_FALSE(model.request());
  model.expand(draft, {fd::RowNeed::kLogits, {}});
  CHECK(model.request()->count == 5);  // four waited for the anchor
  fd::forward_one(target, *model.request());
  CHECK(model.advance());
  CHECK_FALSE(model.request());
  const auto row = model.scores().logits(model.row(0));
  CHECK(std::vector<float>(row.begin(), row.end()) == target.logits_after(text));
}

TEST_CASE("a pass that fails leaves staged rows behind, and the next round does not see them") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{});
  fd::DraftTree draft;
  draft.reset(9);
  model.begin(kText);
  target.before_forward = [] { throw std::runtime_error("device lost"); };
  CHECK_THROWS_AS(model.forward(draft, {fd::RowNeed::kLogits, {}}), std::runtime_error);
  target.before_forward = {};
  model.begin(kText);
  model.forward(draft, {fd::RowNeed::kLogits, {}});
  const auto row = model.scores().logits(model.row(0));
  CHECK(std::vector<float>(row.begin(), row.end()) == target.logits_after(kText));
}

TEST_CASE("tokens of the target's padding are read as one that the draft model has") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{});
  const Tokens text{7, 20, 16};
  fd::DraftTree draft;
  draft.reset(text.back());
  model.begin(text);
  model.forward(draft, {fd::RowNeed::kLogits, {}});
  const auto row = model.scores().logits(model.row(0));
  CHECK(std::vector<float>(row.begin(), row.end()) == target.logits_after(Tokens{7, 15, 15}));
}

TEST_CASE("how deep a draft the cache has room for") {
  toy::Target target(16, 0);
  for (int capacity = 1; capacity < 6; ++capacity) {
    Model model(target, toy::TokenCache{capacity});
    CHECK(model.begin(kText) == std::max(0, capacity - 2));
    model.run();
    CHECK(model.cache().size() <= capacity);
  }
  Model narrow(target, toy::TokenCache{16, 1});  // one staged row at a time: nothing can wait
  CHECK(narrow.begin(kText) == 14);
  narrow.run();
  CHECK(narrow.cache().size() == 2);
}

TEST_CASE("truncate, snapshot and restore drop what is staged") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{});
  const auto stage = [&](const Tokens& text) {
    fd::DraftTree draft;
    draft.reset(text.back());
    model.begin(text);
    model.forward(draft, {fd::RowNeed::kNothing, {}});
  };
  stage(kText);
  const auto snapshot = model.snapshot();
  model.truncate(1);
  CHECK(model.cache().size() == 1);
  CHECK(model.cache().staged() == 0);
  stage({7, 1, 2, 3});
  model.restore(snapshot);
  CHECK(model.cache().staged() == 0);
  CHECK(std::vector<fd::TokenId>(model.cache().tokens().begin(), model.cache().tokens().end()) ==
        Tokens{7, 8});
}

namespace {

/// A text of n tokens, and what a model has read of it that passed over all but the last `rows` before the
/// anchor.
Tokens text_of(int n) {
  Tokens text;
  for (int i = 0; i < n; ++i) text.push_back((7 * i + i / 5) % 16);
  return text;
}
Tokens tail_of(const Tokens& text, int passed_over) {
  Tokens tail{text[0]};
  tail.insert(tail.end(), text.begin() + 1 + passed_over, text.end());
  return tail;
}
/// The row of the anchor, read in whatever way.
std::vector<float> anchor_row(Model& model, const Tokens& text, int read,
                              int at_once = Model::kWholeText) {
  fd::DraftTree draft;
  draft.reset(text.back());
  if (model.begin(text, read, at_once) == 0) {
    model.run();
    return {};
  }
  model.forward(draft, {fd::RowNeed::kLogits, {}});
  const auto row = model.scores().logits(model.row(0));
  return {row.begin(), row.end()};
}
void end_round(Model& model, const Tokens& text, const Tokens& final) {
  model.keep(static_cast<int>(text.size()) - 1, text.back(), final);
}

}  // namespace

TEST_CASE("of a long backlog the first token and the last ones are read, and then what follows") {
  toy::Target target(16, 0);
  for (const int rows : {1, 2, 10, 30, 98, 99, 100}) {
    CAPTURE(rows);
    Model model(target, toy::TokenCache{300, 20});
    Tokens text = text_of(100);
    CHECK(model.backlog(100) == 99);
    const int passed_over = std::max(99 - rows, 0);
    CHECK(anchor_row(model, text, rows) == target.logits_after(tail_of(text, passed_over)));
    CHECK(model.passed_over() == passed_over);
    CHECK(model.reached() == 99);
    CHECK(model.backlog(103) == 3);
    CHECK(model.summary().empty() == (passed_over == 0));
    end_round(model, text, {3, 4});  // the anchor's row is kept, though rows were passed over
    CHECK(model.reached() == 100);
    for (const int grow : {1, 3, 8}) {
      for (int i = 0; i < grow; ++i) text.push_back(i);
      CHECK(anchor_row(model, text, 8) == target.logits_after(tail_of(text, passed_over)));
    }
    CHECK(anchor_row(model, text_of(200), 40) == target.logits_after(tail_of(text_of(200), 159)));
  }
}

TEST_CASE("what is read in pieces, while the text goes on, is what is read at once") {
  toy::Target target(16, 0);
  for (const int at_once : {0, 1, 5, 6, 19, 20, 50, 99, 1000}) {
    for (const int rows : {99, 60}) {
      CAPTURE(at_once, rows);
      Model model(target, toy::TokenCache{300, 20});
      Tokens text = text_of(100);
      int read = 0;
      int pieces = 1;
      // The model begins anew once; then all that is lacking is to be read.
      for (auto row = anchor_row(model, text, rows, at_once); pieces < 100; ++pieces) {
        const int piece = model.cache().size() - read;
        read = model.cache().size();
        if (!row.empty()) {
          CHECK(row == target.logits_after(tail_of(text, 99 - rows)));
          break;
        }
        CHECK(piece == std::max(at_once, 5));  // fewer would wait for the anchor's pass
        CHECK(model.cache().staged() == 0);
        end_round(model, text, {pieces % 16, 3});
        CHECK(model.cache().size() == read);
        text.insert(text.end(), {pieces % 16, 3});
        row = anchor_row(model, text, 300, at_once);
      }
      CHECK((pieces > 1) == (at_once + 4 < rows));
      CHECK(model.reached() == static_cast<int>(text.size()) - 1);
      CHECK(model.passed_over() == 99 - rows);
      if (rows < 99) {
        CHECK(model.summary() == "  its model read " + std::to_string(read) +
                                     " tokens and passed over " + std::to_string(99 - rows) + "\n");
      }
    }
  }
}

TEST_CASE("a tail bounds what is read whoever asks for more") {
  toy::Target target(16, 0);
  Model model(target, toy::TokenCache{300}, 40);
  CHECK(model.backlog(41) == 40);
  CHECK(model.backlog(200) == 40);
  CHECK(anchor_row(model, text_of(200), 1000) == target.logits_after(tail_of(text_of(200), 159)));
  CHECK_THROWS_AS(Model(target, toy::TokenCache{}, 0), fd::Error);
}

TEST_CASE("behind the end of its cache a model begins anew where it may pass over tokens") {
  toy::Target target(16, 0);
  Model whole(target, toy::TokenCache{50});
  Model tail(target, toy::TokenCache{50}, 40);
  for (int n = 2; n < 200; ++n) {
    CAPTURE(n);
    const Tokens text = text_of(n);
    CHECK(anchor_row(whole, text, 1000).empty() == (n > 50));
    const int before = tail.reached();
    REQUIRE(tail.backlog(n) <= 40);
    const auto row = anchor_row(tail, text, 1000);
    CHECK(tail.cache().size() <= 50);
    if (row.empty()) {
      CHECK(n - 1 - tail.passed_over() == 50);  // no room for a draft; a few tokens wait
      continue;
    }
    CHECK(row == target.logits_after(tail_of(text, tail.passed_over())));
    CHECK(tail.reached() == n - 1);
    CHECK((tail.reached() == before + 1 || tail.cache().size() == 25));
  }
}

TEST_CASE("a text that is cut goes on where enough of the tail is left, else anew") {
  toy::Target target(16, 0);
  const Tokens text = text_of(100);
  for (int n = 0; n <= 100; ++n) {
    CAPTURE(n);
    Model model(target, toy::TokenCache{});
    anchor_row(model, text, 30);  // 69 are passed over
    const auto snapshot = model.snapshot();
    model.truncate(n);
    CHECK(model.reached() == (n - 69 >= 16 ? std::min(n, 99) : 0));
    Tokens other(text.begin(), text.begin() + n);
    for (int i = 0; i < 5; ++i) other.push_back(15 - i);
    const int read = model.backlog(static_cast<int>(other.size()));
    CHECK(anchor_row(model, other, 1000) ==
          target.logits_after(tail_of(other, model.passed_over())));
    CHECK(read == (n - 69 >= 16 ? static_cast<int>(other.size()) - 1 - std::min(n, 99) : n + 4));
    model.restore(snapshot);
    CHECK(model.reached() == 99);
    CHECK(anchor_row(model, text, 8) == target.logits_after(tail_of(text, 69)));
    // The snapshot of a longer text, behind which another one goes on.
    model.restore(snapshot);
    CHECK(anchor_row(model, text_of(60), 1000) == target.logits_after(text_of(60)));
  }
  Model model(target, toy::TokenCache{});
  auto bad = model.snapshot();
  for (const int passed_over : {-1, std::numeric_limits<int>::max()}) {
    bad.passed_over = passed_over;
    CHECK_THROWS_AS(model.restore(bad), fd::Error);
  }
}

TEST_CASE("where reading a tail fails it is read again") {
  toy::Target target(16, 0);
  const Tokens text = text_of(100);
  for (int pass = 1; pass <= 3; ++pass) {
    for (const int before : {0, 20}) {
      CAPTURE(pass, before);
      Model model(target, toy::TokenCache{300, 20});
      if (before > 0) anchor_row(model, text_of(before), 1000);
      target.passes = 0;
      target.before_forward = [&] {
        if (target.passes == pass) throw std::runtime_error("device lost");
      };
      CHECK_THROWS_AS(anchor_row(model, text, 60), std::runtime_error);
      target.before_forward = {};
      CHECK(anchor_row(model, text, 60) == target.logits_after(tail_of(text, 39)));
    }
  }
}
