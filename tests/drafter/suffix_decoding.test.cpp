#include <foredraft/drafter/suffix_decoding.hpp>

#include <cmath>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::SuffixSettings;
using Chain = fd::SuffixDecoding<>;
using Tree = fd::SuffixDecoding<fd::Shape::kTree>;

template <typename D>
fd::DraftTree drafted(D& drafter, const Tokens& tokens, fd::Limit limit) {
  fd::DraftTree draft;
  draft.reset(tokens.back());
  drafter.propose({tokens, {}, {}}, limit, draft);
  return draft;
}
template <typename D>
Tokens proposed(D& drafter, const Tokens& tokens, int n) {
  Tokens found;
  const fd::DraftTree draft = drafted(drafter, tokens, {n, n});
  for (const fd::Node& node : draft.nodes().subspan(1)) found.push_back(node.token);
  return found;
}

/// A round in which nothing drafted was accepted, and another token came.
template <typename D>
void commit(D& drafter, Tokens& text, fd::TokenId token) {
  fd::DraftTree draft;
  draft.reset(text.back());
  const std::vector<fd::NodeIndex> path{0};
  const Tokens made{token};
  const fd::Scores scores;
  drafter.commit({draft, path, made, scores, static_cast<fd::Position>(text.size()) - 1});
  text.push_back(token);
}

/// A request whose output is `output`, round by round.
template <typename D>
void run(D& drafter, Tokens text, const Tokens& output) {
  drafter.truncate(0);
  bool first = true;
  for (const fd::TokenId token : output) {
    if (!first) (void)drafted(drafter, text, {0, 0});
    first = false;
    commit(drafter, text, token);
  }
}

}  // namespace

TEST_CASE("what followed most often in the text is drafted") {
  Chain chain;
  CHECK(proposed(chain, {1, 2, 7, 1, 2, 8, 9, 1, 2, 8, 5, 1, 2}, 4) == Tokens{8, 5});
  CHECK(proposed(chain, {1, 2, 7, 1, 2, 8, 9, 1, 2, 8, 5, 1, 2, 4}, 4).empty());
  Tree tree({.max_spec_factor = 4.0});
  const auto draft = drafted(tree, {1, 2, 7, 1, 2, 8, 9, 1, 2, 8, 5, 1, 2}, {4, 6});
  CHECK(!draft.is_chain());
  CHECK(draft.token(1) == 8);
  CHECK(draft.confidence(1) == 0.5f);  // twice in four times, this one included
  CHECK(draft.child_with(1, 5) > 0);
  CHECK(draft.child_with(1, 9) > 0);
  CHECK(draft.child_with(0, 7) > 0);
}

TEST_CASE("outputs of earlier requests are drafted, prompts are not") {
  Chain chain;
  run(chain, {50, 51, 52}, {1, 2, 3, 4, 5});
  chain.reset();
  CHECK(proposed(chain, {9, 1, 2, 3}, 8) == Tokens{4, 5});
  CHECK(proposed(chain, {9, 1, 2, 3, 50, 51}, 8).empty());
  CHECK(chain.cache()->held().tokens == 5);
  Chain none({.max_cached_requests = 0});
  run(none, {50, 51, 52}, {1, 2, 3, 4, 5});
  none.reset();
  CHECK(proposed(none, {9, 1, 2, 3}, 8).empty());
  CHECK(none.cache() == nullptr);
}

TEST_CASE("the text itself is asked first, and the surer draft wins") {
  Chain chain;
  run(chain, {50}, {1, 2, 3, 4, 5});
  chain.reset();
  // Once in the text, which is worth 1/2; once in the outputs, where nothing else followed.
  CHECK(proposed(chain, {1, 2, 8, 1, 2}, 2) == Tokens{3, 4});
  chain.reset();
  // A longer match makes a longer draft, which is worth more.
  CHECK(proposed(chain, {6, 7, 8, 9, 1, 2, 8, 8, 8, 8, 8, 6, 7, 8, 9, 1, 2}, 6) ==
        Tokens{8, 8, 8, 8, 8, 6});
}

TEST_CASE("an output is remembered when the next text begins, however it begins") {
  for (int how = 0; how < 4; ++how) {
    CAPTURE(how);
    Chain chain;
    run(chain, {50}, {1, 2, 3, 4});
    if (how == 0) chain.reset();
    if (how == 1) chain.truncate(2);
    if (how == 2) chain.restore(chain.snapshot());
    if (how == 3) chain.end_request();
    CHECK(chain.cache()->held().requests == 0);  // state that allocates waits for a proposal
    (void)proposed(chain, {50, 1, 2, 3, 4, 9}, 0);
    CHECK(chain.cache()->held().requests == 1);
    CHECK(chain.cache()->held().tokens == 4);
    chain.forget();
    CHECK(chain.cache()->held().tokens == 0);
    (void)proposed(chain, {50, 1, 2, 3, 4, 9, 9}, 0);
    CHECK(chain.cache()->held().tokens == 0);
  }
}

TEST_CASE("of two outputs between which nothing was proposed the longer is remembered") {
  Chain chain;
  run(chain, {50}, {1, 2, 3, 4});
  run(chain, {50}, {7});
  chain.reset();
  (void)proposed(chain, {9}, 0);
  CHECK(chain.cache()->held().tokens == 4);
}

TEST_CASE("outputs go into a file, that of this request included, and come back beside others") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = 100};
  Chain chain;
  run(chain, {50}, {1, 2, 3, 4, 5});
  std::stringstream file;
  chain.save(file, vocabulary);
  CHECK(chain.cache()->held().tokens == 5);

  Chain other;
  run(other, {50}, {7, 8, 9});
  other.load(file, vocabulary);
  other.reset();
  CHECK(proposed(other, {60, 1, 2, 3}, 8) == Tokens{4, 5});
  CHECK(proposed(other, {60, 1, 2, 3, 7, 8}, 8) == Tokens{9});

  Chain none({.max_cached_requests = 0});
  CHECK_THROWS_AS(none.save(file, vocabulary), fd::Error);
  CHECK_THROWS_AS(none.load(file, vocabulary), fd::Error);
}

TEST_CASE("a shared cache serves every sequence") {
  const auto cache = std::make_shared<fd::SuffixCache>();
  Chain one(Settings{}, cache);
  Tree other(Settings{}, cache);
  run(one, {50}, {1, 2, 3, 4, 5});
  one.reset();
  (void)proposed(one, {50}, 0);
  CHECK(proposed(other, {9, 1, 2, 3}, 8) == Tokens{4, 5});
}

TEST_CASE("sequences on threads share a cache") {
  const auto cache =
      std::make_shared<fd::SuffixCache>(fd::SuffixCache::Settings{.max_cached_tokens = 3000});
  std::vector<std::thread> threads;
  std::vector<int> drafts(4);
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Tree drafter(Settings{}, cache);
      for (int request = 0; request < 20; ++request) {
        Tokens text{1};
        drafter.reset();
        for (int i = 0; i < 60; ++i) {
          drafts[seed] += drafted(drafter, text, {4, 8}).drafted();
          commit(drafter, text, static_cast<fd::TokenId>(random() % 4));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(cache->held().requests >= 40);
  for (const int n : drafts) CHECK(n > 100);
}

TEST_CASE("suffix decoding: what was cut off is not proposed, whatever comes in its place") {
  Chain chain({.max_cached_requests = 0});
  CHECK(proposed(chain, {1, 2, 3, 4, 5, 6, 1, 2}, 2) == Tokens{3, 4});
  chain.truncate(2);
  CHECK(proposed(chain, {1, 2, 9, 9, 7, 1, 2}, 2) == Tokens{9, 9});
  chain.truncate(7);
  CHECK(proposed(chain, {1, 2, 9, 9, 7, 1, 2, 9}, 1) == Tokens{9});
  chain.restore(chain.snapshot());
  CHECK(proposed(chain, {5, 6, 5, 6}, 2) == Tokens{5, 6});
}

TEST_CASE("history and outputs stay within their bounds, for a million tokens") {
  Tree drafter({.max_cached_tokens = 500, .max_history = 300});
  std::mt19937 random(2);
  Tokens text{1};
  fd::DraftTree draft;
  for (int i = 0; i < 250000; ++i) {
    for (int n = 0; n < 4; ++n) commit(drafter, text, static_cast<fd::TokenId>(random() % 9));
    draft.reset(text.back());
    drafter.propose({text, {}, {}}, {4, 8}, draft);
    if (i % 100 == 99) {
      drafter.reset();
      text = {1};
    }
    REQUIRE(drafter.cache()->held().tokens <= 500);
  }
  CHECK(drafter.cache()->held().requests == 1);  // outputs of at most 300 tokens
}

TEST_CASE("suffix decoding: a long text is searched back to its newest half at least") {
  Chain chain({.max_cached_requests = 0, .max_history = 32});
  Tokens text;
  for (fd::TokenId i = 0; i < 100; ++i) {
    text.push_back(i);
    (void)proposed(chain, text, 1);
  }
  text.push_back(90);
  CHECK(proposed(chain, text, 1) == Tokens{91});
  text.back() = 40;
  chain.truncate(100);
  CHECK(proposed(chain, text, 1).empty());
}

TEST_CASE("settings of suffix decoding out of range are refused") {
  for (const Settings& settings :
       {Settings{.max_tree_depth = 1}, Settings{.max_tree_depth = 65},
        Settings{.max_cached_requests = -1}, Settings{.max_spec_factor = 0.0},
        Settings{.max_spec_factor = std::nan("")}, Settings{.min_token_prob = -0.1},
        Settings{.min_token_prob = 1.1}, Settings{.max_cached_tokens = 0},
        Settings{.max_history = 0}}) {
    CHECK_THROWS_AS(Chain(settings), fd::Error);
  }
}
