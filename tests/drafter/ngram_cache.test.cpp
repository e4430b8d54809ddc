#include <foredraft/drafter/ngram_cache.hpp>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

std::shared_ptr<fd::SharedNgramCounts> dynamic_level() {
  return std::make_shared<fd::SharedNgramCounts>();
}
std::shared_ptr<const fd::NgramCounts> static_level(const Tokens& corpus) {
  fd::NgramCounts counts;
  counts.learn(corpus, 0, 2, 2);
  return std::make_shared<fd::NgramCounts>(std::move(counts));
}
std::uint32_t learnt(const fd::SharedNgramCounts& shared, const Tokens& ngram, fd::TokenId token) {
  return shared.read([&](const fd::NgramCounts& counts) {
    const auto* entry = counts.find(ngram);
    return entry == nullptr ? 0 : entry->count_of(token);
  });
}

}  // namespace

TEST_CASE("the longest n-gram with enough evidence proposes, and its token is gone on from") {
  fd::NgramCache cache;
  // Behind 2 3 comes 5 twice; behind 1 2 3 only 4.
  const Tokens text{9, 2, 3, 5, 0, 8, 2, 3, 5, 0, 1, 2, 3, 4, 70, 71, 1, 2, 3};
  CHECK(proposed(cache, text, 3) == Tokens{4, 70, 71});
  CHECK(proposed(cache, text, 1) == Tokens{4});
  CHECK(proposed(cache, text, 0).empty());
}

TEST_CASE("context: one occurrence is enough for three tokens, two are for one or two") {
  const auto proposes = [](const Tokens& text) {
    fd::NgramCache cache;
    return proposed(cache, text, 1);
  };
  CHECK(proposes({1, 2, 3, 4, 1, 2, 3}) == Tokens{4});
  CHECK(proposes({0, 2, 3, 4, 1, 2, 3}).empty());
  CHECK(proposes({0, 2, 3, 4, 5, 2, 3, 4, 1, 2, 3}) == Tokens{4});
  CHECK(proposes({0, 3, 4, 5, 3, 4, 6, 3}) == Tokens{4});
  CHECK(proposes({0, 3, 4, 5, 3, 4, 7, 3, 8, 6, 3}) == Tokens{4});  // 2 of 3
  CHECK(proposes({0, 3, 4, 5, 3, 8, 6, 3}).empty());                // 1 of 2
  CHECK(proposes({0, 2, 3, 4, 5, 2, 3, 8, 6, 2, 3}) == Tokens{4});  // 1 of 2, for two tokens
}

TEST_CASE("n-grams are counted across the pieces in which the text comes") {
  Tokens text;
  for (int i = 0; i < 200; ++i) text.push_back(i % 19);
  for (const std::size_t piece : {1, 2, 3, 5, 7}) {
    CAPTURE(piece);
    fd::NgramCache cache;
    for (std::size_t size = piece; size < 40; size += piece) {
      proposed(cache, Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size)), 0);
    }
    CHECK(proposed(cache, Tokens(text.begin(), text.begin() + 40), 5) == Tokens{2, 3, 4, 5, 6});
  }
}

TEST_CASE("the dynamic level knows texts that ended, with strict thresholds") {
  const auto dynamic = dynamic_level();
  fd::NgramCache cache(dynamic);
  const Tokens text{1, 2, 3, 4, 5, 6};
  proposed(cache, text, 0);
  CHECK(learnt(*dynamic, {1, 2, 3}, 4) == 0);  // the text goes on
  cache.reset();
  CHECK(proposed(cache, {7, 1, 2, 3}, 1).empty());  // once is not enough
  CHECK(learnt(*dynamic, {1, 2, 3}, 4) == 1);
  cache.reset();
  proposed(cache, text, 0);
  cache.reset();
  CHECK(proposed(cache, {7, 1, 2, 3}, 2) == Tokens{4, 5});
  CHECK(learnt(*dynamic, {1, 2, 3}, 4) == 2);
  fd::NgramCache other(dynamic);
  CHECK(proposed(other, {8, 1, 2, 3}, 2) == Tokens{4, 5});
}

TEST_CASE("a text is learnt once, however it is cut and whoever asks") {
  const auto dynamic = dynamic_level();
  fd::NgramCache cache(dynamic);
  const Tokens text = ascending(1, 20);
  proposed(cache, text, 0);
  cache.truncate(19);  // as before each call of a decoder
  proposed(cache, text, 0);
  CHECK(learnt(*dynamic, {18, 19}, 20) == 0);
  cache.learn();
  cache.learn();
  CHECK(learnt(*dynamic, {1, 2}, 3) == 1);
  cache.truncate(10);
  cache.truncate(15);  // no less is cut by that
  proposed(cache, joined({ascending(1, 10), ascending(100, 5)}), 0);
  CHECK(learnt(*dynamic, {10, 11}, 12) == 1);
  cache.reset();
  proposed(cache, {500}, 0);
  CHECK(learnt(*dynamic, {1, 2}, 3) == 1);
  CHECK(learnt(*dynamic, {9, 10}, 100) == 1);
  CHECK(learnt(*dynamic, {9, 10}, 11) == 1);
}

TEST_CASE("a dynamic level that is only read stays as it is") {
  const auto dynamic = dynamic_level();
  fd::NgramCache cache(dynamic, nullptr, {.learns = false});
  proposed(cache, ascending(1, 20), 0);
  cache.learn();
  cache.reset();
  proposed(cache, {1}, 0);
  CHECK(learnt(*dynamic, {1, 2}, 3) == 0);
}

TEST_CASE("forgetting leaves nothing of texts before, and keeps the present one") {
  const auto dynamic = dynamic_level();
  fd::NgramCache cache(dynamic);
  for (int i = 0; i < 4; ++i) {
    cache.reset();
    proposed(cache, ascending(1, 20), 0);
  }
  cache.reset();  // the last one has not entered the level yet
  cache.forget();
  CHECK(proposed(cache, {50, 5, 6, 7}, 1).empty());
  CHECK(learnt(*dynamic, {5, 6}, 7) == 0);
  CHECK(proposed(cache, {50, 5, 6, 7, 8, 5, 6, 7}, 1) == Tokens{8});
}

TEST_CASE("the static level proposes where the others do not, and decides between their tokens") {
  const Tokens corpus{1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 4, 0, 5, 6, 7};
  fd::NgramCache cache(nullptr, static_level(corpus));
  CHECK(proposed(cache, {9, 1, 2}, 1) == Tokens{3});  // 2 of 3
  cache.reset();
  CHECK(proposed(cache, {9, 5, 6}, 1).empty());  // once
  cache.reset();
  // Behind 1 2 the text has 8 and 3 alike; the corpus has 3.
  CHECK(proposed(cache, {9, 1, 2, 8, 0, 1, 2, 3, 7, 1, 2}, 1) == Tokens{3});
  fd::NgramCache without;
  CHECK(proposed(without, {9, 1, 2, 8, 0, 1, 2, 3, 7, 1, 2}, 1) == Tokens{8});
}

TEST_CASE("the more often it was right, the surer") {
  const auto confidence = [](int right, int wrong) {
    fd::NgramCache cache;
    Tokens text;
    for (int i = 0; i < wrong; ++i) text = joined({text, {1, 2, 3, 90}});
    for (int i = 0; i < right; ++i) text = joined({text, {1, 2, 3, 4}});
    const auto draft = draft_of(cache, joined({text, {77, 1, 2, 3}}), 1);
    REQUIRE(draft.token(1) == 4);
    return draft.confidence(1);
  };
  CHECK(confidence(1, 0) == Approx(2.0 / 3));
  CHECK(confidence(5, 0) > confidence(1, 0));
  CHECK(confidence(5, 2) < confidence(5, 0));
}

TEST_CASE("what was cut off is not proposed, and another text begins anew") {
  fd::NgramCache cache;
  proposed(cache, {1, 2, 3, 4, 5}, 0);
  cache.truncate(3);
  CHECK(proposed(cache, {1, 2, 3, 9, 1, 2, 3}, 1) == Tokens{9});
  cache.restore(cache.snapshot());
  CHECK(proposed(cache, {7, 1, 2, 3}, 1).empty());
  cache.reset();
  CHECK(proposed(cache, {6, 7, 1, 2}, 1).empty());
}

TEST_CASE("n-gram cache: no token outside the target's vocabulary is proposed") {
  fd::NgramCache cache(nullptr, static_level({1, 2, 900, 1, 2, 900}));
  CHECK(proposed(cache, {5, 1, 2}, 1, 901) == Tokens{900});
  CHECK(proposed(cache, {5, 1, 2}, 1, 900).empty());
}

TEST_CASE("n-gram cache: a million tokens take no more memory than is said") {
  const auto dynamic = std::make_shared<fd::SharedNgramCounts>(fd::NgramCounts(1 << 12));
  fd::NgramCache cache(dynamic, nullptr, {.context_entries = 1 << 12});
  Tokens text = ascending(0, 1'000'000);
  proposed(cache, text, 0);
  CHECK(cache.bytes() <= (64 << 12) + 8 * text.size());
  cache.reset();
  proposed(cache, {1}, 0);
  CHECK(dynamic->read([](const fd::NgramCounts& counts) { return counts.bytes(); }) == 64 << 12);
  CHECK_THROWS_AS(fd::NgramCache(nullptr, nullptr, {.context_entries = 100}), fd::Error);
}
