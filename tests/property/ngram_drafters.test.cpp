// The drafters that look up n-grams: whatever they learnt and share, text is the plain text, and
// commits allocate nothing.

#include <foredraft/foredraft.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "property/controlled_texts.hpp"
#include "property/law_setup.hpp"
#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"
#include "support/proposed.hpp"
#include "support/toy_target.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace fd = foredraft;

namespace {

struct Named {
  const char* name;
  std::function<fd::AnyDrafter<>()> make;
};

/// Drafters of one name share what they learn.
std::vector<Named> drafters() {
  const auto table = std::make_shared<fd::NgramModTable>(2, 1 << 8);  // small: it is often emptied
  const auto dynamic = std::make_shared<fd::SharedNgramCounts>(fd::NgramCounts(256));
  fd::NgramCounts pairs;
  pairs.learn(Tokens{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, 0, 2, 2);
  const auto fixed = std::make_shared<const fd::NgramCounts>(pairs);
  return {
      {"simple", [] { return fd::NgramSimple({.size_n = 2, .size_m = 20}); }},
      {"map-k", [] { return fd::NgramMapK({.size_n = 2, .size_m = 20}); }},
      {"map-k4v", [] { return fd::NgramMapK4V({.size_n = 2, .size_m = 20}); }},
      {"mod", [=] { return fd::NgramMod(table); }},
      {"cache", [=] { return fd::NgramCache(dynamic, fixed); }},
      {"lookup", [] { return fd::PromptLookup(); }},
  };
}

/// Commits of its drafter, and what they allocate.
struct Watched : fd::AnyDrafter<> {
  struct Log {
    int commits = 0;
    std::int64_t allocations = 0;
  };
  explicit Watched(fd::AnyDrafter<> drafter) : AnyDrafter(std::move(drafter)) {}
  void commit(const fd::Round& round) noexcept {
    const std::int64_t before = memory::allocations;
    AnyDrafter::commit(round);
    log->allocations += memory::allocations - before;
    ++log->commits;
  }
  std::shared_ptr<Log> log = std::make_shared<Log>();
};

template <typename A>
auto decoder_of(toy::Target& target, fd::AnyDrafter<> drafter, A rule) {
  Watched watched(std::move(drafter));
  return fd::Decoder{target, toy::TokenCache(400, 64), std::move(watched), rule};
}

}  // namespace

TEST_CASE("greedy and matched text is the plain text, whatever was learnt before") {
  for (const Named& named : drafters()) {
    for (const int order : {1, 2}) {
      CAPTURE(named.name, order);
      toy::Target target(12, order, 3.0);
      auto greedy = decoder_of(target, named.make(), fd::Greedy{});
      auto match = decoder_of(target, named.make(), fd::SampleAndMatch{});
      auto plain = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
      auto sampled = decoder_of(target, fd::NoDraft{}, fd::SampleAndMatch{});
      Drafted drafted;
      auto snapshot = greedy.snapshot();
      for (int request = 0; request < 14; ++request) {
        const Tokens prompt{request % 5, 3, request % 12, 1, 4};
        fd::Options options{.max_tokens = 120, .n_draft = 1 + request, .prefill_block = 2};
        auto result = greedy.generate(prompt, options);
        CHECK(result.tokens == plain.generate(prompt, options).tokens);
        drafted.add(result);
        if (request == 5) snapshot = greedy.snapshot();
        if (request == 9) {
          greedy.restore(snapshot);
          const auto rest = greedy.resume(options).tokens;
          const Tokens same{5 % 5, 3, 5, 1, 4};
          fd::Options both = options;
          both.max_tokens = 240;
          const auto all = plain.generate(same, both).tokens;
          CHECK(rest == Tokens(all.begin() + 120, all.end()));
        }
        options.sampling.temperature = 0.7f;
        options.seed = static_cast<std::uint64_t>(request / 2);
        result = match.generate(prompt, options);
        CHECK(result.tokens == sampled.generate(prompt, options).tokens);
        drafted.add(result);
      }
      CHECK(drafted.both());
      CHECK(greedy.drafter().log->commits > 0);
      CHECK(greedy.drafter().log->allocations + match.drafter().log->allocations == 0);
    }
  }
}

TEST_CASE("so it is where a controller decides how much is drafted") {
  for (const Named& named : drafters())
    check_controlled_texts<fd::Shape::kChain>(named.name, named.make);
}

TEST_CASE(
    "sampled text has the target's law, at a fixed depth and with a controller that decides at "
    "random") {
  toy::Target target(2, 0, 1.0, 9);
  const auto sampling = law::law_transforms()[2];
  constexpr int kTokens = 7;
  const auto expected = setup::expected(target, setup::kPeriodic, sampling, kTokens);
  const std::size_t n = drafters().size();
  for (std::size_t i = 0; i < n; ++i) {
    for (const bool controlled : {false, true}) {
      CAPTURE(drafters()[i].name, controlled);
      fd::Options options{.max_tokens = kTokens, .sampling = sampling};
      if (!controlled) options.n_draft = 3;
      std::set<int> sizes;
      options.observer = [&](const fd::RoundEvent& round) { sizes.insert(round.draft.drafted()); };
      const auto found = law::law_of([&](fd::Rng& rng) {
        given::reading = 0;
        given::Chain<fd::Shape::kChain> chain;
        chain.add("only", drafters()[i].make());  // with tables of its own: each path learns anew
        fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(chain),
                            fd::RejectionSampling{}};
        decoder.use_rng(&rng);
        decoder.generate(setup::kPeriodic, options);
        return Tokens(decoder.tokens().begin(), decoder.tokens().end());
      });
      CHECK(sizes.size() > 1);  // it drafts, and not always as much
      CHECK(law::total_variation(found, expected) <= setup::kExact);
    }
  }
}

TEST_CASE("a decoder chooses among all of them and none of them") {
  toy::Target target(12, 1, 3.0);
  const auto all = drafters();
  fd::Decoder decoder{target, toy::TokenCache(400, 64),
                      fd::Chain<>{all[0].make(), all[1].make(), all[2].make(), all[3].make(),
                                  all[4].make(), all[5].make()},
                      fd::Greedy{}};
  auto plain = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  Drafted drafted;
  for (int request = 0; request < 8; ++request) {
    const Tokens prompt{request, 3, 1};
    const auto result = decoder.generate(prompt, {.max_tokens = 200, .n_draft = 8});
    CHECK(result.tokens == plain.generate(prompt, {.max_tokens = 200, .n_draft = 0}).tokens);
    drafted.add(result);
  }
  CHECK(drafted.accepted > 0);
}

namespace {

/// In use on the heap; 0 where that is not known. @units bytes
std::size_t heap_in_use() {
#ifdef __GLIBC__
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
#else
  return 0;
#endif
}

constexpr int kVocab = 2000;

/// A request's text: phrases that come back, noise, and one token again and again.
Tokens text_of(unsigned request, std::size_t size) {
  std::mt19937 engine(request);
  const auto random = [&] { return static_cast<unsigned>(engine()); };
  Tokens text;
  while (text.size() < size) {
    const unsigned kind = random() % 4;
    const unsigned phrase = random() % 40;
    for (unsigned i = 0; i < 12; ++i) {
      const unsigned token = kind == 0 ? random() : kind == 1 ? 7 : 13 * phrase + i * i;
      text.push_back(static_cast<fd::TokenId>(token % kVocab));
    }
  }
  return text;
}

/// A round in which `next` becomes final, whatever of it was drafted. Its rows answer anything.
template <typename D>
void commit_with_rows(D& drafter, fd::DraftTree& draft, Tokens& tokens, const Tokens& next,
                      std::mt19937& random, fd::Scores& scores) {
  std::vector<fd::NodeIndex> path{0};
  for (std::size_t i = 0; i + 1 < next.size(); ++i) {
    const fd::NodeIndex drafted = draft.child_with(path.back(), next[i]);
    path.push_back(drafted >= 0 ? drafted : draft.add(path.back(), next[i]));
  }
  scores.reset({fd::RowNeed::kTop, {}}, draft.size(), kVocab, 0, true);
  for (fd::NodeIndex node = 0; node < draft.size(); ++node) {
    auto answer = static_cast<fd::TokenId>(random() % kVocab);
    scores.argmax()[fd::idx(node)] = answer;
    for (fd::TokenId& token : scores.top(node)) token = answer++ % kVocab;
  }
  const auto anchor = static_cast<fd::Position>(tokens.size()) - 1;
  drafter.commit({draft, path, next, scores, anchor});
  tokens.insert(tokens.end(), next.begin(), next.end());
}

/// Requests one after the other, as a server has them. @return bytes in use when each was over
template <typename D>
std::vector<std::size_t> serve(D& drafter, int requests, std::size_t size) {
  std::vector<std::size_t> in_use;
  in_use.reserve(fd::idx(requests));
  fd::DraftTree draft;
  fd::Scores scores;
  std::mt19937 random(1);
  drafter.attach({.n_vocab = kVocab});
  for (int request = 0; request < requests; ++request) {
    const Tokens text = text_of(static_cast<unsigned>(request), size);
    drafter.reset();
    Tokens tokens(text.begin(), text.begin() + 20);
    tokens.reserve(text.size() + 8);
    drafter.absorb({0, tokens});
    while (tokens.size() + 8 <= text.size()) {
      draft.reset(tokens.back());
      drafter.propose({tokens, {}, {}}, {8, 40}, draft);
      const auto next = text.begin() + static_cast<std::ptrdiff_t>(tokens.size());
      const int accepted = random() % 2 == 0 ? 1 : 8;
      commit_with_rows(drafter, draft, tokens, Tokens(next, next + accepted), random, scores);
    }
    in_use.push_back(heap_in_use());
  }
  return in_use;
}

/// What the second half of the requests takes more than the first half did.
void check_hours(int requests, std::size_t size) {
  const auto table = std::make_shared<fd::NgramModTable>(16, 1 << 12);
  const auto dynamic = std::make_shared<fd::SharedNgramCounts>(fd::NgramCounts(1 << 12));
  const auto outputs =
      std::make_shared<fd::SuffixCache>(fd::SuffixCache::Settings{.max_cached_tokens = 1 << 12});
  const std::vector<Named> all{
      {"simple", [] { return fd::NgramSimple(); }},
      {"map-k", [] { return fd::NgramMapK(); }},
      {"map-k4v", [] { return fd::NgramMapK4V(); }},
      {"mod", [=] { return fd::NgramMod(table); }},
      {"cache", [=] { return fd::NgramCache(dynamic, nullptr); }},
      {"lookup", [] { return fd::PromptLookup(); }},
      {"suffix", [=] { return fd::SuffixDecoding<>(fd::SuffixSettings{}, outputs); }},
      {"suffix automaton", [] { return fd::SuffixAutomaton(); }},
  };
  const auto check = [&](const char* name, auto&& drafter) {
    CAPTURE(name);
    const auto in_use = serve(drafter, requests, size);
    const auto half = in_use.begin() + requests / 2;
    const std::size_t before = *std::max_element(in_use.begin(), half);
    CHECK(*std::max_element(half, in_use.end()) < before + (std::size_t{16} << 10));
  };
  for (const Named& named : all) check(named.name, named.make());
  check("chain", fd::Chain{fd::PromptLookup(), fd::NgramCache(dynamic, nullptr),
                           fd::SuffixDecoding<>(fd::SuffixSettings{}, outputs),
                           fd::SuffixAutomaton(), fd::TokenRecycling<fd::Shape::kTree>()});
  // What they may remember they do.
  fd::TokenRecycling<fd::Shape::kTree> recycling;
  check("recycling", recycling);
  CHECK(recycling.matrix().size() > kVocab * 9 / 10);
  fd::Lookahead lookahead({.max_keys = 256});
  check("lookahead", lookahead);
  CHECK(lookahead.pool().size() > 256);
}

}  // namespace

TEST_CASE("a million tokens take no more memory than is said") {
  const Tokens text = text_of(1, 1'000'000);
  const auto taken_by = [&](auto drafter) {
    const std::size_t before = heap_in_use();
    std::size_t most = before;
    fd::DraftTree draft;
    for (std::size_t n = 1000; n <= text.size(); n += 1000) {
      draft.reset(text[n - 1]);
      drafter.propose({std::span(text).first(n), {}, {}}, {8, 8}, draft);
      most = std::max(most, heap_in_use());
    }
    return most - before;
  };
  CHECK(taken_by(fd::PromptLookup()) <= 8 * text.size());
  constexpr int kHistory = 1 << 14;
  CHECK(taken_by(fd::SuffixAutomaton({.max_history = kHistory})) <= std::size_t{250} * kHistory);
}
TEST_CASE("memory does not grow from request to request, in a million tokens of them") {
  check_hours(2000, 500);
}
TEST_CASE("nor in hours of text", "[.hours]") { check_hours(8000, 500); }
