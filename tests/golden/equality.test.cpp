// The text of real models is the same with and without drafts. The part that runs by default is
// small; the whole grid of depths, drafters, instruction sets and threads takes hours:
//
//   test.golden.equality "[grid]"                                      all of it
//   test.golden.equality "[qwen]" -c "avx2, threads: 2"                a part
//   test.golden.equality "[qwen]" -c "avx2, threads: 2" -c "depth: 5"  a part of that

#include <foredraft/models.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/instruction_sets.hpp"
#include "support/models.hpp"
#include "support/oracle_drafter.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;

const std::string kPrompt = "def merge(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n";

// Tokens that let an oracle of depth 16 be wrong at every index: one without a draft, 2, 3 .. 16
// from rounds with the error at index 1, 2 .. 15, and 17 from one without any. The last round, wrong
// at index 0, makes one token, but its draft is that deep only where 17 tokens are left.
constexpr int kOneSweep = 1 + (2 + 17) * 16 / 2 + 17;

struct Grid {
  std::string target;
  std::string draft;  // empty: none
  int n_tokens = 0;   // at least kOneSweep, for depths up to 16
  std::vector<int> depths;
  /// Format of the draft model's weights, other than its file's: a model that drafts for itself is
  /// wrong at times then.
  std::optional<fd::TensorType> requantize = {};
};

/// @tparam T  storage type of the cache
template <typename T, typename D, typename A>
fd::Result run(Model& model, D& drafter, A rule, std::span<const fd::TokenId> prompt,
               const fd::Options& options) {
  fd::Decoder decoder{model, fd::LinearCache<T>{model.shape(), 2048}, std::move(drafter), rule};
  fd::Result result = decoder.generate(prompt, options);
  drafter = std::move(decoder.drafter());
  return result;
}

/// What a model writes without drafts.
struct Plain {
  std::vector<fd::TokenId> greedy;
  std::vector<fd::TokenId> sampled;
};

fd::Options greedy_options(const Grid& grid, int depth) {
  return {.max_tokens = grid.n_tokens, .n_draft = depth, .ignore_end = true};
}
fd::Options sampled_options(int depth) {
  return {.max_tokens = kOneSweep,
          .n_draft = depth,
          .sampling = {.temperature = 1.0f},
          .seed = 7,
          .ignore_end = true};
}

/// Written once for all depths, although every one of them is a section.
template <typename T>
const Plain& plain(const Grid& grid, fd::cpu::Isa isa, int threads, Model& target,
                   std::span<const fd::TokenId> prompt) {
  static std::map<std::string, Plain> known;
  const std::string key = grid.target + std::to_string(grid.n_tokens) +
                          std::string(fd::cpu::name_of(isa)) + std::to_string(threads);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  fd::NoDraft none;
  return known[key] = {
             run<T>(target, none, fd::Greedy{}, prompt, greedy_options(grid, 0)).tokens,
             run<T>(target, none, fd::SampleAndMatch{}, prompt, sampled_options(0)).tokens};
}

template <typename T>
void check(const Grid& grid, fd::cpu::Isa isa, int threads, int depth) {
  const auto target_file = model_file(grid.target);
  const auto draft_file = grid.draft.empty() ? std::nullopt : model_file(grid.draft);
  if (!target_file || (!grid.draft.empty() && !draft_file)) return;
  fd::Cpu cpu{{.threads = threads, .isa = isa}};
  Model target = fd::load(cpu, *target_file);
  std::optional<Model> draft;
  if (draft_file) draft.emplace(fd::load(cpu, *draft_file, {.requantize = grid.requantize}));
  const auto prompt = target.tokenizer().encode(kPrompt);
  const auto& [truth, text] = plain<T>(grid, isa, threads, target, prompt);
  CAPTURE(grid.target, fd::cpu::name_of(isa), threads, depth);

  const auto check_rule = [&](auto rule, const fd::Options& options,
                              const std::vector<fd::TokenId>& expected) {
    const auto drafted_with = [&](auto& drafter) {
      const fd::Result result = run<T>(target, drafter, rule, prompt, options);
      CHECK(result.tokens == expected);
      Drafted drafted;
      drafted.add(result);
      return drafted;
    };
    fd::PromptLookup lookup{{.min_match = 1}};
    const Drafted looked_up = drafted_with(lookup);
    // Sampled text seldom repeats itself: what is looked up in it need not be right.
    CHECK((options.sampling.temperature == 0 ? looked_up.both() : looked_up.drafted > 0));
    std::vector<fd::TokenId> known = prompt;
    known.insert(known.end(), expected.begin(), expected.end());
    auto oracle = OracleDrafter::sweeping(known, target.vocab_size());
    drafted_with(oracle);
    CHECK(oracle.covered(depth));
    if (!draft) return;
    fd::ModelDrafter model{*draft};
    CHECK(drafted_with(model).both());
  };
  check_rule(fd::Greedy{}, greedy_options(grid, depth), truth);
  check_rule(fd::SampleAndMatch{}, sampled_options(depth), text);
  std::cout << grid.target << ' ' << fd::cpu::name_of(isa) << ", threads: " << threads
            << ", depth: " << depth << std::endl;
}

template <typename T = fd::f16>
void check_depths(const Grid& grid, fd::cpu::Isa isa, int threads) {
  for (const int depth : grid.depths) {
    DYNAMIC_SECTION("depth: " << depth) { check<T>(grid, isa, threads, depth); }
  }
}

/// Widest instruction set first: the portable one takes hours.
void check_all(const Grid& grid) {
  std::vector<fd::cpu::Isa> isas = usable_isas();
  std::reverse(isas.begin(), isas.end());
  for (const fd::cpu::Isa isa : isas) {
    for (const int threads : {2, 1}) {
      DYNAMIC_SECTION(fd::cpu::name_of(isa) << ", threads: " << threads) {
        check_depths(grid, isa, threads);
      }
    }
  }
}

std::vector<int> all_depths() {
  std::vector<int> depths;
  for (int depth = 1; depth <= 16; ++depth) depths.push_back(depth);
  return depths;
}

}  // namespace

TEST_CASE("smollm2-135m writes the same text with drafts") {
  check_depths({"smollm2-135m", "smollm2-135m", kOneSweep, {3, 9, 16}, fd::TensorType::kQ4_0},
               usable_isas().back(), 2);
}

TEST_CASE("smollm2-135m writes the same text with drafts from a quantized cache") {
  check_depths<fd::q8_0>({"smollm2-135m", "", kOneSweep, {3, 9}}, usable_isas().back(), 2);
}

namespace {

/// A model with a window, plainly from a cache that keeps everything, and with drafts from rings
/// that have wrapped.
void check_window(int n_prompt, int n_tokens, const std::vector<int>& depths) {
  const auto file = model_file("gemma-3-270m");
  if (!file) return;
  fd::Cpu cpu{{.threads = 2}};
  Model model = fd::load(cpu, *file);
  std::vector<fd::TokenId> prompt = model.tokenizer().encode(kPrompt);
  for (std::size_t i = 0; static_cast<int>(prompt.size()) < n_prompt; ++i)
    prompt.push_back(prompt[i * 7 % prompt.size()]);
  fd::Options options{.max_tokens = n_tokens, .n_draft = 0, .ignore_end = true};
  fd::Decoder plain{model, fd::LinearCache<fd::f16>{model.shape(), 4096}, fd::NoDraft{},
                    fd::Greedy{}};
  const auto truth = plain.generate(prompt, options).tokens;
  REQUIRE(truth.size() == fd::idx(n_tokens));
  std::vector<fd::TokenId> known = prompt;
  known.insert(known.end(), truth.begin(), truth.end());
  for (const int depth : depths) {
    CAPTURE(depth);
    options.n_draft = depth;
    const auto check = [&](auto drafter) {
      fd::Decoder decoder{model, fd::RotatingCache<fd::f16>{model.shape(), 4096, 64},
                          std::move(drafter), fd::Greedy{}};
      fd::Options of = options;
      of.prefill_block = 64;
      CHECK(decoder.generate(prompt, of).tokens == truth);
    };
    check(fd::PromptLookup{{.min_match = 1}});
    check(OracleDrafter::sweeping(known, model.vocab_size(), 2));
    std::cout << "gemma-3-270m, depth: " << depth << std::endl;
  }
}

}  // namespace

TEST_CASE("gemma-3-270m writes the same text with drafts, past its window of 512") {
  check_window(560, 60, {7});
}
TEST_CASE("1500 tokens of gemma-3-270m at every depth", "[.][grid][gemma]") {
  check_window(40, 1500, all_depths());
}

TEST_CASE("the grid on smollm2-135m", "[.][grid][smollm2]") {
  check_all({"smollm2-135m", "smollm2-135m", 512, all_depths(), fd::TensorType::kQ4_0});
}
TEST_CASE("the grid on qwen2.5-coder-1.5b with the 0.5b draft", "[.][grid][qwen]") {
  check_all({"qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", 512, all_depths()});
}
TEST_CASE("a part of the grid on the Qwen pair", "[.][qwen-part]") {
  check_depths({"qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", kOneSweep, {1, 4, 8, 16}},
               usable_isas().back(), 2);
}
