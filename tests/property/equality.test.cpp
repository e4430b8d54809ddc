// The text is the same: greedy output with drafting equals plain greedy output, token for token, on
// every instruction set that this machine executes, with one and more threads, for every drafter
// and depth; and match gives a seed its text whatever is drafted.

#include <foredraft/models.hpp>

#include <algorithm>
#include <vector>

#include "backend/cpu/for_each_table.hpp"
#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/oracle_drafter.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};

using Model = fd::Model<fd::Cpu>;

/// One model on one backend, with caches of type C.
template <typename C>
struct Setting {
  using ByModel = fd::ModelDrafter<Model, C>;
  using BySelf = fd::SelfDrafter<fd::Cpu, C>;

  Setting(fd::Cpu& cpu, const fd::Gguf& target_file, const fd::Gguf& draft_file)
      : target(fd::load(cpu, target_file)), draft(fd::load(cpu, draft_file)) {}

  template <typename D, typename A>
  fd::Result run(D& drafter, A acceptance, const fd::Options& options) {
    fd::Decoder decoder{target, C{target.shape()}, std::move(drafter), acceptance};
    fd::Result result = decoder.generate(kPrompt, options);
    drafter = std::move(decoder.drafter());
    return result;
  }

  Model target;
  Model draft;
};

/// The text that oracles know: prompt and continuation.
std::vector<fd::TokenId> after_prompt(const std::vector<fd::TokenId>& tokens) {
  std::vector<fd::TokenId> all = kPrompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

template <typename C = fd::LinearCache<fd::f16>>
void check_equality(const TinyModel& tiny, int threads, const std::vector<int>& depths,
                    int n_tokens = 512) {
  const auto target_bytes = tiny.file();
  // The same model with less precise weights: often right, often wrong.
  TinyModel small = tiny;
  small.n_layers = 1;
  const auto draft_bytes = small.file();
  const fd::Gguf target_file = fd::Gguf::parse(target_bytes);
  const fd::Gguf draft_file = fd::Gguf::parse(draft_bytes);

  for_each_table([&](const fd::cpu::KernelTable& table) {
    fd::Cpu cpu{{.threads = threads, .isa = table.isa}};
    Setting<C> setting(cpu, target_file, draft_file);
    fd::NoDraft none;
    const fd::Options plain{.max_tokens = n_tokens, .n_draft = 0, .ignore_end = true};
    const auto truth = setting.run(none, fd::Greedy{}, plain).tokens;
    REQUIRE(truth.size() == fd::idx(n_tokens));

    Drafted by_lookup;
    Drafted by_model;
    Drafted by_self;
    const bool attends = setting.target.shape().states.empty();
    const auto check = [&](const fd::Result& result, Drafted& by) {
      CHECK(result.tokens == truth);
      by.add(result);
    };
    for (const int depth : depths) {
      CAPTURE(threads, depth);
      const fd::Options options{.max_tokens = n_tokens, .n_draft = depth, .ignore_end = true};
      fd::PromptLookup lookup{{.min_match = 1, .tokens_per_match = 16}};
      check(setting.run(lookup, fd::Greedy{}, options), by_lookup);
      typename Setting<C>::ByModel model{setting.draft};
      check(setting.run(model, fd::Greedy{}, options), by_model);
      if (attends) {
        typename Setting<C>::BySelf self{setting.target, {0}};
        check(setting.run(self, fd::Greedy{}, options), by_self);
      }
      for (const int branches : {1, 3}) {
        auto oracle = OracleDrafter::sweeping(after_prompt(truth), tiny.n_vocab, branches);
        CHECK(setting.run(oracle, fd::Greedy{}, options).tokens == truth);
        CHECK(oracle.covered(depth));
      }
    }
    CHECK(by_lookup.drafted > 0);  // random weights may repeat themselves always or never
    CHECK(by_model.both());
    CHECK(by_self.both() == attends);

    // A seed has one text, whatever is drafted.
    fd::Options sampled{.max_tokens = 128,
                        .n_draft = 0,
                        .sampling = {.temperature = 1.0f},
                        .seed = 42,
                        .ignore_end = true};
    const auto text = setting.run(none, fd::SampleAndMatch{}, sampled).tokens;
    sampled.n_draft = 6;
    fd::PromptLookup lookup{{.min_match = 1}};
    CHECK(setting.run(lookup, fd::SampleAndMatch{}, sampled).tokens == text);
    typename Setting<C>::ByModel coupled{setting.draft};
    CHECK(setting.run(coupled, fd::SampleAndMatch{}, sampled).tokens == text);
    auto oracle = OracleDrafter::sweeping(after_prompt(text), tiny.n_vocab, 2);
    CHECK(setting.run(oracle, fd::SampleAndMatch{}, sampled).tokens == text);
    CHECK(oracle.covered(sampled.n_draft));
  });
}

}  // namespace

TEST_CASE("llama family, blocks of 32: equal at every depth on one and two threads") {
  std::vector<int> depths;
  for (int depth = 1; depth <= 16; ++depth) depths.push_back(depth);
  for (const int threads : {1, 2}) check_equality({}, threads, depths);
}

TEST_CASE("qwen2 family, blocks of 256: equal at every depth on one and two threads") {
  TinyModel tiny;
  tiny.family = "qwen2";
  tiny.type = fd::TensorType::kQ4_K;
  tiny.tied = false;
  tiny.d_model = 256;
  tiny.d_ff = 256;
  for (const int threads : {1, 2}) check_equality(tiny, threads, {1, 4, 9, 16}, 256);
}

TEST_CASE("gemma3 family, far past its windows: equal at every depth on one and two threads") {
  TinyModel tiny;
  tiny.family = "gemma3";
  tiny.n_layers = 3;
  for (const int threads : {1, 2}) check_equality(tiny, threads, {1, 4, 9, 16}, 192);
  tiny.window = 40;  // more than a block of attention
  tiny.d_head = 64;
  check_equality<fd::LinearCache<fd::q8_0>>(tiny, 2, {5}, 128);
}

TEST_CASE("gemma4 family, of which layers share keys: equal on one and two threads") {
  TinyModel tiny;
  tiny.family = "gemma4";
  tiny.n_layers = 4;
  for (const int threads : {1, 2}) check_equality(tiny, threads, {1, 7}, 96);
}

TEST_CASE("the other families: equal on two threads") {
  for (const char* family : {"qwen3", "gemma2", "granite", "olmo2", "phi3", "qwen3moe"}) {
    CAPTURE(family);
    TinyModel tiny;
    tiny.family = family;
    check_equality(tiny, 2, {1, 7}, 96);
  }
}

TEST_CASE("families with a gated delta net: equal on two threads") {
  for (const char* family : {"qwen35", "qwen3next"}) {
    CAPTURE(family);
    TinyModel tiny;
    tiny.family = family;
    check_equality<fd::HybridCache<fd::f16>>(tiny, 2, {1, 7}, 96);
  }
}

TEST_CASE("a quantized cache") {
  TinyModel tiny;
  tiny.d_head = 64;
  for (const int threads : {1, 2}) {
    check_equality<fd::LinearCache<fd::q8_0>>(tiny, threads, {1, 2, 3, 7, 8, 9, 16}, 256);
  }
}

TEST_CASE("every weight format") {
  for (const fd::TensorType type : kernels_under_test::kTypes) {
    CAPTURE(fd::layout_of(type)->name);
    TinyModel tiny;
    tiny.type = type;
    tiny.d_model = 256;
    tiny.d_ff = 256;
    check_equality(tiny, 2, {4}, 128);
  }
}

TEST_CASE("the same model as its own draft is always right") {
  const auto bytes = TinyModel{}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::Cpu cpu{{.threads = 1}};
  Setting<fd::LinearCache<fd::f16>> setting(cpu, file, file);
  constexpr int n_tokens = 512;
  for (int depth = 1; depth <= 8; ++depth) {
    fd::ModelDrafter same{setting.draft};
    const auto result = setting.run(same, fd::Greedy{},
                                    {.max_tokens = n_tokens, .n_draft = depth, .ignore_end = true});
    CHECK(result.stats.accepted == result.stats.drafted);
    CHECK(result.stats.corrected == 0);
    fd::ModelDrafter drawn{setting.draft, {.sampling = fd::DraftSampling::kDrawn}};
    const auto sampled = setting.run(drawn, fd::RejectionSampling{},
                                     {.max_tokens = n_tokens,
                                      .n_draft = depth,
                                      .sampling = {.temperature = 1.0f},
                                      .seed = 1,
                                      .ignore_end = true});
    CHECK(sampled.stats.accepted == sampled.stats.drafted);  // q == p: nothing is ever rejected
  }
}
