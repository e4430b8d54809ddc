#include <foredraft/drafter/suffix_cache.hpp>

#include <atomic>
#include <deque>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Settings = fd::SuffixCache::Settings;

int count_of(const fd::SuffixCache& cache, const Tokens& string) {
  int count = 0;
  CHECK(cache.read([&](const fd::SuffixTree& tree, std::uint64_t) {
    fd::SuffixTree::Locus at;
    for (const fd::TokenId token : string) {
      if (!tree.follow(at, token)) return;
    }
    count = tree.count(at);
  }));
  return count;
}

Tokens random_text(std::mt19937& random, std::size_t n, unsigned n_vocab) {
  Tokens text(n);
  for (auto& token : text) token = static_cast<fd::TokenId>(random() % n_vocab);
  return text;
}

}  // namespace

TEST_CASE("outputs are counted together, and a string never spans two of them") {
  fd::SuffixCache cache;
  cache.insert(Tokens{1, 2, 3});
  cache.insert(Tokens{1, 2, 4});
  cache.insert({});
  CHECK(cache.held().requests == 2);
  CHECK(cache.held().tokens == 6);
  CHECK(count_of(cache, {1, 2}) == 2);
  CHECK(count_of(cache, {1, 2, 4}) == 1);
  CHECK(count_of(cache, {3, 1}) == 0);
  cache.forget();
  CHECK(cache.held().tokens == 0);
  CHECK(count_of(cache, {1, 2}) == 0);
}

TEST_CASE("the oldest outputs leave as a whole") {
  fd::SuffixCache few(Settings{.max_cached_requests = 2});
  fd::SuffixCache small(Settings{.max_cached_tokens = 7});
  for (fd::SuffixCache* cache : {&few, &small}) {
    cache->insert(Tokens{1, 2, 3});
    cache->insert(Tokens{1, 2, 4});
    cache->insert(Tokens{5, 2, 4});
    CHECK(cache->held().requests == 2);
    CHECK(cache->held().tokens == 6);
    CHECK(count_of(*cache, {3}) == 0);
    CHECK(count_of(*cache, {1, 2}) == 1);
    CHECK(count_of(*cache, {2, 4}) == 2);
  }
  small.insert(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});  // its end is kept
  CHECK(small.held().requests == 1);
  CHECK(count_of(small, {2, 3}) == 0);
  CHECK(count_of(small, {3, 4, 5, 6, 7, 8, 9}) == 1);
}

TEST_CASE("memory stays within its bound, for millions of tokens") {
  constexpr int kTokens = 1 << 13;
  for (const unsigned n_vocab : {2u, 50u, 100000u}) {
    CAPTURE(n_vocab);
    fd::SuffixCache cache(Settings{.max_cached_tokens = kTokens});
    std::mt19937 random(n_vocab);
    const Tokens common = random_text(random, 400, n_vocab);
    std::size_t most = 0;
    int most_nodes = 0;
    for (int tokens = 0; tokens < 1 << 20;) {
      Tokens text = random_text(random, 1 + random() % 300, n_vocab);
      text.insert(text.end(), common.begin(), common.begin() + static_cast<int>(random() % 400));
      cache.insert(text);
      tokens += static_cast<int>(text.size());
      const auto held = cache.held();
      REQUIRE(held.tokens <= kTokens);
      REQUIRE(held.nodes <= 2 * held.tokens + 1);
      most = std::max(most, held.bytes);
      most_nodes = std::max(most_nodes, held.nodes);
    }
    CHECK(most <= std::size_t{280} * kTokens);
    CHECK(most_nodes > kTokens / 30);
  }
}

TEST_CASE("matches of a text's end are those of a search from the root") {
  std::mt19937 random(8);
  for (const int depth : {2, 7, 24}) {
    fd::SuffixCache cache(Settings{.max_tree_depth = depth, .max_cached_tokens = 600});
    fd::SuffixMatches matches;
    Tokens text;
    int wrong = 0;
    int found = 0;
    for (int round = 0; round < 400; ++round) {
      if (random() % 5 == 0) cache.insert(random_text(random, 1 + random() % 100, 3));
      const Tokens more = random_text(random, random() % 8 == 0 ? 50 : 1 + random() % 3, 3);
      text.insert(text.end(), more.begin(), more.end());
      if (random() % 20 == 0) {
        text.resize(random() % text.size());
        matches.clear();
      }
      cache.read([&](const fd::SuffixTree& tree, std::uint64_t version) {
        matches.follow(tree, version, text);
        std::vector<fd::SuffixTree::Locus> expected;
        for (int n = 1; n < depth && n <= static_cast<int>(text.size()); ++n) {
          fd::SuffixTree::Locus at;
          bool there = true;
          for (auto token = text.end() - n; there && token != text.end(); ++token) {
            there = tree.follow(at, *token);
          }
          if (!there) break;
          expected.push_back(at);
        }
        wrong += !std::equal(expected.begin(), expected.end(), matches.matches().begin(),
                             matches.matches().end());
        found += static_cast<int>(expected.size());
      });
    }
    CHECK(wrong == 0);
    CHECK(found > 300);
  }
}

TEST_CASE("threads read while others insert") {
  fd::SuffixCache cache(Settings{.max_cached_tokens = 2000});
  std::atomic<bool> wrong = false;
  std::atomic<int> reads = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    fd::SuffixMatches matches;
    Tokens text{1};
    for (int i = 0; i < 300; ++i) {
      if (i % 10 == 0) cache.insert(random_text(random, 1 + random() % 200, 5));
      if (i % 97 == 0) cache.forget();
      text.push_back(static_cast<fd::TokenId>(random() % 5));
      reads += cache.read([&](const fd::SuffixTree& tree, std::uint64_t version) {
        matches.follow(tree, version, text);
        for (const auto& at : matches.matches()) {
          int sum = 0;
          tree.continuations(at, [&](fd::TokenId, fd::SuffixTree::Locus, int count) {
            sum += count;
            return true;
          });
          if (sum > tree.count(at)) wrong = true;
        }
      });
      if (cache.held().tokens > 2000) wrong = true;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  CHECK(!wrong);
  CHECK(reads > 0);
}

TEST_CASE("a cache that was saved and loaded counts the same") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = 6};
  std::mt19937 random(2);
  fd::SuffixCache cache;
  for (int i = 0; i < 20; ++i) cache.insert(random_text(random, 1 + random() % 40, 6));
  std::stringstream file;
  cache.save(file, vocabulary);
  fd::SuffixCache again;
  again.load(file, vocabulary);
  CHECK(again.held().requests == cache.held().requests);
  CHECK(again.held().nodes == cache.held().nodes);
  for (fd::TokenId a = 0; a < 6; ++a) {
    for (fd::TokenId b = 0; b < 6; ++b) CHECK(count_of(again, {a, b}) == count_of(cache, {a, b}));
  }
  fd::SuffixCache small(Settings{.max_cached_requests = 3});
  file.clear();
  file.seekg(0);
  small.load(file, vocabulary);
  CHECK(small.held().requests == 3);
}

TEST_CASE("a damaged or hostile file adds nothing") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = 6};
  fd::SuffixCache cache;
  cache.insert(Tokens{1, 2, 3});
  std::stringstream good;
  cache.save(good, vocabulary);
  const std::string bytes = good.str();
  const auto refused = [&](const std::string& file) {
    std::istringstream in(file);
    fd::SuffixCache into;
    CHECK_THROWS_AS(into.load(in, vocabulary), fd::Error);
    CHECK(into.held().tokens == 0);
  };
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    refused(bytes.substr(0, n));
    std::string changed = bytes;
    changed[n] = static_cast<char>(changed[n] ^ 4);
    refused(changed);
  }
  // Intact frames around payloads that nobody writes.
  const auto framed = [&](const std::vector<std::uint64_t>& counts, const Tokens& tokens) {
    fd::PayloadWriter payload;
    for (const std::uint64_t count : counts) payload.put(count);
    for (const fd::TokenId token : tokens) payload.put(token);
    std::ostringstream out;
    fd::write_table(out, {fd::TableKind::kSuffixTree, vocabulary, payload.bytes()});
    return out.str();
  };
  refused(framed({}, {}));
  refused(framed({1}, {}));
  refused(framed({~std::uint64_t{0}}, {1}));
  refused(framed({1, ~std::uint64_t{0} / 4}, {1, 2}));
  refused(framed({1, 3}, {1, 2}));
  refused(framed({1, 2}, {1, 6}));
  refused(framed({1, 2}, {1, -1}));
  refused(framed({1, 1}, {1, 2}));
  std::istringstream in(framed({1, 2}, {1, 2}));
  cache.load(in, vocabulary);
  CHECK(cache.held().tokens == 5);
}

TEST_CASE("settings of a cache out of range are refused") {
  for (const Settings& settings :
       {Settings{.max_tree_depth = 1}, Settings{.max_tree_depth = 65},
        Settings{.max_cached_requests = 0}, Settings{.max_cached_tokens = 0}}) {
    CHECK_THROWS_AS(fd::SuffixCache(settings), fd::Error);
  }
}
