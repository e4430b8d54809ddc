// Bugs that other engines had where drafts meet sampling, seeds, stops, limits and vocabularies.
// Each test is named after the public issue, reads without it, and fails if that very mistake is
// made here. What a rule or a cut has to do in general is tested in law.test.cpp and cuts.test.cpp.

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/testing/law.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "property/known_bugs_setup.hpp"
#include "support/catch.hpp"

using namespace known_bugs;

// ---- the law of what is drafted and verified ---------------------------------------------------

TEST_CASE("transformers#32867: a draft chosen greedily is not handed over with a soft q") {
  toy::Target model(12);
  fd::Philox rng;
  const auto draft = draft_of(model, fd::DraftSampling::kArgmax, {.temperature = 1.0f}, rng);
  REQUIRE(draft.drafted() == 4);
  for (fd::NodeIndex node = 0; node < 4; ++node)
    CHECK(draft.siblings(node) == Siblings::kPointMass);
  for (const auto& rule : kRulesThatDraw) {
    CHECK(distance(fd::DraftSampling::kArgmax, rule, {.temperature = 1.0f}) <= kExact);
  }
}

TEST_CASE("transformers#47932: q is the law after top-k, not the one before") {
  toy::Target model(12);
  const fd::SamplingOptions top2{.temperature = 0.8f, .top_k = 2};
  fd::Philox rng;
  const auto draft = draft_of(model, fd::DraftSampling::kDrawn, top2, rng);
  REQUIRE(draft.drafted() == 4);
  Tokens text = kPrompt;
  for (fd::NodeIndex node = 0; node < 4; ++node) {
    const auto q = ft::p_of(model.logits_after(text), top2);
    REQUIRE(draft.siblings(node) != Siblings::kPointMass);
    CHECK(draft.law(node).size() == 2);
    for (fd::TokenId id = 0; id < 12; ++id) {
      CHECK(std::abs(draft.law(node)(id) - q[fd::idx(id)]) <= kExact);
    }
    text.push_back(draft.token(node + 1));
  }
  for (const auto& rule : kRulesThatDraw) {
    CHECK(distance(fd::DraftSampling::kDrawn, rule, {.temperature = 0.8f, .top_k = 2}) <= kExact);
  }
}

TEST_CASE(
    "deepseek-ai/DeepSpec#31: the ratio is taken with the very numbers that were drawn from") {
  toy::Target model(40);
  NotingRng rng;
  const auto draft =
      draft_of(model, fd::DraftSampling::kDrawn, {.temperature = 0.7f, .top_p = 0.95f}, rng);
  REQUIRE(rng.draws.size() == 4);
  for (fd::NodeIndex node = 0; node < 4; ++node) {
    const fd::Law& drawn_from = rng.draws[fd::idx(node)];
    CHECK(draft.law(node).ids == drawn_from.ids);
    CHECK(draft.law(node).p == drawn_from.p);  // to the bit
  }
}

TEST_CASE("vllm#9834, vllm#10198: verification samples from p after all sampling parameters") {
  toy::Target target(3, 0, 1.5, 5);
  for (const fd::SamplingOptions& sampling : std::vector<fd::SamplingOptions>{
           {.temperature = 0.5f},
           {.temperature = 1.0f, .top_k = 2},
           {.temperature = 1.0f, .top_p = 0.7f},
           {.temperature = 1.5f, .min_p = 0.3f},
           {.temperature = 1.0f, .repeat_penalty = 1.5f, .penalty_last_n = 3}}) {
    // Drafts of the least likely tokens, which most parameters forbid, and drawn ones.
    for (const auto& [name, drafter] : ft::chains_for<fd::Shape::kTree>(target, sampling)) {
      if (name != "the worst tokens" && name != "tokens drawn from q") continue;
      for (const ft::TreeRule& rule :
           {ft::TreeRule::of(fd::SampleAndMatch{}), ft::TreeRule::of(fd::RejectionSampling{}),
            ft::TreeRule::of(fd::BlockVerification{})}) {
        CHECK(ft::law_distance(target, drafter, rule, sampling, 1) <= kExact);
      }
    }
  }
}

TEST_CASE("llama.cpp#5657: drafts work at temperature 0, near 0, and with top_k 1") {
  toy::Target target(24, 0);
  const Tokens greedy = plain(target, {.max_tokens = 80}).tokens;
  for (const auto& rule : kAllRules) {
    for (const auto how : {fd::DraftSampling::kAuto, fd::DraftSampling::kArgmax,
                           fd::DraftSampling::kCoupled, fd::DraftSampling::kDrawn}) {
      for (const fd::Options& options : std::vector<fd::Options>{
               {.max_tokens = 80, .n_draft = 4},
               {.max_tokens = 80, .n_draft = 4, .sampling = {.temperature = 1e-8f}},
               {.max_tokens = 80, .n_draft = 4, .sampling = {.temperature = 5.0f, .top_k = 1}}}) {
        const fd::Result result = run(target, model_draft(target, how), rule, options);
        CHECK(result.tokens == greedy);
        CHECK(result.stats.drafted > 60);
        CHECK(result.stats.accepted == result.stats.drafted);
      }
    }
    // With the target as its own draft model nothing that is drawn is rejected, at any temperature.
    const auto how = rule.uses_law() ? fd::DraftSampling::kDrawn : fd::DraftSampling::kCoupled;
    for (const float temperature : {1.0f, 5.0f}) {
      const fd::Result result =
          run(target, model_draft(target, how), rule,
              {.max_tokens = 80, .n_draft = 4, .sampling = {.temperature = temperature}});
      CHECK(result.stats.drafted > 60);
      CHECK(result.stats.accepted == result.stats.drafted);
    }
  }
}

TEST_CASE(
    "vllm#44869: a drawn draft without a law it can come from is refused, not taken for another "
    "kind") {
  toy::Target target(8);
  for (const fd::Law& q : {fd::Law{}, fd::Law{{0, 7}, {0.5, 0.5}}, fd::Law{{2}, {0.0}},
                           fd::Law{{2, 5}, {0.25, 0.25}}, fd::Law{{5, 2}, {0.5, 0.5}},
                           fd::Law{{1, 2}, {std::nan(""), 1.0}}, fd::Law{{1, 2}, {-0.5, 1.5}}}) {
    bool broken = true;
    const ft::ChainFunction drafter{[&](const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
      if (!broken || limit.depth == 0) return;
      draft.drawn_from(0) = q;
      draft.extend(2);
    }};
    for (const auto& rule : kRulesThatDraw) {
      broken = true;
      Decoder decoder{target, toy::TokenCache{}, drafter, rule};
      const fd::Options options{.max_tokens = 10, .n_draft = 3, .sampling = {.temperature = 1.0f}};
      CHECK(code_of([&] { decoder.generate(kPrompt, options); }) == "invalid-draft");
      CHECK(decoder.tokens().size() == kPrompt.size() + 1);  // of the round before
      CHECK(decoder.cache().staged() == 0);
      broken = false;
      CHECK(decoder.resume(options).tokens.size() == 10);
    }
  }
}

TEST_CASE(
    "vllm GHSA-8wr5-jm2h-8r4f: the token after a rejection is in the vocabulary, whatever its "
    "size") {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  // Sizes around the widths of vectors and tiles, and those of real models.
  for (const std::size_t n : {1,  2,  7,   8,   9,   15,  16,   17,   31,   32,    33,    63,
                              64, 65, 100, 127, 128, 129, 8191, 8192, 8193, 10000, 32000, 151936}) {
    CAPTURE(n);
    const auto end = static_cast<fd::TokenId>(n) - 1;
    std::vector<float> head(n, kNever);  // all mass on the first token, none in the tail
    head[0] = 0.0f;
    std::vector<float> tail(n, kNever);  // all on the last
    tail[n - 1] = 0.0f;
    const auto check = [&](const auto& rule) {
      // A residual without any mass: only rounding can ask for it.
      CHECK(recovered(rule, head, 0, {}) == 0);
      CHECK(recovered(rule, head, 0, {{0}, {1.0}}) == 0);
      CHECK(recovered(rule, tail, end, {}) == end);
      CHECK(recovered(rule, tail, end, {{end}, {1.0}}) == end);
      if (n == 1) return;
      CHECK(recovered(rule, head, end, {}) == 0);
      CHECK(recovered(rule, tail, 0, {{0, end}, {0.5, 0.5}}) == end);
      std::vector<float> broken = head;
      broken[n - 1] = kNaN;
      CHECK(code_of([&] { recovered(rule, broken, 0, {}); }) == "invalid-logits");
      CHECK(code_of([&] { recovered(rule, std::vector<float>(n, kNever), 0, {}); }) ==
            "invalid-logits");
    };
    check(fd::RejectionSampling{});
    check(fd::BlockVerification{});
  }
}

TEST_CASE("llama.cpp#28158: a draft of the id n_vocab never reaches the target") {
  for (const int n_vocab : {7, 8, 15, 16, 17, 63, 64, 65}) {
    for (int index = 0; index < 4; ++index) {
      toy::Target target(n_vocab);
      const Tokens prompt{1, 2, 3};
      const Tokens truth = plain(target, {.max_tokens = 12}, prompt).tokens;
      bool broken = true;
      const ft::ChainFunction drafter{
          [&](const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
            for (int i = 0; i < limit.depth; ++i) draft.extend(broken && i == index ? n_vocab : 0);
          }};
      Decoder decoder{target, toy::TokenCache{}, drafter, fd::SampleAndMatch{}};
      Tokens tokens;
      const auto keep = [&](const fd::Emitted& token) { tokens.push_back(token.token); };
      const fd::Options options{.max_tokens = 12, .n_draft = 4};
      const int passes = target.passes;
      CHECK(code_of([&] { decoder.generate(prompt, options, keep); }) == "invalid-draft");
      CHECK(target.passes - passes == 2);  // the prompt, and the round before
      broken = false;
      decoder.resume({.max_tokens = 12 - static_cast<int>(tokens.size()), .n_draft = 4}, keep);
      CHECK(tokens == truth);
    }
  }
}

// ---- seeds -------------------------------------------------------------------------------------

TEST_CASE("vllm#6038, vllm#6034: the seed of a request decides its text") {
  toy::Target target(24, 2), draft(24, 1);
  for (const auto& rule : kAllRules) {
    std::set<Tokens> texts;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const Job job{rule,
                    drawing(draft),
                    {.max_tokens = 40, .sampling = {.temperature = 1.0f}, .seed = seed}};
      const Tokens text = alone(target, job);
      CHECK(alone(target, job) == text);
      texts.insert(text);
    }
    CHECK(texts.size() == 8);
  }
  // All 64 bits count.
  fd::Options high{
      .max_tokens = 40, .sampling = {.temperature = 1.0f}, .seed = std::uint64_t{1} << 32};
  CHECK(plain(target, high).tokens !=
        plain(target, {.max_tokens = 40, .sampling = {.temperature = 1.0f}}).tokens);
}

TEST_CASE("vllm#10863: requests with and without a seed, or greedy ones, do not mix") {
  toy::Target target(24, 2), draft(24, 1);
  std::vector<Job> jobs;
  for (const auto& rule : kAllRules) {
    for (const auto& drafter : {kNone, kLookup, drawing(draft)}) {
      jobs.push_back(
          {rule, drafter, {.max_tokens = 30, .sampling = {.temperature = 1.0f}, .seed = 7}});
      jobs.push_back({rule, drafter, {.max_tokens = 30, .sampling = {.temperature = 1.3f}}});
      jobs.push_back({rule, drafter, {.max_tokens = 30}});
    }
  }
  const auto texts = together(target, jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(i);
    CHECK(texts[i] == alone(target, jobs[i]));
  }
}

TEST_CASE("vllm-ascend#13608: rounds without a draft take no random numbers from later ones") {
  toy::Target target(24, 2), model(24, 1);
  constexpr std::size_t kSilent = 20;  // tokens before the first draft
  const ft::ChainFunction late{
      [&](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
        if (context.tokens.size() <= kSilent) return;
        Tokens text(context.tokens.begin(), context.tokens.end());
        for (int i = 0; i < limit.depth; ++i) {
          const fd::Law& q = draft.drawn_from(i) =
              ft::sparse(ft::p_of(model.logits_after(text), context.sampling));
          const fd::RngKey key{fd::Purpose::kDraft, context.anchor_position(), i + 1};
          text.push_back(q.ids[context.rng->categorical(key, q.ids, q.p)]);
          draft.extend(text.back());
        }
      }};
  const fd::Options options{
      .max_tokens = 45, .n_draft = 3, .sampling = {.temperature = 1.0f}, .seed = 5};
  for (const auto& rule : kAllRules) {
    const fd::Result whole = run(target, late, rule, options);
    CHECK(whole.stats.plain > static_cast<int>(kSilent - kPrompt.size()));
    CHECK(whole.stats.drafted > 40);
    // The same text so far as a prompt, so that there were no such rounds: the rest is the same.
    const std::size_t silent = kSilent - kPrompt.size();
    fd::Options rest = options;
    rest.max_tokens -= static_cast<int>(silent);
    const Tokens prompt = joined(kPrompt, first(whole.tokens, silent));
    CHECK(joined(prompt, run(target, late, rule, rest, prompt).tokens) ==
          joined(kPrompt, whole.tokens));
    // Nor does it matter whether there is a drafter that has nothing to say.
    CHECK(run(target, ft::ChainFunction{}, rule, options).tokens ==
          run(target, fd::NoDraft{}, rule, options).tokens);
  }
}

TEST_CASE("NVIDIA/TensorRT-LLM#19487: requests do not share one stream of random numbers") {
  toy::Target target(24, 2);
  std::vector<Job> jobs;
  for (std::uint32_t sequence = 0; sequence < 6; ++sequence) {
    const auto& rule = kAllRules[sequence % 3];
    jobs.push_back({rule,
                    kLookup,
                    {.max_tokens = 30, .sampling = {.temperature = 1.0f}, .sequence = sequence}});
  }
  const auto texts = together(target, jobs);
  CHECK(std::set<Tokens>(texts.begin(), texts.end()).size() == 6);
  // In another order, and with other neighbours, each is what it was.
  const auto backwards = together(target, {jobs.rbegin(), jobs.rend()});
  CHECK(std::equal(texts.begin(), texts.end(), backwards.rbegin()));
  CHECK(together(target, {jobs[4], jobs[1]}) == std::vector<Tokens>{texts[4], texts[1]});
}

TEST_CASE("NVIDIA/TensorRT-LLM#17599: the seed counts with drafts as it does without") {
  toy::Target target(24, 2), draft(24, 1);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const fd::Options options{.max_tokens = 40, .sampling = {.temperature = 1.0f}, .seed = seed};
    const Job job{fd::SampleAndMatch{},
                  [&] { return model_draft(draft, fd::DraftSampling::kCoupled); }, options};
    CHECK(alone(target, job) == plain(target, options).tokens);
  }
}

TEST_CASE("a seed has one text for greedy and match, whatever neighbours, depth and drafter") {
  toy::Target target(24, 2), draft(24, 1);
  const std::vector<MakeDrafter> drafters{kNone, kLookup, drawing(draft), [&] {
                                            return model_draft(draft, fd::DraftSampling::kCoupled);
                                          }};
  for (const float temperature : {0.0f, 1.0f}) {
    for (const std::uint32_t sequence : {0u, 3u}) {
      std::vector<Job> jobs;
      for (const auto& drafter : drafters) {
        for (const int depth : {0, 1, 2, 5, 16}) {
          const fd::Options options{.max_tokens = 50,
                                    .n_draft = depth,
                                    .sampling = {.temperature = temperature},
                                    .seed = 11,
                                    .sequence = sequence};
          jobs.push_back({fd::SampleAndMatch{}, drafter, options});
          if (temperature == 0.0f) jobs.push_back({fd::Greedy{}, drafter, options});
        }
      }
      const Tokens text = alone(target, jobs[0]);
      REQUIRE(text.size() == 50);
      for (const Job& job : jobs) CHECK(alone(target, job) == text);
      for (const Tokens& among_others : together(target, jobs)) CHECK(among_others == text);
    }
  }
}

// ---- stops and limits --------------------------------------------------------------------------

TEST_CASE(
    "transformers#47912, LostRuins/koboldcpp#1276: an accepted end token in a block ends the "
    "text") {
  Distinct text;
  for (std::size_t at = 1; at < 20; ++at) {
    text.target.end_token = text.truth.tokens[at];
    const fd::Result result = text.recited({.max_tokens = 24, .n_draft = 7});
    CHECK(result.tokens == first(text.truth.tokens, at + 1));
    CHECK(result.finish_reason == FinishReason::kEnd);
    CHECK(result.from_draft[at] == (at % 8 != 0));  // blocks of 8 behind the first token
  }
}

TEST_CASE(
    "openvino.genai#3293, ohdearquant/lattice#237: an end token of the draft alone ends nothing") {
  Distinct text;
  fd::TokenId end = 0;
  while (std::count(text.truth.tokens.begin(), text.truth.tokens.end(), end) > 0) ++end;
  text.target.end_token = end;
  const Tokens all = joined(kPrompt, text.truth.tokens);
  for (int index = 0; index < 6; ++index) {
    CAPTURE(index);
    const ft::ChainFunction drafter{
        [&](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
          for (int i = 0; i < limit.depth; ++i) {
            draft.extend(i == index ? end : all.at(context.tokens.size() + fd::idx(i)));
          }
        }};
    for (const auto& rule :
         {fd::AnyAcceptance(fd::Greedy{}), kAllRules[0], kAllRules[1], kAllRules[2]}) {
      const fd::Result result = run(text.target, drafter, rule, {.max_tokens = 24, .n_draft = 6});
      CHECK(result.tokens == text.truth.tokens);
      CHECK(result.finish_reason == FinishReason::kLength);
      CHECK(result.stats.corrected > 0);
    }
  }
}

TEST_CASE("sglang#23802: a stop string at the start of a long accepted block is found") {
  Distinct text;
  for (const std::size_t begin : {1, 9, 17}) {  // of blocks of 8
    const std::string before = text.piece(begin - 1);
    const std::string piece = text.piece(begin);
    for (const std::string& stop :
         {piece, piece.substr(1), before + piece, before.substr(3) + piece.substr(0, 2)}) {
      CAPTURE(begin, stop);
      const fd::Result result =
          text.recited({.max_tokens = 24, .n_draft = 7, .stop = {"never", stop}});
      CHECK(result.finish_reason == FinishReason::kStop);
      CHECK(result.tokens == first(text.truth.tokens, begin + 1));
      CHECK(result.text == text.truth.text.substr(0, text.truth.text.find(stop)));
    }
  }
}

TEST_CASE("vllm#47616: neither ids nor logprobs nor text from behind a stop get out") {
  Distinct text;
  for (std::size_t at = 1; at < 20; ++at) {
    CAPTURE(at);
    const std::string stop = text.piece(at);
    Decoder decoder{text.target, toy::TokenCache{}, reciting(joined(kPrompt, text.truth.tokens)),
                    fd::SampleAndMatch{}};
    std::vector<fd::Emitted> emitted;
    const fd::Result result =
        decoder.generate(kPrompt, {.max_tokens = 24, .n_draft = 7, .stop = {stop}, .logprobs = 2},
                         [&](const fd::Emitted& token) { emitted.push_back(token); });
    CHECK(result.tokens.size() == at + 1);
    CHECK(result.logprobs.size() == at + 1);
    CHECK(result.from_draft.size() == at + 1);
    CHECK(result.stats.emitted == static_cast<int>(at) + 1);
    CHECK(emitted.size() == at + 1);
    CHECK(emitted.back().token == text.truth.tokens[at]);
    CHECK(emitted.back().text.empty());  // the stop is the whole piece
    CHECK(emitted.back().logprobs == result.logprobs.back());
    CHECK(decoder.tokens().size() == kPrompt.size() + at + 1);
    CHECK(decoder.cache().size() == static_cast<int>(kPrompt.size() + at));
    CHECK(result.text == text.truth.text.substr(0, text.truth.text.find(stop)));
  }
}

TEST_CASE("sglang#31599, sglang#33758: a stop at the last token that a limit allows is a stop") {
  Distinct text;
  for (std::size_t at = 1; at < 20; ++at) {
    for (const int n_draft : {0, 3, 7, 16}) {
      CAPTURE(at, n_draft);
      const std::string stop = text.piece(at - 1).substr(2) + text.piece(at);
      fd::Options options{
          .max_tokens = static_cast<int>(at) + 1, .n_draft = n_draft, .stop = {stop}};
      const fd::Result result = text.recited(options);
      CHECK(result.finish_reason == FinishReason::kStop);
      CHECK(result.text == text.truth.text.substr(0, text.truth.text.find(stop)));
      // One token less: the limit comes first, and what might have become a stop is text.
      --options.max_tokens;
      const fd::Result shorter = text.recited(options);
      CHECK(shorter.finish_reason == FinishReason::kLength);
      CHECK(shorter.text == text.truth.text.substr(0, text.truth.text.find(text.piece(at))));
    }
  }
}

// ---- room --------------------------------------------------------------------------------------

TEST_CASE(
    "turboderp-org/exllamav2#274, vllm#57941, vllm#5342, vllm#24662: no draft runs past the "
    "context") {
  constexpr int kContext = 24;
  constexpr int kDepth = 6;
  toy::Target target(16, 0);
  for (int length = kContext - kDepth - 1; length <= kContext + 1; ++length) {
    CAPTURE(length);
    const Tokens prompt(fd::idx(length), 3);
    const Tokens truth = plain(target, {.max_tokens = 40}, prompt).tokens;
    const Tokens all = joined(prompt, truth);
    const ft::ChainFunction drafter{
        [&](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
          // The anchor's row, the draft's rows, and the bonus behind them.
          CHECK(static_cast<int>(context.tokens.size()) + limit.depth + 1 <= kContext);
          reciting(all).function(context, limit, draft);
        }};
    Decoder decoder{target, toy::TokenCache{kContext}, drafter, fd::SampleAndMatch{}};
    const fd::Options options{.max_tokens = -1, .n_draft = kDepth};
    if (length >= kContext) {
      CHECK(code_of([&] { decoder.generate(prompt, options); }) == "context-overflow");
      continue;
    }
    const fd::Result result = decoder.generate(prompt, options);
    CHECK(result.finish_reason == FinishReason::kContext);
    CHECK(result.tokens == first(truth, fd::idx(kContext - length)));
    CHECK(decoder.cache().size() == kContext - 1);
  }
}

TEST_CASE(
    "NVIDIA/TensorRT-LLM#16826, llama.cpp#25719: a small context of the draft, few rows of "
    "either") {
  toy::Target target(16, 0);
  const Tokens truth = plain(target, {.max_tokens = 40}).tokens;
  for (int capacity = 1; capacity < 50; ++capacity) {
    fd::Decoder decoder{target, toy::TokenCache{},
                        model_draft(target, fd::DraftSampling::kAuto, capacity), fd::Greedy{}};
    CHECK(decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 6}).tokens == truth);
    CHECK(decoder.drafter().cache().size() <= capacity);
  }
  for (int rows = 1; rows <= 9; ++rows) {  // the caches throw where more are staged
    for (int draft_rows = 1; draft_rows <= 9; ++draft_rows) {
      Decoder decoder{target, toy::TokenCache{256, rows},
                      Draft{target, toy::TokenCache{256, draft_rows}, {}}, fd::Greedy{}};
      CHECK(decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 6}).tokens == truth);
    }
  }
}

// ---- vocabularies ------------------------------------------------------------------------------

TEST_CASE(
    "llama.cpp#3812, sglang#24051, sglang#23838, a-ghorbani/pocketpal-ai#876: equal sizes are not "
    "equal "
    "vocabularies") {
  CHECK(code_with(words({"one", "two"}), words({"one", "two"})) == "none");
  CHECK(code_with(words({"one", "two"}), words({"two", "one"})) == "vocabulary-mismatch");
  CHECK(code_with(words({"one", "two"}), words({"one", "too"})) == "vocabulary-mismatch");
  CHECK(code_with(words({"one"}), words({"one", "two"})) == "vocabulary-mismatch");
  CHECK(code_with(words({"<end>"}, fd::TokenKind::kControl),
                  words({"<eos>"}, fd::TokenKind::kControl)) == "vocabulary-mismatch");
  // Models that say nothing of their pieces are compared by what they say.
  toy::Target target(16), other(17);
  CHECK(code_of([&] {
          fd::Decoder decoder{target, toy::TokenCache{}, Draft{other, toy::TokenCache{}, {}},
                              fd::Greedy{}};
        }) == "vocabulary-mismatch");
}

TEST_CASE("vllm#10913: vocabularies that differ in their padding go together") {
  fd::VocabularyData padded = words({"one", "two"});
  for (const char* name : {"[PAD1]", "[PAD2]", "[PAD3]"}) {
    toy::add(padded, name, fd::TokenKind::kUnused);
  }
  CHECK(code_with(padded, words({"one", "two"})) == "none");
  for (int i = 4; i <= 60; ++i) {  // far more padding than words: a draft would name some of it
    toy::add(padded, "[PAD" + std::to_string(i) + "]", fd::TokenKind::kUnused);
  }
  CHECK(code_with(words({"one", "two"}), padded) == "none");
  // Unused tokens in front of used ones are no padding.
  fd::VocabularyData moved = padded;
  toy::add(moved, "three");
  CHECK(code_with(moved, padded) == "vocabulary-mismatch");
  CHECK(code_with(words({"one", "two", "three"}), padded) == "vocabulary-mismatch");
}
