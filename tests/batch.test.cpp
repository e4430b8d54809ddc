#include <foredraft/batch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Batch = fd::Batch<toy::Target, toy::TokenCache>;

Tokens prompt(int n) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * i + n) % 11);
  return tokens;
}

template <typename D, typename A>
auto decoder(toy::Target& target, D drafter, A rule, int capacity = 300) {
  return fd::Decoder{target, toy::TokenCache(capacity, 64), std::move(drafter), rule};
}

/// What is the same whoever writes beside, and when.
void check_equal(const fd::Result& a, const fd::Result& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.text == b.text);
  CHECK(a.logprobs == b.logprobs);
  CHECK(a.finish_reason == b.finish_reason);
  CHECK(a.stats.emitted == b.stats.emitted);
  CHECK(a.stats.prompt_tokens == b.stats.prompt_tokens);
}

const fd::Options kGreedy{.max_tokens = 30};

bool ready(const std::future<fd::Result>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("texts of a batch are those written alone, in fewer passes") {
  toy::Target target(11, 0, 6.0), draft(11, 2, 6.0);
  const auto model = [&] { return fd::ModelDrafter{draft, toy::TokenCache(300), {}}; };
  const auto several = [&] {
    return fd::Chain<fd::Shape::kTree, toy::TokenCache>{fd::PromptLookup({.min_match = 1}),
                                                        model()};
  };
  auto plain = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto lookup = decoder(target, fd::PromptLookup({.min_match = 1}), fd::Greedy{});
  auto drafted = decoder(target, model(), fd::RejectionSampling{});
  auto chain = decoder(target, several(), fd::SampleAndMatch{});
  const fd::Options fixed{
      .max_tokens = 40, .n_draft = 4, .sampling = {.temperature = 0.9f}, .seed = 5, .logprobs = 2};
  const fd::Options sampled{.max_tokens = 50, .sampling = {.temperature = 0.8f}, .seed = 6};

  const auto write = [&](Batch& batch) {
    std::vector<std::future<fd::Result>> results;
    results.push_back(batch.generate(plain, prompt(3), kGreedy));
    results.push_back(batch.generate(lookup, prompt(40), {.max_tokens = 60, .prefill_block = 7}));
    results.push_back(batch.generate(drafted, prompt(17), fixed));
    results.push_back(batch.generate(chain, prompt(6), sampled));
    CHECK(batch.size() == 4);
    target.passes = draft.passes = 0;
    batch.run();
    CHECK(batch.size() == 0);
    return results;
  };
  // What they drafted is part of no comparison: controllers go by clocks.
  const auto compare = [&](std::vector<std::future<fd::Result>> results, int most_passes) {
    CHECK(target.passes <= most_passes);
    check_equal(results[0].get(), plain.generate(prompt(3), kGreedy));
    check_equal(results[1].get(), lookup.generate(prompt(40), {.max_tokens = 60}));
    const fd::Result result = results[2].get();
    CHECK(result.stats.drafted > 0);
    check_equal(result, drafted.generate(prompt(17), fixed));
    check_equal(results[3].get(), chain.generate(prompt(6), sampled));
  };
  SECTION("drafters run their model") {
    Batch batch(target);
    compare(write(batch), 67);
  }
  SECTION("drafters share the passes of their model") {
    fd::Batch<toy::Target, toy::TokenCache> batch(target, draft);
    compare(write(batch), 67);
    CHECK(draft.passes > 0);
  }
  SECTION("the draft model's passes fail: drafters meet it themselves") {
    Batch batch(target, draft);
    draft.before_forward = [&] {
      if (draft.passes > 20 && draft.passes < 40) throw std::runtime_error("no pass");
    };
    auto one = decoder(target, several(), fd::SampleAndMatch{});
    auto other = decoder(target, several(), fd::Greedy{});
    fd::Options forced = sampled;
    forced.n_draft = 4;
    auto first = batch.generate(one, prompt(6), forced);
    auto second = batch.generate(other, prompt(9), {.max_tokens = 50, .n_draft = 4});
    batch.run();
    CHECK(draft.passes > 40);
    draft.before_forward = nullptr;
    check_equal(first.get(), chain.generate(prompt(6), sampled));
    check_equal(second.get(), plain.generate(prompt(9), {.max_tokens = 50}));
  }
}

TEST_CASE("a pass of the draft model serves the drafts of all texts") {
  toy::Target target(11, 0, 6.0), draft(11, 2, 6.0);
  const auto passes_of = [&](Batch batch, int texts) {
    using Drafted = fd::Decoder<toy::Target, toy::TokenCache,
                                fd::ModelDrafter<toy::Target, toy::TokenCache>, fd::Greedy>;
    std::deque<Drafted> decoders;
    std::vector<std::future<fd::Result>> results;
    for (int i = 0; i < texts; ++i) {
      decoders.emplace_back(target, toy::TokenCache(300),
                            fd::ModelDrafter{draft, toy::TokenCache(300), {}}, fd::Greedy{});
      results.push_back(
          batch.generate(decoders.back(), prompt(9), {.max_tokens = 40, .n_draft = 4}));
    }
    draft.passes = 0;
    batch.run();
    for (auto& result : results) CHECK(result.get().stats.accepted > 0);
    return draft.passes;
  };
  const int alone = passes_of(Batch(target, draft), 1);
  CHECK(passes_of(Batch(target, draft), 3) == alone);
  CHECK(passes_of(Batch(target), 3) == 3 * alone);
}

TEST_CASE("texts come and go") {
  toy::Target target(11, 0, 6.0);
  std::deque<decltype(decoder(target, fd::NoDraft{}, fd::Greedy{}))> decoders;
  for (int i = 0; i < 6; ++i) decoders.push_back(decoder(target, fd::NoDraft{}, fd::Greedy{}));
  Batch batch(target);
  CHECK(!batch.step());  // nothing to do
  std::vector<std::future<fd::Result>> results;
  for (int i = 0; i < 6; ++i) {
    results.push_back(
        batch.generate(decoders[fd::idx(i)], prompt(i + 1), {.max_tokens = 5 + 3 * i}));
    batch.step();
    batch.step();
  }
  CHECK(ready(results[0]));
  CHECK(!ready(results[5]));
  batch.run();
  for (int i = 0; i < 6; ++i) {
    check_equal(results[fd::idx(i)].get(), decoder(target, fd::NoDraft{}, fd::Greedy{})
                                               .generate(prompt(i + 1), {.max_tokens = 5 + 3 * i}));
  }
  // A decoder goes on with what it has: its next prompt reuses the text, and resume() continues it.
  const Tokens text(decoders[0].tokens().begin(), decoders[0].tokens().end());
  auto again = batch.generate(decoders[0], text, kGreedy);
  auto more = batch.resume(decoders[1], kGreedy);
  batch.run();
  CHECK(again.get().stats.reused_tokens == static_cast<std::int64_t>(text.size()) - 1);
  auto alone = decoder(target, fd::NoDraft{}, fd::Greedy{});
  alone.generate(prompt(2), {.max_tokens = 8});
  check_equal(more.get(), alone.resume(kGreedy));
}

TEST_CASE("prompts are read in turns of 512 rows at most") {
  toy::Target target(11, 0, 6.0);
  std::deque<decltype(decoder(target, fd::NoDraft{}, fd::Greedy{}))> decoders;
  const auto add = [&](Batch& batch, int n, fd::Options options) {
    decoders.push_back(
        fd::Decoder{target, toy::TokenCache(1000, 800), fd::NoDraft{}, fd::Greedy{}});
    return batch.generate(decoders.back(), prompt(n), options);
  };
  Batch batch(target);
  auto one = add(batch, 201, {.max_tokens = 1});
  auto two = add(batch, 301, {.max_tokens = 1});
  auto three = add(batch, 101, {.max_tokens = 1});
  batch.step();  // 200 + 300: the third one waits
  CHECK(target.passes == 1);
  batch.step();  // a round of both, 100 rows of the third one
  batch.step();
  CHECK(ready(one));
  CHECK(ready(two));
  CHECK(!ready(three));
  batch.step();
  CHECK(ready(three));
  // A single block may have more.
  auto four = add(batch, 701, {.max_tokens = 1, .prefill_block = 700});
  batch.step();
  batch.step();
  batch.step();
  CHECK(ready(four));
}

TEST_CASE("what fails in a text ends that text") {
  toy::Target target(11, 0, 6.0);
  auto good = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto bad_emit = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto bad_draft = decoder(target, ChainFunction{}, fd::Greedy{});
  int rounds = 0;
  bad_draft.drafter().function = [&](const fd::Context&, fd::Limit, fd::DraftTree&) {
    if (++rounds == 4) throw std::runtime_error("draft");
  };
  int emitted = 0;
  Batch batch(target);
  auto a = batch.generate(good, prompt(3), kGreedy);
  auto b = batch.generate(bad_emit, prompt(4), kGreedy, [&](const fd::Emitted&) {
    if (++emitted == 3) throw std::runtime_error("emit");
  });
  auto c = batch.generate(bad_draft, prompt(5), {.max_tokens = 30, .n_draft = 3});
  batch.run();
  auto alone = decoder(target, fd::NoDraft{}, fd::Greedy{});
  check_equal(a.get(), alone.generate(prompt(3), kGreedy));
  CHECK_THROWS_WITH(b.get(), "emit");
  CHECK_THROWS_WITH(c.get(), "draft");
  // Both go on where they stopped.
  const auto whole = [&](int n) {
    alone.generate(prompt(n), kGreedy);
    return Tokens(alone.tokens().begin(), alone.tokens().end());
  };
  for (auto [tokens, n] : {std::pair{bad_emit.tokens(), 4}, std::pair{bad_draft.tokens(), 5}}) {
    const Tokens expected = whole(n);
    CHECK(tokens.size() > fd::idx(n));
    CHECK(tokens.size() < expected.size());
    CHECK(std::equal(tokens.begin(), tokens.end(), expected.begin()));
  }
  bad_emit.resume({.max_tokens = 3});
  const Tokens expected = whole(4);
  CHECK(std::equal(bad_emit.tokens().begin(), bad_emit.tokens().end(), expected.begin()));
}

TEST_CASE("a pass of the target that fails leaves all texts as they were") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder(target, fd::PromptLookup({.min_match = 1}), fd::Greedy{});
  Batch batch(target);
  auto a = batch.generate(one, prompt(30), kGreedy);
  auto b = batch.generate(other, prompt(25), kGreedy);
  int passes = 0;
  target.before_forward = [&] {
    if (++passes % 3 == 0) throw std::runtime_error("pass");
  };
  int failed = 0;
  for (bool going = true; going;) {
    try {
      going = batch.step();
    } catch (const std::runtime_error&) {
      ++failed;
      CHECK(one.cache().staged() == 0);
      CHECK(other.cache().staged() == 0);
    }
  }
  CHECK(failed > 5);
  target.before_forward = nullptr;
  check_equal(a.get(), decoder(target, fd::NoDraft{}, fd::Greedy{}).generate(prompt(30), kGreedy));
  check_equal(b.get(), decoder(target, fd::NoDraft{}, fd::Greedy{}).generate(prompt(25), kGreedy));
}

TEST_CASE("a cancel during a pass drops the round, as without a batch") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto alone = decoder(target, fd::NoDraft{}, fd::Greedy{});
  int passes = 0;
  target.before_forward = [&] { ++passes; };
  fd::Options options = kGreedy;
  options.cancelled = [&] { return passes >= 9; };
  Batch batch(target);
  auto result = batch.generate(one, prompt(5), options);
  batch.run();
  passes = 0;
  check_equal(result.get(), alone.generate(prompt(5), options));
  CHECK(one.tokens().size() == alone.tokens().size());
}

TEST_CASE("texts that end in a step whose pass fails have ended") {
  toy::Target target(11, 0, 6.0);
  target.end_token = 7;
  const auto no_draft = [&] { return decoder(target, fd::NoDraft{}, fd::Greedy{}); };
  // What text 0 alone takes part in, so that the pass behind its end fails.
  const auto run = [&](const fd::Options& options, Batch::Emit emit) {
    auto first = no_draft(), other = no_draft();
    Batch batch(target);
    auto a = batch.generate(first, prompt(4), options, emit);
    auto b = batch.generate(other, prompt(9), {.max_tokens = 60, .ignore_end = true});
    bool failed = false;
    target.before_forward = [&] {
      if (!ready(a) || failed) return;
      failed = true;
      throw std::runtime_error("pass");
    };
    CHECK_THROWS_WITH(batch.run(), "pass");
    CHECK(failed);
    CHECK(batch.size() == 1);
    batch.run();
    target.before_forward = nullptr;
    CHECK(b.get().tokens.size() == 60);
    return a;
  };
  const auto alone = no_draft().generate(prompt(4), {.max_tokens = 200});
  CHECK(alone.finish_reason == fd::FinishReason::kEnd);
  REQUIRE(alone.tokens.size() > 2);
  REQUIRE(alone.tokens.size() < 50);
  check_equal(run({.max_tokens = 200}, {}).get(), alone);
  check_equal(run({.max_tokens = 2}, {}).get(), no_draft().generate(prompt(4), {.max_tokens = 2}));
  int emitted = 0, asked = 0;
  CHECK_THROWS_WITH(run({.max_tokens = 20},
                        [&](const fd::Emitted&) {
                          if (++emitted == 2) throw std::runtime_error("emit");
                        })
                        .get(),
                    "emit");
  CHECK(emitted == 2);
  fd::Options options{.max_tokens = 20};
  options.cancelled = [&] { return ++asked == 4; };
  CHECK(run(options, {}).get().finish_reason == fd::FinishReason::kCancelled);
}

TEST_CASE("no token is asked for: the prompt is read") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{});
  Batch batch(target);
  auto result = batch.generate(one, prompt(20), {.max_tokens = 0, .prefill_block = 6});
  batch.run();
  CHECK(result.get().finish_reason == fd::FinishReason::kLength);
  CHECK(one.cache().size() == 19);
}

TEST_CASE("what an earlier call left is delivered first, and an end is said once") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::PromptLookup({.min_match = 1}), fd::Greedy{});
  auto alone = decoder(target, fd::PromptLookup({.min_match = 1}), fd::Greedy{});
  int emitted = 0;
  const auto fails = [&](const fd::Emitted&) {
    if (++emitted == 3) throw std::runtime_error("emit");
  };
  CHECK_THROWS(one.generate(prompt(20), kGreedy, fails));
  emitted = 0;
  CHECK_THROWS(alone.generate(prompt(20), kGreedy, fails));
  Batch batch(target);
  auto rest = batch.resume(one, kGreedy);
  batch.run();
  check_equal(rest.get(), alone.resume(kGreedy));
  // An observer throws behind the commit: its round stays.
  int rounds = 0;
  fd::Options observed = kGreedy;
  observed.observer = [&](const fd::RoundEvent&) {
    if (++rounds == 3) throw std::runtime_error("observer");
  };
  auto broken = batch.resume(one, observed);
  batch.run();
  CHECK_THROWS_WITH(broken.get(), "observer");
  const Tokens tokens(one.tokens().begin(), one.tokens().end());
  alone.resume(kGreedy);
  CHECK(std::equal(tokens.begin(), tokens.end(), alone.tokens().begin()));
  CHECK(tokens.size() > 53);
}

TEST_CASE("a drafter that cannot do without its model fails alone") {
  toy::Target target(11, 0, 6.0), draft(11, 2, 6.0);
  auto drafted = fd::Decoder{target, toy::TokenCache(300),
                             fd::ModelDrafter{draft, toy::TokenCache(300), {}}, fd::Greedy{}};
  auto plain = decoder(target, fd::NoDraft{}, fd::Greedy{});
  draft.before_forward = [&] {
    if (draft.passes == 10 || draft.passes == 11) throw std::runtime_error("no pass");
  };
  Batch batch(target, draft);
  const fd::Options options{.max_tokens = 40, .n_draft = 3};
  auto a = batch.generate(drafted, prompt(5), options);
  auto b = batch.generate(plain, prompt(6), kGreedy);
  batch.run();
  CHECK_THROWS_WITH(a.get(), "no pass");
  CHECK(b.get().tokens.size() == 30);
  const auto made = static_cast<int>(drafted.tokens().size()) - 5;
  CHECK(made > 0);
  drafted.resume({.max_tokens = 40 - made, .n_draft = 3});
  plain.generate(prompt(5), {.max_tokens = 40});
  CHECK(Tokens(drafted.tokens().begin(), drafted.tokens().end()) ==
        Tokens(plain.tokens().begin(), plain.tokens().end()));
}

TEST_CASE("emit may add texts") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder(target, fd::NoDraft{}, fd::Greedy{});
  Batch batch(target);
  std::future<fd::Result> second, third;
  auto first = batch.generate(one, prompt(5), {.max_tokens = 5});
  second = batch.generate(other, prompt(6), kGreedy, [&](const fd::Emitted&) {
    if (ready(first) && !third.valid()) third = batch.generate(one, prompt(7), {.max_tokens = 9});
  });
  batch.run();
  CHECK(second.get().tokens.size() == 30);
  check_equal(third.get(),
              decoder(target, fd::NoDraft{}, fd::Greedy{}).generate(prompt(7), {.max_tokens = 9}));
}

TEST_CASE("cancelled before a turn, and behind a pass") {
  toy::Target target(11, 0, 6.0);
  auto stopped = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder(target, fd::NoDraft{}, fd::Greedy{});
  for (const int calls : {1, 2, 3, 4, 9, 10}) {
    CAPTURE(calls);
    int asked = 0;
    fd::Options options = kGreedy;
    options.cancelled = [&] { return ++asked == calls; };  // said once
    Batch batch(target);
    auto a = batch.generate(stopped, prompt(20), options);
    auto b = batch.generate(other, prompt(5), kGreedy);
    batch.run();
    const fd::Result result = a.get();
    CHECK(result.finish_reason == fd::FinishReason::kCancelled);
    CHECK(asked == calls);
    CHECK(b.get().tokens.size() == 30);
    CHECK(stopped.cache().staged() == 0);
    stopped.resume({.max_tokens = 30 - static_cast<int>(result.tokens.size())});
    auto alone = decoder(target, fd::NoDraft{}, fd::Greedy{});
    alone.generate(prompt(20), kGreedy);
    CHECK(Tokens(stopped.tokens().begin(), stopped.tokens().end()) ==
          Tokens(alone.tokens().begin(), alone.tokens().end()));
  }
}

TEST_CASE("what a batch refuses, and one that ends early") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{}, 20);
  std::future<fd::Result> result;
  {
    Batch batch(target);
    CHECK_THROWS_AS(batch.resume(one), fd::Error);
    CHECK_THROWS_AS(batch.generate(one, {}), fd::Error);
    CHECK_THROWS_AS(batch.generate(one, prompt(20)), fd::Error);
    CHECK_THROWS_AS(batch.generate(one, prompt(4), {.max_tokens = 5, .n_draft = -5}), fd::Error);
    CHECK(batch.size() == 0);
    result = batch.generate(one, prompt(4), {.max_tokens = 10});
    CHECK_THROWS_AS(batch.generate(one, prompt(4)), fd::Error);
    CHECK_THROWS_AS(batch.resume(one), fd::Error);
    CHECK(batch.size() == 1);
    for (int i = 0; i < 5; ++i) batch.step();
  }
  CHECK_THROWS_AS(result.get(), std::future_error);
  one.resume({.max_tokens = 3});
  auto alone = decoder(target, fd::NoDraft{}, fd::Greedy{});
  alone.generate(prompt(4), {.max_tokens = 16});
  CHECK(std::equal(one.tokens().begin(), one.tokens().end(), alone.tokens().begin()));
}

TEST_CASE("a text is told what its part of the passes took") {
  toy::Target target(11, 0, 6.0);
  auto one = decoder(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder(target, fd::NoDraft{}, fd::Greedy{});
  Batch batch(target);
  auto a = batch.generate(one, prompt(3), kGreedy);
  auto b = batch.generate(other, prompt(3), kGreedy);
  batch.run();
  const fd::Stats first = a.get().stats, second = b.get().stats;
  CHECK(first.seconds.verify > 0);
  CHECK(first.seconds.prefill > 0);
  for (const fd::Seconds& s : {first.seconds, second.seconds})
    CHECK(s.draft + s.verify + s.accept + s.commit < s.total);
  CHECK(first.rounds == 30);
}
