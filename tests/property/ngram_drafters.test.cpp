// The drafters that look up n-grams: whatever they learnt and share, text is the plain text, and
// commits allocate nothing.

#include <foredraft/foredraft.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"
#include "support/proposed.hpp"
#include "support/toy_target.hpp"

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

TEST_CASE("a decoder chooses among all of them and none of them") {
  toy::Target target(12, 1, 3.0);
  const auto all = drafters();
  fd::Decoder decoder{
      target, toy::TokenCache(400, 64),
      fd::Chain<>{all[0].make(), all[1].make(), all[2].make(), all[3].make(), all[4].make()},
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
