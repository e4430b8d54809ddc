#include <foredraft/decoder.hpp>
#include <foredraft/foredraft.hpp>
#include <stdexcept>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

/// Log probabilities under speculation: those of plain decoding, whatever was drafted.

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{3, 1, 4, 1, 5};
constexpr int kVocab = 24;
constexpr int kTop = 4;

/// Remembers how much of the rows it was asked for.
struct WatchingTarget : toy::Target {
  using toy::Target::Target;
  void forward(std::span<fd::Request<toy::TokenCache>> requests) {
    for (const auto& request : requests) most = std::max(most, request.want.rows);
    toy::Target::forward(requests);
  }
  fd::RowNeed most = fd::RowNeed::kNothing;
};

std::vector<fd::TokenId> with_prompt(const std::vector<fd::TokenId>& tokens) {
  std::vector<fd::TokenId> all = kPrompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

/// What each token's own row says, by the definition and without any loop.
std::vector<fd::Logprobs> truth_of(const toy::Target& target,
                                   const std::vector<fd::TokenId>& tokens, int top = kTop) {
  std::vector<fd::TokenId> text = kPrompt;
  std::vector<fd::Logprobs> all;
  for (const fd::TokenId token : tokens) {
    all.push_back(fd::logprobs_of(target.logits_after(text), token, top));
    text.push_back(token);
  }
  return all;
}

template <typename A>
fd::Result plain(toy::Target& target, const A& rule, const fd::Options& options) {
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, rule};
  return decoder.generate(kPrompt, options);
}

/// Every depth, chain and tree where the rule takes trees.
template <typename A>
void check_all_drafts(const A& rule, fd::Options options) {
  toy::Target target(kVocab, 0);
  const fd::Result silent = plain(target, rule, options);
  options.logprobs = kTop;
  const fd::Result truth = plain(target, rule, options);
  REQUIRE(silent.logprobs.empty());
  REQUIRE(truth.tokens == silent.tokens);
  REQUIRE(truth.logprobs == truth_of(target, truth.tokens));
  for (const int branches : {1, 3}) {
    for (int depth = 1; depth <= 16; ++depth) {
      CAPTURE(branches, depth);
      fd::Decoder decoder{target, toy::TokenCache{},
                          OracleDrafter::sweeping(with_prompt(truth.tokens), kVocab, branches),
                          rule};
      options.n_draft = depth;
      std::vector<fd::Logprobs> emitted;
      const auto result = decoder.generate(
          kPrompt, options, [&](const fd::Emitted& e) { emitted.push_back(e.logprobs.value()); });
      CHECK(result.tokens == truth.tokens);
      CHECK(result.text == truth.text);
      CHECK(result.logprobs == truth.logprobs);
      CHECK(emitted == truth.logprobs);
      CHECK(decoder.drafter().covered(depth));
    }
  }
}

}  // namespace

TEST_CASE("greedy: log probabilities are those of plain decoding at every depth, chain and tree") {
  check_all_drafts(fd::Greedy{}, {.max_tokens = 400});
}

TEST_CASE("match: they are those of the raw row, not of p after the transforms") {
  check_all_drafts(fd::SampleAndMatch{},
                   {.max_tokens = 400, .sampling = {.temperature = 0.7f, .top_k = 6}, .seed = 3});
}

TEST_CASE("rejection: every token has the value of its own row, and asking changes no text") {
  toy::Target target(kVocab, 0);
  for (int depth = 0; depth <= 9; ++depth) {
    fd::Options options{
        .max_tokens = 120, .n_draft = depth, .sampling = {.temperature = 1.0f}, .seed = 5};
    const auto run = [&] {
      fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::RejectionSampling{}};
      return decoder.generate(kPrompt, options);
    };
    const fd::Result silent = run();
    options.logprobs = kTop;
    const fd::Result asked = run();
    CHECK(asked.tokens == silent.tokens);
    CHECK(asked.logprobs == truth_of(target, asked.tokens));
  }
}

TEST_CASE("nothing comes from behind a cut, whatever cuts and wherever in a block") {
  toy::Target target(kVocab, 0);
  for (int i = 0; i < kVocab; ++i) {
    target.pieces.push_back(std::string(1, static_cast<char>('a' + i)));
  }
  const fd::Result truth = plain(target, fd::Greedy{}, {.max_tokens = 60});
  for (std::size_t at = 0; at + 2 < 30; ++at) {
    for (const bool at_end_token : {true, false}) {
      CAPTURE(at, at_end_token);
      fd::Options options{.max_tokens = 60, .n_draft = 7, .logprobs = kTop};
      if (at_end_token) {
        options.end_tokens = {truth.tokens[at]};
      } else {
        options.stop = {truth.text.substr(at, 2)};
      }
      fd::Decoder decoder{target, toy::TokenCache{},
                          OracleDrafter{with_prompt(truth.tokens), kVocab, 0.2, at}, fd::Greedy{}};
      const auto result = decoder.generate(kPrompt, options);
      REQUIRE(result.tokens.size() < 60);
      CHECK(result.logprobs == truth_of(target, result.tokens));
      // Going on, the values are those of the tokens that follow.
      options.end_tokens = {};
      options.stop = {};
      options.max_tokens = 20;
      auto tokens = result.tokens;
      const auto rest = decoder.resume(options);
      tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
      const auto all = truth_of(target, tokens);
      CHECK(rest.logprobs == std::vector<fd::Logprobs>(all.end() - 20, all.end()));
    }
  }
}

TEST_CASE("whole rows are computed only where somebody asked") {
  WatchingTarget target(kVocab, 0);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  CHECK(decoder.generate(kPrompt, {.max_tokens = 30, .n_draft = 16}).logprobs.empty());
  CHECK(target.most == fd::RowNeed::kArgmax);
  const auto result = decoder.resume({.max_tokens = 30, .n_draft = 16, .logprobs = 0});
  CHECK(target.most == fd::RowNeed::kLogits);
  CHECK(result.logprobs.size() == 30);
  CHECK(result.logprobs[7].top.empty());
  CHECK(result.logprobs[7].logprob <= 0.0f);  // false for no number
}

TEST_CASE("a queued token that nobody asked about has no number") {
  toy::Target target(kVocab, 0);
  const fd::Result truth = plain(target, fd::Greedy{}, {.max_tokens = 12, .logprobs = 1});
  fd::Decoder decoder{target, toy::TokenCache{},
                      OracleDrafter{with_prompt(truth.tokens), kVocab, 0.0, 1}, fd::Greedy{}};
  CHECK_THROWS(decoder.generate(kPrompt, {.max_tokens = 6, .n_draft = 3}, [](const fd::Emitted& e) {
    if (e.from_draft) throw std::runtime_error("full disk");
  }));
  const std::size_t queued = decoder.tokens().size() - kPrompt.size() - 2;
  REQUIRE(queued == 3);
  const auto rest = decoder.resume({.max_tokens = 3, .logprobs = 1});
  REQUIRE(rest.logprobs.size() == queued + 3);
  for (std::size_t i = 0; i < queued; ++i) CHECK(std::isnan(rest.logprobs[i].logprob));
  for (std::size_t i = queued; i < rest.logprobs.size(); ++i) {
    CHECK(rest.logprobs[i] == truth.logprobs[i + 2]);
  }
}

TEST_CASE("more log probabilities than tokens are refused") {
  toy::Target target(kVocab);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  for (const int k : {-2, kVocab + 1}) {
    CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 1, .logprobs = k}), fd::Error);
  }
  const auto all = decoder.generate(kPrompt, {.max_tokens = 1, .logprobs = kVocab});
  CHECK(all.logprobs.at(0).top.size() == kVocab);
}
