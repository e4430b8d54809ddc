// The text of real models is the same with and without drafts. The part that runs by default is
// small; the whole grid of depths, drafters, instruction sets and threads takes hours:
//
//   test.golden.equality "[grid]"                           all of it
//   test.golden.equality "[qwen]" -c "avx2, threads: 2"     a part

#include <foredraft/models.hpp>

#include <algorithm>
#include <iostream>
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
using Cache = fd::LinearCache<fd::f16>;

const std::string kPrompt = "def merge(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n";

struct Grid {
  std::string target;
  std::string draft;  // empty: none
  int n_tokens = 0;
  std::vector<int> depths;
};

template <typename D, typename A>
fd::Result run(Model& model, D& drafter, A rule, std::span<const fd::TokenId> prompt,
               const fd::Options& options) {
  fd::Decoder decoder{model, Cache{model.shape(), 2048}, std::move(drafter), rule};
  fd::Result result = decoder.generate(prompt, options);
  drafter = std::move(decoder.drafter());
  return result;
}

void check(const Grid& grid, fd::cpu::Isa isa, int threads) {
  const auto target_file = model_file(grid.target);
  const auto draft_file = grid.draft.empty() ? std::nullopt : model_file(grid.draft);
  if (!target_file || (!grid.draft.empty() && !draft_file)) return;
  fd::Cpu cpu{{.threads = threads, .isa = isa}};
  Model target = fd::load(cpu, *target_file);
  std::optional<Model> draft;
  if (draft_file) draft.emplace(fd::load(cpu, *draft_file));
  const auto prompt = target.tokenizer().encode(kPrompt);

  fd::NoDraft none;
  fd::Options greedy{.max_tokens = grid.n_tokens, .n_draft = 0, .ignore_end = true};
  const auto truth = run(target, none, fd::Greedy{}, prompt, greedy).tokens;
  std::vector<fd::TokenId> known = prompt;
  known.insert(known.end(), truth.begin(), truth.end());
  fd::Options sampled{.max_tokens = grid.n_tokens / 4,
                      .n_draft = 0,
                      .temperature = 1.0f,
                      .seed = 7,
                      .ignore_end = true};
  const auto text = run(target, none, fd::SampleAndMatch{}, prompt, sampled).tokens;

  Drafted by_lookup;
  Drafted by_model;
  const auto check_text = [&](const fd::Result& result, Drafted& by) {
    CHECK(result.tokens == truth);
    by.add(result);
  };
  for (const int depth : grid.depths) {
    CAPTURE(grid.target, fd::cpu::name_of(isa), threads, depth);
    greedy.n_draft = sampled.n_draft = depth;
    fd::PromptLookup lookup;
    check_text(run(target, lookup, fd::Greedy{}, prompt, greedy), by_lookup);
    auto oracle = OracleDrafter::sweeping(known, target.vocab_size());
    CHECK(run(target, oracle, fd::Greedy{}, prompt, greedy).tokens == truth);
    CHECK((oracle.covered(depth) || grid.n_tokens < (depth + 1) * (depth + 2)));
    if (draft) {
      fd::ModelDrafter model{*draft};
      check_text(run(target, model, fd::Greedy{}, prompt, greedy), by_model);
    }
    fd::PromptLookup again;
    CHECK(run(target, again, fd::SampleAndMatch{}, prompt, sampled).tokens == text);
    if (draft) {
      fd::ModelDrafter coupled{*draft};
      CHECK(run(target, coupled, fd::SampleAndMatch{}, prompt, sampled).tokens == text);
    }
    std::cout << grid.target << ' ' << fd::cpu::name_of(isa) << ", threads: " << threads
              << ", depth: " << depth << std::endl;
  }
  CHECK(by_lookup.both());
  if (draft && grid.draft != grid.target) CHECK(by_model.both());
}

/// Widest instruction set first: the portable one takes hours.
void check_all(const Grid& grid) {
  std::vector<fd::cpu::Isa> isas = usable_isas();
  std::reverse(isas.begin(), isas.end());
  for (const fd::cpu::Isa isa : isas) {
    for (const int threads : {2, 1}) {
      DYNAMIC_SECTION(fd::cpu::name_of(isa) << ", threads: " << threads) {
        check(grid, isa, threads);
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
  check({"smollm2-135m", "", 128, {3, 9, 16}}, usable_isas().back(), 2);
}

TEST_CASE("the grid on smollm2-135m", "[.][grid][smollm2]") {
  check_all({"smollm2-135m", "smollm2-135m", 512, all_depths()});
}
TEST_CASE("the grid on qwen2.5-coder-1.5b with the 0.5b draft", "[.][grid][qwen]") {
  check_all({"qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", 512, all_depths()});
}
TEST_CASE("a part of the grid on the Qwen pair", "[.][qwen-part]") {
  check({"qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", 128, {1, 4, 8, 16}}, usable_isas().back(), 2);
}
