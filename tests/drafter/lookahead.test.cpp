#include <foredraft/drafter/lookahead.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/any_drafter.hpp>
#include <foredraft/drafter/chain.hpp>
#include <foredraft/drafter/no_draft.hpp>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"
#include "support/exact_law.hpp"
#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::LookaheadSettings;
using AnyDrafter = fd::AnyDrafter<fd::Shape::kTree>;
using Decoder = fd::Decoder<toy::Target, toy::TokenCache, fd::Controlled<AnyDrafter>, TreeRule>;

const TreeRule kGreedy = TreeRule::of(fd::Greedy{});
const TreeRule kMatch = TreeRule::of(fd::SampleAndMatch{});
const TreeRule kRejection = TreeRule::of(fd::RejectionSampling{});
constexpr fd::Limit kRoom{63, 63};
constexpr int kVocab = 1000;

/// What a target says behind a token, for tests by hand.
fd::TokenId answer_to(fd::TokenId token) { return (token * 7 + 3) % kVocab; }

fd::DraftTree drafted(fd::Lookahead& drafter, const Tokens& text, fd::Limit limit = kRoom,
                      int n_vocab = kVocab) {
  fd::DraftTree draft;
  draft.reset(text.back());
  fd::Context context{text, {}, {}};
  context.n_vocab = n_vocab;
  drafter.propose(context, limit, draft);
  CHECK(draft.drafted() <= limit.nodes);
  CHECK(draft.max_depth() <= std::min(limit.depth, drafter.max_depth()));
  for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
    // No sibling has the same token.
    CHECK(draft.child_with(draft.parent(node), draft.token(node)) == node);
    CHECK(draft.confidence(node) > 0.0f);
  }
  return draft;
}

/// A round with the rows of `target(token)` in which the nodes of `path` are accepted.
template <typename Answer>
void commit(fd::Lookahead& drafter, Tokens& text, const fd::DraftTree& draft,
            const std::vector<fd::NodeIndex>& path, Answer&& answer,
            fd::RowNeed need = fd::RowNeed::kArgmax) {
  fd::Scores scores;
  scores.reset({need, {}}, draft.size(), kVocab);
  for (fd::NodeIndex node = 0; need != fd::RowNeed::kNothing && node < draft.size(); ++node) {
    scores.argmax()[fd::idx(node)] = answer(draft.token(node));
  }
  Tokens made;
  for (std::size_t i = 1; i < path.size(); ++i) made.push_back(draft.token(path[i]));
  made.push_back(answer(draft.token(path.back())));
  const auto position = static_cast<fd::Position>(text.size()) - 1;
  const std::int64_t before = memory::allocations;
  drafter.commit({draft, path, made, scores, position});
  CHECK(memory::allocations == before);
  text.insert(text.end(), made.begin(), made.end());
}
void commit(fd::Lookahead& drafter, Tokens& text, const fd::DraftTree& draft) {
  commit(drafter, text, draft, {0}, answer_to);
}

/// Tokens from the anchor to each leaf.
std::vector<Tokens> paths(const fd::DraftTree& draft) {
  std::vector<Tokens> all;
  for (fd::NodeIndex leaf = 0; leaf < draft.size(); ++leaf) {
    if (draft.first_child(leaf) >= 0) continue;
    Tokens path;
    for (fd::NodeIndex node = leaf; node > 0; node = draft.parent(node)) {
      path.insert(path.begin(), draft.token(node));
    }
    all.push_back(path);
  }
  return all;
}

bool holds(const fd::DraftTree& draft, const Tokens& path) {
  fd::NodeIndex node = 0;
  for (const fd::TokenId token : path) {
    node = draft.child_with(node, token);
    if (node < 0) return false;
  }
  return true;
}

/// Rounds in which nothing is accepted.
void rounds(fd::Lookahead& drafter, Tokens& text, int n) {
  for (int i = 0; i < n; ++i) commit(drafter, text, drafted(drafter, text));
}

Tokens ngrams_of(fd::Lookahead& drafter, fd::TokenId token) {
  const auto found = drafter.pool().find(token);
  return {found.begin(), found.end()};
}

/// A text no two tokens of which are alike, so that the window's first guesses are.
Tokens distinct(int n) {
  Tokens text;
  for (int i = 0; i < n; ++i) text.push_back(i * 13 % kVocab);
  return text;
}

}  // namespace

TEST_CASE("a window is a chain and a column behind each of its nodes") {
  fd::Lookahead drafter({.window = 4, .ngram = 4, .guesses = 2});
  CHECK(drafter.max_depth() == 5);
  CHECK(drafter.needs() == fd::RowNeed::kArgmax);
  Tokens text = distinct(500);
  CHECK(drafted(drafter, text).is_chain());  // where there are no answers yet, columns are alike
  CHECK(drafted(drafter, text).drafted() == 5);
  rounds(drafter, text, 4);
  const auto draft = drafted(drafter, text);
  CHECK(draft.drafted() == 3 + 4 * 2);
  const auto columns = paths(draft);
  REQUIRE(columns.size() == 4);
  std::vector<std::size_t> depths;
  for (const Tokens& column : columns) depths.push_back(column.size());
  std::sort(depths.begin(), depths.end());
  CHECK(depths == std::vector<std::size_t>{2, 3, 4, 5});
  // n-grams of two tokens: the chain alone.
  fd::Lookahead pairs({.window = 4, .ngram = 2, .guesses = 2});
  CHECK(drafted(pairs, distinct(500)).is_chain());
  fd::Lookahead least({.window = 1, .ngram = 2, .guesses = 1});
  CHECK(drafted(least, distinct(500)).drafted() == 0);
  CHECK(least.max_depth() == 1);
}

TEST_CASE("each level is the answer to the one below it, and columns become n-grams") {
  fd::Lookahead drafter({.window = 4, .ngram = 4, .guesses = 2});
  Tokens text = distinct(500);
  const auto first = drafted(drafter, text);
  commit(drafter, text, first);
  rounds(drafter, text, 2);
  CHECK(drafter.pool().size() == 0);  // columns that have tokens of the text are no n-grams
  rounds(drafter, text, 2);
  // Three rounds later the lowest level is what was answered at the top of the first window.
  for (const fd::NodeIndex end : {2, 3, 4, 5}) {
    const fd::TokenId key = answer_to(first.token(end));
    Tokens expected{answer_to(key)};
    while (expected.size() < 3) expected.push_back(answer_to(expected.back()));
    if (end == 2) expected = {};  // the first column begins with the anchor instead
    CHECK(ngrams_of(drafter, key) == expected);
  }
  // Where the text comes to such a token, they are drafted.
  text.push_back(answer_to(first.token(5)));
  Tokens follow{answer_to(text.back())};
  while (follow.size() < 3) follow.push_back(answer_to(follow.back()));
  drafter.reset();
  const auto draft = drafted(drafter, text);
  CHECK(holds(draft, follow));
  CHECK(draft.drafted() == 5 + 3);
  CHECK(draft.confidence(draft.child_with(0, follow[0])) > draft.confidence(draft.first_child(0)));
}

TEST_CASE("an n-gram begins with the text's token, whatever was answered in its place") {
  fd::Lookahead drafter({.window = 1, .ngram = 2, .guesses = 2});
  Tokens text{5};
  rounds(drafter, text, 1);
  text.back() = 77;  // what was drawn
  rounds(drafter, text, 1);
  (void)drafted(drafter, text);
  CHECK(ngrams_of(drafter, 5) == Tokens{answer_to(5)});
  CHECK(ngrams_of(drafter, answer_to(5)).empty());
  CHECK(ngrams_of(drafter, 77) == Tokens{answer_to(77)});
}

TEST_CASE("accepted tokens move the window to the left") {
  fd::Lookahead drafter({.window = 4, .ngram = 3, .guesses = 2});
  Tokens text = distinct(500);
  const auto first = drafted(drafter, text);
  REQUIRE(first.is_chain());
  commit(drafter, text, first, {0, 1, 2}, answer_to);  // three tokens are final
  const auto second = drafted(drafter, text);
  // What was answered at the end of the third column now stands behind the anchor, that of the
  // fourth a place further. The others are past.
  CHECK(holds(second, {answer_to(first.token(3))}));
  int more = 0;
  for (const Tokens& column : paths(second)) {
    more += column.size() == 2 && column[1] == answer_to(first.token(4));
    CHECK(std::count(column.begin(), column.end(), answer_to(first.token(2))) == 0);
  }
  CHECK(more == 1);
}

TEST_CASE("of a draft that others cut or add to, whole columns are learnt from") {
  const auto learnt = [](bool cut, bool add) {
    fd::Lookahead drafter({.window = 4, .ngram = 3, .guesses = 2});
    Tokens text = distinct(500);
    for (int round = 0; round < 6; ++round) {
      const auto own = drafted(drafter, text);
      fd::DraftTree other;
      other.reset(text.back());
      if (add) other.extend(999), other.extend(998);
      for (const Tokens& column : paths(own)) {
        fd::NodeIndex node = 0;
        for (const fd::TokenId token : column) {
          if (cut && other.depth(node) == 2) break;  // two columns are left
          const fd::NodeIndex there = other.child_with(node, token);
          node = there >= 0 ? there : other.add(node, token);
        }
      }
      commit(drafter, text, other);
    }
    (void)drafted(drafter, text);
    return drafter.pool().size();
  };
  const int all = learnt(false, false);
  CHECK(all > 8);
  CHECK(learnt(false, true) == all);
  const int some = learnt(true, true);
  CHECK(some > 0);
  CHECK(some < all);
}

TEST_CASE("rows that nobody computed, or that are damaged, teach nothing") {
  for (const bool damaged : {false, true}) {
    fd::Lookahead drafter;
    Tokens text = distinct(500);
    const auto answer = [&](fd::TokenId token) { return damaged ? -1 : answer_to(token); };
    for (int round = 0; round < 8; ++round) {
      commit(drafter, text, drafted(drafter, text), {0}, answer,
             damaged ? fd::RowNeed::kArgmax : fd::RowNeed::kNothing);
      text.back() = round;  // a token of the vocabulary
    }
    (void)drafted(drafter, text);
    CHECK(drafter.pool().size() == 0);
  }
}

TEST_CASE("a drafter that is not asked for a round goes on behind it") {
  fd::Lookahead drafter;
  Tokens text = distinct(500);
  rounds(drafter, text, 6);
  const auto last = drafted(drafter, text);
  commit(drafter, text, last);
  CHECK(drafted(drafter, text, {0, 0}).drafted() == 0);
  const int known = drafter.pool().size();
  CHECK(known > 0);
  // A draft of others in which its last window happens to stand.
  fd::DraftTree other;
  other.reset(text.back());
  for (const fd::Node& node : last.nodes().subspan(1)) other.add(node.parent, node.token);
  commit(drafter, text, other);
  commit(drafter, text, other);
  (void)drafted(drafter, text);
  CHECK(drafter.pool().size() == known);
}

TEST_CASE("a cut drops the window and keeps the n-grams, until they are forgotten") {
  for (int how = 0; how < 3; ++how) {
    CAPTURE(how);
    fd::Lookahead drafter({.window = 4, .ngram = 3, .guesses = 2});
    Tokens text = distinct(500);
    rounds(drafter, text, 6);
    fd::Lookahead fresh({.window = 4, .ngram = 3, .guesses = 2});
    (void)drafted(drafter, text);
    if (how == 0) drafter.truncate(499);
    if (how == 1) drafter.reset();
    if (how == 2) drafter.restore(drafter.snapshot());
    const int known = drafter.pool().size();
    CHECK(known > 0);
    text.resize(499);
    for (const Tokens& column : paths(drafted(fresh, text))) {
      CHECK(holds(drafted(drafter, text), column));
    }
    CHECK(drafter.pool().size() == known);
    drafter.forget();
    CHECK(drafter.pool().size() == 0);
    CHECK(paths(drafted(drafter, text)) == paths(drafted(fresh, text)));
  }
  fd::Lookahead drafter;
  drafter.attach({.n_vocab = kVocab});
  Tokens text = distinct(500);
  rounds(drafter, text, 6);
  drafter.attach({.n_vocab = kVocab});
  (void)drafted(drafter, text);
  CHECK(drafter.pool().size() > 0);
  drafter.attach({.n_vocab = kVocab + 1});  // tokens of another target mean other things
  CHECK(drafter.pool().size() == 0);
}

TEST_CASE("what was saved comes back, that of the last commit too, and a target does not drop it") {
  constexpr fd::VocabularyFingerprint kPrint{.n_vocab = kVocab};
  const auto saved = [&](fd::Lookahead& drafter) {
    std::ostringstream out;
    drafter.save(out, kPrint);
    return out.str();
  };
  fd::Lookahead drafter({.window = 3, .ngram = 3});
  Tokens text{1, 2, 3, 4, 5};
  rounds(drafter, text, 8);
  const int before = drafter.pool().size();
  const std::string file = saved(drafter);
  const int known = drafter.pool().size();
  CHECK(known > before);
  fd::Lookahead other({.window = 2, .ngram = 3});
  rounds(other, text, 4);  // what it knows and what it has noted goes
  std::istringstream in(file);
  other.load(in, kPrint);
  other.attach({.n_vocab = kVocab});
  CHECK(other.pool().size() == known);
  CHECK(saved(other) == file);
  other.attach({.n_vocab = kVocab + 1});
  CHECK(other.pool().size() == 0);
}

TEST_CASE("a narrow limit has fewer columns, and the window before the guesses") {
  Tokens text = distinct(500);
  fd::Lookahead drafter;
  rounds(drafter, text, 12);
  for (int n_vocab : {1, 20, kVocab}) {
    for (fd::TokenId& token : text) token %= n_vocab;
    for (int depth = 0; depth <= 8; ++depth) {
      for (int nodes = depth; nodes < 64; ++nodes) {
        const auto draft = drafted(drafter, text, {depth, nodes}, n_vocab);
        for (const fd::Node& node : draft.nodes()) CHECK(node.token < n_vocab);
        if (depth == 0) CHECK(draft.drafted() == 0);
      }
    }
  }
  fd::Lookahead other;
  text = distinct(500);
  rounds(other, text, 4);
  CHECK(drafted(other, text, {1, 63}).drafted() == 0);
  CHECK(drafted(other, text, {2, 63}).drafted() == 2);  // the anchor's column
  CHECK(drafted(other, text, {3, 63}).drafted() == 5);
  CHECK(drafted(other, text, {63, 13}).drafted() == 11);
  CHECK(drafted(other, text).drafted() == 14);
}

TEST_CASE("where a token depends on the last one alone, Jacobi's iteration finds what follows") {
  toy::Target target(400, 1, 3.0);
  Decoder decoder(target, toy::TokenCache(2000, 64), AnyDrafter(fd::Lookahead{}), kGreedy);
  Decoder plain(target, toy::TokenCache(2000, 64), AnyDrafter(fd::NoDraft{}), kGreedy);
  const auto best = [&](fd::TokenId token) {
    const auto logits = target.logits_after(Tokens{token});
    return fd::Scores::argmax_of(logits);
  };
  Drafted all;
  for (fd::TokenId prompt = 0; prompt < 6; ++prompt) {
    const Tokens text{prompt * 31, 5 + prompt, 390 - prompt};
    const fd::Options options{.max_tokens = 60, .n_draft = 8};
    const auto result = decoder.generate(text, options);
    CHECK(result.tokens == plain.generate(text, options).tokens);
    CHECK(result.stats.rounds < 50);
    all.add(result);
  }
  CHECK(all.both());
  auto* drafter = decoder.drafter().get<fd::Lookahead>();
  REQUIRE(drafter != nullptr);
  int ngrams = 0;
  for (fd::TokenId key = 0; key < 400; ++key) {
    const Tokens found = ngrams_of(*drafter, key);
    fd::TokenId before = key;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i % 3 == 0) before = key, ++ngrams;
      CHECK(found[i] == best(before));
      before = found[i];
    }
  }
  CHECK(ngrams > 20);
}

TEST_CASE("greedy and matched texts are the plain ones at all depths and in all caches") {
  for (const int order : {0, 1, 2}) {
    toy::Target target(12, order, 3.0);
    Drafted all;
    for (const int staged : {1, 2, 5, 16, 64}) {
      const Settings settings{.window = 1 + staged % 5, .ngram = 2 + staged % 3, .guesses = 3};
      Decoder greedy(target, toy::TokenCache(90, staged), AnyDrafter(fd::Lookahead(settings)),
                     kGreedy);
      Decoder match(target, toy::TokenCache(90, staged), AnyDrafter(fd::Lookahead(settings)),
                    kMatch);
      Decoder plain(target, toy::TokenCache(90, staged), AnyDrafter(fd::NoDraft{}), kGreedy);
      Decoder sampled(target, toy::TokenCache(90, staged), AnyDrafter(fd::NoDraft{}), kMatch);
      for (int n_draft = fd::Options::kAutomatic; n_draft < 12; ++n_draft) {
        CAPTURE(order, staged, n_draft);
        const Tokens prompt{(n_draft + 1) % 12, 3, (5 * n_draft + 7) % 12, 1};
        // Into the full context, every third time.
        fd::Options options{.max_tokens = n_draft % 3 == 0 ? 200 : 40, .n_draft = n_draft};
        auto result = greedy.generate(prompt, options);
        CHECK(result.tokens == plain.generate(prompt, options).tokens);
        all.add(result);
        options.sampling.temperature = 0.7f;
        options.seed = static_cast<std::uint64_t>(n_draft + 5);
        result = match.generate(prompt, options);
        CHECK(result.tokens == sampled.generate(prompt, options).tokens);
        all.add(result);
      }
    }
    CHECK(all.both());
  }
}

TEST_CASE("a text goes on behind a snapshot, and behind a cut, as if nothing had been") {
  toy::Target target(12, 2, 3.0);
  Decoder decoder(target, toy::TokenCache(300, 64), AnyDrafter(fd::Lookahead{}), kGreedy);
  Decoder plain(target, toy::TokenCache(300, 64), AnyDrafter(fd::NoDraft{}), kGreedy);
  const fd::Options options{.max_tokens = 40, .n_draft = 8};
  const fd::Options twice{.max_tokens = 80, .n_draft = 8};
  const Tokens prompt{1, 2, 3};
  const auto whole = plain.generate(prompt, twice).tokens;
  const auto first = decoder.generate(prompt, options).tokens;
  const auto snapshot = decoder.snapshot();
  const auto rest = decoder.resume(options).tokens;
  CHECK(Tokens(whole.begin() + 40, whole.end()) == rest);
  decoder.generate(Tokens{7, 7, 7}, options);
  decoder.restore(snapshot);
  CHECK(decoder.resume(options).tokens == rest);
  // A prompt that shares its beginning with the tokens so far cuts them.
  const Tokens other{1, 2, 3, whole[0], whole[1], 9};
  CHECK(decoder.generate(other, options).tokens == plain.generate(other, options).tokens);
}

TEST_CASE("sampled text has the target's law, first round included") {
  toy::Target target(2, 0, 1.0, 9);
  const Tokens prompt{0, 1, 0, 1, 0};
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  law::JointLaw expected = law::target_law(target, prompt, sampling, 6);
  for (const TreeRule& rule : {kRejection, kMatch}) {
    const Settings settings{.window = 2, .ngram = 2, .guesses = 2, .max_keys = 8};
    const auto found = law::law_of([&](fd::Rng& rng) {
      Decoder decoder(target, toy::TokenCache(32, 16), AnyDrafter(fd::Lookahead(settings)), rule);
      decoder.use_rng(&rng);
      return decoder.generate(prompt, {.max_tokens = 6, .n_draft = 3, .sampling = sampling}).tokens;
    });
    CHECK(law::total_variation(found, expected) <= 1e-12);
  }
}

TEST_CASE("memory is bounded, for many rounds, and commits allocate nothing") {
  fd::Lookahead drafter({.max_keys = 64});
  std::mt19937 random(4);
  Tokens text = distinct(50);
  (void)drafted(drafter, text);
  const std::size_t bytes = drafter.bytes();
  CHECK(bytes < 64 * (16 + 4 * 5 * 3) + 500);
  const auto answer = [&](fd::TokenId) { return static_cast<fd::TokenId>(random() % kVocab); };
  for (int round = 0; round < 2000; ++round) {
    const auto draft = drafted(drafter, text);
    std::vector<fd::NodeIndex> path{0};
    while (random() % 2 == 0 && draft.first_child(path.back()) > 0) {
      path.push_back(draft.first_child(path.back()));
    }
    commit(drafter, text, draft, path, answer);
    CHECK(drafter.bytes() == bytes);
  }
  CHECK(drafter.pool().size() > 64);
  // A copy brings its memory along by its next proposal.
  auto copy = drafter;
  commit(copy, text, drafted(copy, text));
}

TEST_CASE("lookahead: a million answers take no more memory than is said") {
  fd::Lookahead drafter;
  std::mt19937 random(4);
  Tokens text = distinct(50);
  fd::DraftTree draft;
  const auto answer = [&](fd::TokenId) { return static_cast<fd::TokenId>(random() % 100'000); };
  for (int answers = 0; answers < 1'000'000; answers += draft.size()) {
    draft.reset(text.back());
    drafter.propose({text, {}, {}}, kRoom, draft);
    commit(drafter, text, draft, {0}, answer);
  }
  CHECK(drafter.bytes() < 312'000);
}

TEST_CASE("settings of lookahead out of range are refused") {
  for (const Settings& settings :
       {Settings{.window = 0}, Settings{.ngram = 1}, Settings{.guesses = 0}, Settings{.window = 17},
        Settings{.window = 15, .ngram = 5, .guesses = 15}, Settings{.ngram = 1 << 30},
        Settings{.max_keys = 0}, Settings{.max_keys = 12}, Settings{.max_keys = 1 << 21}}) {
    CHECK_THROWS_AS(fd::Lookahead(settings), fd::Error);
  }
  const fd::Lookahead widest({.window = 16});  // 63 nodes and the anchor
  CHECK(widest.max_depth() == 17);
}
