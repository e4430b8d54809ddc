#include <foredraft/drafter/token_recycling.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::RecyclingSettings;
using Matrix = fd::RecyclingMatrix;
using Chain = fd::TokenRecycling<>;
using Tree = fd::TokenRecycling<fd::Shape::kTree>;

constexpr int kVocab = 300;

/// A row whose best tokens are these, best first.
std::vector<float> row(const Tokens& best) {
  std::vector<float> logits(kVocab, -5.0f);
  float logit = 9;
  for (const fd::TokenId token : best) logits[fd::idx(token)] = logit--;
  return logits;
}

/// What a target hands over of its rows beside or in place of logits.
enum class HandsOver {
  kLogits,
  kMaxima,
  kTop
};

fd::Scores scores_of(const std::vector<Tokens>& best, fd::RowNeed need = fd::RowNeed::kLogits,
                     HandsOver what = HandsOver::kLogits) {
  fd::Scores scores;
  if (what == HandsOver::kTop) {
    scores.reset({fd::RowNeed::kTop, {}}, static_cast<int>(best.size()), kVocab, 0, true);
    for (std::size_t i = 0; i < best.size(); ++i) {
      scores.argmax()[i] = best[i][0];
      const auto top = scores.top(static_cast<int>(i));
      std::copy_n(best[i].begin(), std::min(best[i].size(), top.size()), top.begin());
    }
    return scores;
  }
  scores.reset({need, {}}, static_cast<int>(best.size()), kVocab);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const auto logits = row(best[i]);
    const int at = static_cast<int>(i);
    scores.set_row(at, logits);
    if (what != HandsOver::kMaxima) continue;
    const auto maxima = scores.hand_over_maxima(at);
    for (std::size_t run = 0; run < maxima.size(); ++run) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(run * fd::Scores::kRun);
      const auto n = std::min(fd::Scores::kRun, logits.size() - run * fd::Scores::kRun);
      maxima[run] = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(n));
    }
  }
  return scores;
}

template <typename D>
D attached(const Settings& settings = {}) {
  D drafter(settings);
  drafter.attach({.n_vocab = kVocab});
  return drafter;
}

/// A round behind `anchor` with nothing drafted.
template <typename D>
void commit(D& drafter, fd::TokenId anchor, fd::TokenId next, const Tokens& best) {
  fd::DraftTree draft;
  draft.reset(anchor);
  const std::vector<fd::NodeIndex> path{0};
  const Tokens made{next};
  const fd::Scores scores = scores_of({best});
  drafter.commit({draft, path, made, scores, 0});
}

template <typename D>
fd::DraftTree drafted(D& drafter, fd::TokenId anchor, fd::Limit limit, int n_vocab = kVocab) {
  const Tokens tokens{anchor};
  fd::DraftTree draft;
  draft.reset(anchor);
  fd::Context context{tokens, {}, {}};
  context.n_vocab = n_vocab;
  drafter.propose(context, limit, draft);
  return draft;
}

Tokens tokens_of(const fd::DraftTree& draft) {
  Tokens tokens;
  for (const fd::Node& node : draft.nodes().subspan(1)) tokens.push_back(node.token);
  return tokens;
}

Tokens successors(const Matrix& matrix, fd::TokenId token) {
  const Matrix::Row* row = matrix.find(token);
  if (row == nullptr) return {};
  return {row->begin(), std::find(row->begin(), row->end(), Matrix::kNone)};
}

}  // namespace

TEST_CASE("the best tokens of every row of a round are kept, of rejected rows too") {
  for (const HandsOver what : {HandsOver::kLogits, HandsOver::kMaxima, HandsOver::kTop}) {
    CAPTURE(static_cast<int>(what));
    auto chain = attached<Chain>();
    fd::DraftTree draft;
    draft.reset(1);
    draft.extend(2);
    draft.add(0, 3);
    const std::vector<fd::NodeIndex> path{0};
    const Tokens made{9};
    const Tokens of_1{9, 2, 3, 4, 5, 6, 7, 8, 10};
    const auto scores = scores_of({of_1, {20, 21}, {30, 250}}, fd::RowNeed::kLogits, what);
    chain.commit({draft, path, made, scores, 0});
    CHECK(successors(chain.matrix(), 1) == Tokens(of_1.begin(), of_1.begin() + 8));
    CHECK(successors(chain.matrix(), 2)[0] == 20);
    CHECK(successors(chain.matrix(), 3)[1] == 250);
    CHECK(successors(chain.matrix(), 9).empty());
    CHECK(chain.matrix().size() == 3);
  }
}

TEST_CASE("where a token has several rows, that of the text stays") {
  auto chain = attached<Chain>();
  fd::DraftTree draft;
  draft.reset(1);
  draft.extend(1);
  draft.extend(1);
  const std::vector<fd::NodeIndex> path{0, 1};
  const Tokens made{1, 7};
  chain.commit({draft, path, made, scores_of({{1}, {7}, {5}}), 0});
  CHECK(successors(chain.matrix(), 1)[0] == 7);
}

TEST_CASE("a chain follows the best successors, as far as it can and as is likely") {
  auto chain = attached<Chain>({.max_nodes = 5, .min_probability = 0.0});
  for (fd::TokenId token = 1; token < 4; ++token) commit(chain, token, 200, {token + 1, 100});
  CHECK(tokens_of(drafted(chain, 1, {8, 8})) == Tokens{2, 3, 4});  // 4 has no row
  CHECK(tokens_of(drafted(chain, 1, {2, 2})) == Tokens{2, 3});
  CHECK(tokens_of(drafted(chain, 1, {0, 0})).empty());
  CHECK(tokens_of(drafted(chain, 77, {8, 8})).empty());
  CHECK(tokens_of(drafted(chain, 1, {8, 8}, 3)) == Tokens{2});  // 3 is no token of the target
  commit(chain, 4, 200, {1});
  CHECK(tokens_of(drafted(chain, 1, {8, 8})) == Tokens{2, 3, 4, 1, 2});
  CHECK(chain.max_depth() == 5);
}

TEST_CASE("a tree grows where it is likeliest") {
  auto tree = attached<Tree>({.max_nodes = 6, .min_probability = 0.0});
  std::mt19937 random(3);
  for (fd::TokenId token = 0; token < 100; ++token) {
    Tokens best;
    while (best.size() < 8) {
      const auto next = static_cast<fd::TokenId>(random() % 100);
      if (std::find(best.begin(), best.end(), next) == best.end()) best.push_back(next);
    }
    (void)drafted(tree, token, {0, 0});  // makes room
    commit(tree, token, best[random() % 3], best);
  }
  int branched = 0;
  for (fd::TokenId anchor = 0; anchor < 100; ++anchor) {
    const fd::DraftTree draft = drafted(tree, anchor, {3, 60});
    CHECK(draft.drafted() == 6);
    CHECK(draft.max_depth() <= 3);
    branched += !draft.is_chain();
    // By hand: every node that could be there, sorted.
    std::vector<double> all;
    const auto expand = [&](const auto& self, double p, int depth) -> void {
      for (int rank = 0; rank < 8; ++rank) {
        const double here = p * tree.probability(rank);
        all.push_back(here);
        if (depth < 3) self(self, here, depth + 1);
      }
    };
    expand(expand, 1.0, 1);
    std::sort(all.rbegin(), all.rend());
    std::vector<double> p{1.0};
    for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
      p.push_back(p[fd::idx(draft.parent(node))] * static_cast<double>(draft.confidence(node)));
      CHECK(p.back() == Approx(all[fd::idx(node - 1)]).epsilon(1e-5));
      const Tokens of_parent = successors(tree.matrix(), draft.token(draft.parent(node)));
      CHECK(std::find(of_parent.begin(), of_parent.end(), draft.token(node)) != of_parent.end());
    }
  }
  CHECK(branched == 100);
}

TEST_CASE("ranks are as likely as they were, and the past fades") {
  auto chain = attached<Chain>();
  commit(chain, 1, 2, {2, 3, 4, 5, 6, 7, 8, 9});
  for (int i = 0; i < 3000; ++i) commit(chain, 1, 3, {2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(chain.probability(0) < 0.1);
  CHECK(chain.probability(1) <= chain.probability(0));  // no rank is more likely than a better one
  for (int i = 0; i < 3000; ++i) commit(chain, 1, 2, {2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(chain.probability(0) > 0.9);
  CHECK(chain.probability(1) < 0.1);
  CHECK(drafted(chain, 1, {1, 1}).confidence(1) == Approx(chain.probability(0)));
}

TEST_CASE("a prompt without rows is learnt as it is read, one with rows from them") {
  auto chain = attached<Chain>();
  const Tokens prompt{1, 2, 1, 3, 1, 2, 4};
  const fd::Scores nothing = scores_of(std::vector<Tokens>(7), fd::RowNeed::kNothing);
  chain.absorb({0, prompt, &nothing});
  CHECK(successors(chain.matrix(), 1) == Tokens{2, 3});  // the newest first
  CHECK(successors(chain.matrix(), 2) == Tokens{4, 1});
  CHECK(successors(chain.matrix(), 4).empty());
  const auto rows = scores_of({{8}, {7}});
  chain.absorb({0, Tokens{1, 5}, &rows});
  CHECK(successors(chain.matrix(), 1).front() == 8);
  CHECK(successors(chain.matrix(), 5).front() == 7);
  chain.absorb({0, Tokens{1, 6, 1}, &nothing});  // the target has had its word
  CHECK(successors(chain.matrix(), 1).front() == 8);
  Tokens many{50};
  for (fd::TokenId token = 60; token < 80; ++token) many.insert(many.end(), {token, 50});
  chain.absorb({0, many, &nothing});
  CHECK(successors(chain.matrix(), 50).size() == 8);
}

TEST_CASE("rows that nobody computed are not learnt from") {
  auto chain = attached<Chain>();
  fd::DraftTree draft;
  draft.reset(1);
  const std::vector<fd::NodeIndex> path{0};
  const Tokens made{2};
  chain.commit({draft, path, made, scores_of({{2}}, fd::RowNeed::kArgmax), 0});
  CHECK(chain.matrix().size() == 0);
  fd::Scores damaged;
  damaged.reset({fd::RowNeed::kLogits, {}}, 1, kVocab);
  damaged.set_row(0, std::vector<float>(kVocab, std::nanf("")));
  chain.commit({draft, path, made, damaged, 0});
  CHECK(chain.matrix().size() == 0);
  CHECK(chain.needs() == fd::RowNeed::kTop);
  Chain alone;  // not attached: it knows no vocabulary
  alone.commit({draft, path, made, scores_of({{2}}), 0});
  CHECK(drafted(alone, 1, {4, 4}).drafted() == 0);
}

TEST_CASE("what was learnt outlives the text, until it is forgotten") {
  auto chain = attached<Chain>();
  commit(chain, 1, 2, {2});
  chain.truncate(0);
  chain.reset();
  chain.restore(chain.snapshot());
  chain.attach({.n_vocab = kVocab});
  CHECK(successors(chain.matrix(), 1).front() == 2);
  chain.forget();
  CHECK(chain.matrix().size() == 0);
  CHECK(drafted(chain, 1, {4, 4}).drafted() == 0);
  commit(chain, 1, 2, {2});
  chain.attach({.n_vocab = kVocab + 1});  // tokens of another target mean other things
  CHECK(chain.matrix().size() == 0);
}

TEST_CASE("the matrix stays within its bound, for a million rows") {
  auto chain = attached<Chain>();
  std::mt19937 random(1);
  fd::DraftTree draft;
  const std::vector<fd::NodeIndex> path{0};
  const Tokens made{2};
  const auto scores =
      scores_of(std::vector<Tokens>(64, Tokens{2}), fd::RowNeed::kLogits, HandsOver::kMaxima);
  constexpr std::size_t kBound = 4 * (Matrix::kSuccessors + 1) * kVocab;
  CHECK(chain.matrix().bytes() < kBound);  // rows are made for tokens that were seen
  for (int round = 0; round < (1 << 20) / 64; ++round) {
    draft = drafted(chain, 0, {0, 0});
    while (draft.size() < 64) draft.extend(static_cast<fd::TokenId>(random() % kVocab));
    chain.commit({draft, path, made, scores, 0});
    REQUIRE(chain.matrix().bytes() <= kBound);
  }
  CHECK(chain.matrix().size() == kVocab);
}

TEST_CASE("a matrix that was saved and loaded drafts the same") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = kVocab};
  auto tree = attached<Tree>();
  for (fd::TokenId token = 1; token < 20; ++token) commit(tree, token, 3, {token + 1, 9, 1});
  tree.absorb({0, Tokens{250, 251}, nullptr});  // a row of one successor
  std::stringstream file;
  tree.save(file, vocabulary);
  Tree again;
  again.load(file, vocabulary);
  again.attach({.n_vocab = kVocab});
  CHECK(again.matrix().size() == tree.matrix().size());
  for (fd::TokenId token = 0; token < kVocab; ++token) {
    CHECK(successors(again.matrix(), token) == successors(tree.matrix(), token));
  }
}

TEST_CASE("a damaged or hostile matrix changes nothing") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = kVocab};
  auto chain = attached<Chain>();
  chain.absorb({0, Tokens{1, 2, 3}, nullptr});
  std::stringstream good;
  chain.save(good, vocabulary);
  const std::string bytes = good.str();
  const auto refused = [&](const std::string& file) {
    std::istringstream in(file);
    CHECK_THROWS_AS(chain.load(in, vocabulary), fd::Error);
    CHECK(chain.matrix().size() == 2);
  };
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    refused(bytes.substr(0, n));
    std::string changed = bytes;
    changed[n] = static_cast<char>(changed[n] ^ 64);
    refused(changed);
  }
  struct Row {
    fd::TokenId token;
    std::uint8_t n;
    Tokens successors;
  };
  const auto framed = [&](std::uint64_t count, const std::vector<Row>& rows) {
    fd::PayloadWriter payload;
    payload.put(count);
    for (const Row& saved : rows) {
      payload.put(saved.token);
      payload.put(saved.n);
      for (const fd::TokenId next : saved.successors) payload.put(next);
    }
    std::ostringstream out;
    fd::write_table(out, {fd::TableKind::kTokenRecycling, vocabulary, payload.bytes()});
    return out.str();
  };
  refused(framed(~std::uint64_t{0}, {{1, 1, {2}}}));
  refused(framed(2, {{1, 1, {2}}}));
  refused(framed(0, {{1, 1, {2}}}));
  refused(framed(2, {{1, 1, {2}}, {1, 1, {2}}}));
  refused(framed(1, {{kVocab, 1, {2}}}));
  refused(framed(1, {{-1, 1, {2}}}));
  refused(framed(1, {{1, 1, {kVocab}}}));
  refused(framed(1, {{1, 2, {2, 2}}}));
  refused(framed(1, {{1, 9, {1, 2, 3, 4, 5, 6, 7, 8, 9}}}));
  std::istringstream in(framed(1, {{7, 1, {8}}}));
  chain.load(in, vocabulary);
  CHECK(chain.matrix().size() == 1);
}

TEST_CASE("settings of token recycling out of range are refused") {
  for (const Settings& settings :
       {Settings{.max_nodes = 0}, Settings{.max_nodes = 64}, Settings{.min_probability = -0.1},
        Settings{.min_probability = 1.5}, Settings{.min_probability = std::nan("")}}) {
    CHECK_THROWS_AS(Tree(settings), fd::Error);
  }
}
