// Bugs that other engines had where drafts meet what looks back on the text: penalties and the other
// transforms with a memory, minimum lengths, budgets; and where text is handed over. Each test is named
// after the public issue, reads without it, and fails if that very mistake is made here.

#include <foredraft/constraint/token_list.hpp>
#include <foredraft/foredraft.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "property/known_bugs_setup.hpp"
#include "support/catch.hpp"

using namespace known_bugs;

namespace {

using enum fd::Sampler;

struct Processor {
  std::string name;
  fd::SamplingOptions sampling;
};

/// Each kind of transform that looks back on the text, alone.
std::vector<Processor> processors(float temperature) {
  std::vector<Processor> list{
      {"repeat penalty", {.repeat_penalty = 1.7f}},
      {"presence penalty", {.presence_penalty = 2.0f}},
      {"frequency penalty", {.frequency_penalty = 0.9f, .penalty_last_n = -1}},
      {"bad words", {.bad_words = {{3}, {1, 4}, {2, 0}, {5, 6, 7}}}},
      {"logit bias", {.logit_bias = {{2, 2.0f}, {5, -2.0f}}}},
      {"DRY", {.dry_multiplier = 3.0f, .dry_allowed_length = 1}},
      {"reasoning budget", {.reasoning = {2, {1}, {4}, {6}}}},
  };
  for (Processor& processor : list) processor.sampling.temperature = temperature;
  if (temperature == 0.0f) return list;
  list.push_back({"typical-p", {.temperature = temperature, .typical_p = 0.7f}});
  list.push_back({"top-n-sigma", {.temperature = temperature, .top_n_sigma = 0.8f}});
  list.push_back({"XTC", {.temperature = temperature, .xtc_probability = 0.6f}});
  list.push_back({"dynamic temperature", {.temperature = temperature, .dynatemp_range = 0.5f}});
  list.push_back(
      {"mirostat",
       {.temperature = temperature, .mirostat = 2, .mirostat_tau = 1.0f, .mirostat_eta = 0.5f}});
  list.push_back({"another order",
                  {.temperature = temperature,
                   .top_p = 0.8f,
                   .repeat_penalty = 1.5f,
                   .samplers = {kTopP, kPenalties, kTemperature}}});
  return list;
}

/// Right, then wrong, by turns: all places of a block are accepted and rejected.
ft::ChainFunction half_right(Tokens text, int n_vocab) {
  return {[=](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < limit.depth; ++i) {
      const std::size_t place = context.tokens.size() + fd::idx(i);
      if (place >= text.size()) return;
      draft.extend((text[place] + (place % 5 == 3)) % n_vocab);
    }
  }};
}

fd::Options asking(const fd::SamplingOptions& sampling, int n_draft) {
  fd::Options options{.max_tokens = 40, .n_draft = n_draft, .seed = 11};
  options.sampling = sampling;
  return options;
}

}  // namespace

TEST_CASE(
    "sglang#33643, vmlx-swift#357: every accepted token enters what looks back, once, and no "
    "rejected one") {
  toy::Target target(8, 2, 1.5);
  for (const float temperature : {0.0f, 1.0f}) {
    for (const Processor& processor : processors(temperature)) {
      const Tokens truth = plain(target, asking(processor.sampling, 0)).tokens;
      const Tokens all = joined(kPrompt, truth);
      for (int depth = 1; depth <= 8; ++depth) {
        CAPTURE(processor.name, temperature, depth);
        const std::vector<MakeDrafter> drafters{[&] { return reciting(all); },
                                                [&] { return half_right(all, 8); }, kLookup};
        for (const MakeDrafter& drafter : drafters) {
          CHECK(run(target, drafter(), fd::SampleAndMatch{}, asking(processor.sampling, depth))
                    .tokens == truth);
        }
        if (temperature > 0.0f) continue;
        CHECK(run(target, half_right(all, 8), fd::Greedy{}, asking(processor.sampling, depth))
                  .tokens == truth);
      }
    }
  }
}

TEST_CASE("under a constraint, too, what looks back gives one text at every depth") {
  toy::Target target(8, 2, 1.5);
  const std::vector<fd::TokenId> allowed{0, 1, 2, 4, 6, 7};
  for (const Processor& processor : processors(1.0f)) {
    fd::Options options = asking(processor.sampling, 0);
    options.constraint = fd::AllowedTokens(8, allowed);
    const Tokens truth = plain(target, options).tokens;
    CHECK(std::count(truth.begin(), truth.end(), 3) == 0);
    for (const int depth : {1, 3, 7}) {
      CAPTURE(processor.name, depth);
      options.n_draft = depth;
      CHECK(run(target, half_right(joined(kPrompt, truth), 8), fd::SampleAndMatch{}, options)
                .tokens == truth);
    }
  }
}

namespace {

/// Three tokens, or two and an end token. Notes when its mask is asked for behind the third.
struct UpToThree {
  using State = int;  // tokens so far
  int vocab_size() const { return 8; }
  int start() const { return 0; }
  std::optional<int> next(int n, fd::TokenId) const {
    return n < 3 ? std::optional(n + 1) : std::nullopt;
  }
  std::shared_ptr<const fd::TokenSet> mask(int n) const {
    *asked_behind += n >= 3;
    fd::TokenSet all(8);
    all.add_all();
    return std::make_shared<const fd::TokenSet>(all);
  }
  bool may_end(int n) const { return n >= 2; }
  bool finished(int n) const { return n == 3; }
  Tokens forced(int, int) const { return {}; }

  std::shared_ptr<int> asked_behind = std::make_shared<int>(0);
};
static_assert(fd::Constraint<UpToThree>);

}  // namespace

TEST_CASE("openvino.genai#4081: no mask is asked for behind the end, accepted or drafted") {
  toy::Target target(8, 0, 1.5);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const UpToThree constraint;
    fd::Options options{.max_tokens = 9, .n_draft = 0, .sampling = {.temperature = 1.0f}};
    options.seed = seed;
    options.end_tokens = {1, 2, 3, 4};  // so that many texts end with one
    options.constraint = constraint;
    const fd::Result truth = plain(target, options);
    CHECK(truth.finish_reason == FinishReason::kEnd);
    const Tokens beyond = joined(joined(kPrompt, truth.tokens), {5, 6, 7, 5, 6, 7});
    for (options.n_draft = 1; options.n_draft <= 7; ++options.n_draft) {
      CHECK(run(target, reciting(beyond), fd::SampleAndMatch{}, options).tokens == truth.tokens);
      for (const fd::AnyAcceptance& rule : kRulesThatDraw) {
        CHECK(run(target, reciting(beyond), rule, options).tokens.size() <= 3);
      }
    }
    CHECK(*constraint.asked_behind == 0);
  }
}

TEST_CASE("vllm#18902, TensorRT-LLM#17701: no processor is silently ignored with drafts") {
  toy::Target target(8, 2, 1.5);
  for (const float temperature : {0.0f, 1.0f}) {
    fd::SamplingOptions none;
    none.temperature = temperature;
    const Tokens without = plain(target, asking(none, 0)).tokens;
    for (const Processor& processor : processors(temperature)) {
      CAPTURE(processor.name, temperature);
      const fd::Result with = run(target, reciting(joined(kPrompt, without)), fd::SampleAndMatch{},
                                  asking(processor.sampling, 4));
      CHECK(with.tokens != without);
      CHECK(with.stats.drafted > 0);
    }
  }
}

TEST_CASE("sglang#33643: min_tokens counts tokens, not rounds") {
  Distinct text;
  for (const int least : {1, 5, 8, 13, 24}) {
    for (const int depth : {0, 1, 3, 7}) {
      for (std::size_t at = 0; at < 24; at += 3) {
        CAPTURE(least, depth, at);
        text.target.end_token = text.truth.tokens[at];
        const fd::Options options{.max_tokens = 24, .n_draft = depth, .min_tokens = least};
        const fd::Result result = text.recited(options);
        const bool early = static_cast<int>(at) < least;
        // Held back, the end token gives way to another one; else the text ends there.
        CHECK((result.tokens.size() > at));
        CHECK((result.tokens[at] == text.truth.tokens[at]) == !early);
        if (!early) CHECK(result.tokens.size() == at + 1);
        CHECK(result.tokens == plain(text.target, options).tokens);
      }
    }
  }
}

TEST_CASE("min_tokens is that of a call, and its last token may end the text") {
  toy::Target target(4, 0, 1.0);
  fd::Options options{.max_tokens = 12, .n_draft = 3, .end_tokens = {0, 1, 2}, .min_tokens = 4};
  Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{{.min_match = 1}}, fd::Greedy{}};
  Tokens tokens = decoder.generate(Tokens{0, 1}, options).tokens;
  for (int calls = 0; calls < 3; ++calls) {
    REQUIRE(tokens.size() >= 5);  // four that are no end, and at least one more
    for (std::size_t i = 0; i < 4; ++i) CHECK(tokens[i] == 3);
    tokens = decoder.resume(options).tokens;
  }
}

TEST_CASE("vllm#31858, vllm#34241: a thinking part that begins inside a draft counts from there") {
  toy::Target target(2000, 0);
  const Tokens free = plain(target, {.max_tokens = 24}).tokens;
  for (std::size_t open = 0; open < 12; ++open) {
    for (int budget = 0; budget < 6; ++budget) {
      fd::Options options{.max_tokens = 24, .n_draft = 7};
      options.sampling.reasoning = {budget, {free[open]}, {1999}, {1998}};
      CAPTURE(open, budget);
      const fd::Result result =
          run(target, reciting(joined(kPrompt, free)), fd::SampleAndMatch{}, options);
      const std::size_t end = open + 1 + fd::idx(budget);
      CHECK(first(result.tokens, end) == first(free, end));
      CHECK(result.tokens[end] == 1998);
      CHECK(result.tokens[end + 1] == 1999);
      options.n_draft = 0;
      CHECK(plain(target, options).tokens == result.tokens);
    }
  }
}

TEST_CASE("mirostat goes on where the last call ended, or a snapshot was") {
  toy::Target target(8, 2, 1.5);
  const fd::SamplingOptions sampling{
      .temperature = 1.0f, .mirostat = 2, .mirostat_tau = 1.0f, .mirostat_eta = 0.5f};
  const Tokens truth = plain(target, asking(sampling, 0)).tokens;
  for (int cut = 1; cut < 40; cut += 7) {
    CAPTURE(cut);
    Decoder decoder{target, toy::TokenCache{}, reciting(joined(kPrompt, truth)),
                    fd::SampleAndMatch{}};
    fd::Options options = asking(sampling, 3);
    options.max_tokens = cut;
    decoder.generate(kPrompt, options);
    const auto snapshot = decoder.snapshot();
    options.max_tokens = 40 - cut;
    for (int times = 0; times < 2; ++times) {
      const Tokens rest = decoder.resume(options).tokens;
      CHECK(joined(first(truth, fd::idx(cut)), rest) == truth);
      decoder.restore(snapshot);
    }
    // Another text begins with a bound of its own.
    options.max_tokens = 40;
    CHECK(decoder.generate(kPrompt, options).tokens == truth);
  }
}
