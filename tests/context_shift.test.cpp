#include <foredraft/context_shift.hpp>

#include <foredraft/foredraft.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

const Tokens kPrompt{1, 2, 3, 4, 5, 6, 7, 1, 2, 3};
constexpr int kCapacity = 40;

template <typename D, typename A>
fd::Decoder<toy::Target, toy::TokenCache, D, A> decoder_of(toy::Target& target, D drafter, A rule) {
  return {target, toy::TokenCache(kCapacity), std::move(drafter), std::move(rule)};
}

const auto kNobody = [](const fd::Emitted&) {};

}  // namespace

TEST_CASE("the first tokens stay, and of the others the newest half of the room") {
  Tokens text;
  for (int i = 0; i < 100; ++i) text.push_back(i);
  CHECK(fd::shifted(text, 10, {.keep = 2}) == Tokens{0, 1, 96, 97, 98, 99});
  CHECK(fd::shifted(text, 11, {.keep = 2}) == Tokens{0, 1, 96, 97, 98, 99});
  CHECK(fd::shifted(text, 6, {.keep = 0}) == Tokens{97, 98, 99});
  CHECK(fd::shifted(text, 10, {.keep = 8}) == Tokens{0, 1, 2, 3, 4, 5, 6, 7, 99});
  CHECK(fd::shifted(Tokens{5, 6, 7}, 10, {.keep = 2}) == Tokens{5, 6, 7});  // none twice
  for (const int keep : {-1, 9, 10, 1000})
    CHECK_THROWS_AS(fd::shifted(text, 10, {.keep = keep}), fd::Error);
}

TEST_CASE("without a full context nothing is different") {
  toy::Target target(16, 0);
  auto decoder = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  const fd::Options options{.max_tokens = 30};
  CHECK(fd::generate_shifting(decoder, kPrompt, options, {}, kNobody).tokens ==
        other.generate(kPrompt, options).tokens);
}

TEST_CASE("what follows a shift is the text behind the kept tokens alone") {
  toy::Target target(16, 0);
  auto decoder = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  std::string seen;
  const auto result = fd::generate_shifting(decoder, kPrompt, {.max_tokens = 100}, {.keep = 4},
                                            [&](const fd::Emitted& e) { seen += e.text; });
  CHECK(result.finish_reason == fd::FinishReason::kLength);
  CHECK(result.tokens.size() == 100);
  CHECK(result.from_draft.size() == 100);
  CHECK(result.stats.emitted == 100);
  CHECK(result.text == seen);
  // By hand: the context is full with 30 new tokens; 4 and the newest 18 stay.
  Tokens all = kPrompt;
  Tokens expected;
  for (int i = 0; i < 100; ++i) {
    if (all.size() == fd::idx(kCapacity)) all = fd::shifted(all, kCapacity, {.keep = 4});
    all.push_back(fd::Scores::argmax_of(target.logits_after(all)));
    expected.push_back(all.back());
  }
  CHECK(result.tokens == expected);
}

TEST_CASE("speculative text equals plain text across shifts, sampled too") {
  for (const int order : {0, 2}) {
    for (const int keep : {0, 4, 20}) {
      for (const float temperature : {0.0f, 1.0f}) {
        CAPTURE(order, keep, temperature);
        toy::Target target(12, order);
        fd::Options options{.max_tokens = 150, .n_draft = 0, .seed = 5};
        options.sampling.temperature = temperature;
        auto plain = decoder_of(target, fd::NoDraft{}, fd::SampleAndMatch{});
        const auto expected =
            fd::generate_shifting(plain, kPrompt, options, {.keep = keep}, kNobody).tokens;
        CHECK(expected.size() == 150);
        for (const int depth : {1, 3, 7, 30}) {
          options.n_draft = depth;
          auto decoder =
              decoder_of(target, fd::PromptLookup{{.min_match = 1, .tokens_per_match = 8}},
                         fd::SampleAndMatch{});
          const auto found =
              fd::generate_shifting(decoder, kPrompt, options, {.keep = keep}, kNobody);
          CHECK(found.tokens == expected);
          CHECK(found.stats.drafted > 0);
        }
      }
    }
  }
}

TEST_CASE("random numbers behind a shift are not those before it") {
  // Each row is the same law, so equal random numbers would repeat the text.
  toy::Target target(12, 1, 0.0);
  auto decoder = decoder_of(target, fd::NoDraft{}, fd::SampleAndMatch{});
  fd::Options options{.max_tokens = 66};
  options.sampling.temperature = 1.0f;
  const auto tokens = fd::generate_shifting(decoder, kPrompt, options, {.keep = 4}, kNobody).tokens;
  // Positions 22 to 39 are written twice: as tokens 12 to 29, and as tokens 30 to 47.
  CHECK(Tokens(tokens.begin() + 12, tokens.begin() + 30) !=
        Tokens(tokens.begin() + 30, tokens.begin() + 48));
}

TEST_CASE("a prompt that does not fit is shifted, too") {
  toy::Target target(64, 0);
  Tokens prompt;
  for (int i = 0; i < 50; ++i) prompt.push_back(i);
  auto decoder = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  auto other = decoder_of(target, fd::NoDraft{}, fd::Greedy{});
  const fd::Options options{.max_tokens = 5};
  CHECK(fd::generate_shifting(decoder, prompt, options, {.keep = 4}, kNobody).tokens ==
        other.generate(fd::shifted(prompt, kCapacity, {.keep = 4}), options).tokens);
  CHECK_THROWS_AS(fd::generate_shifting(decoder, Tokens{}, options, {}, kNobody), fd::Error);
}
