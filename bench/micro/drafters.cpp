// What a proposal of 8 tokens costs behind a text of 32768 tokens, for each drafter that looks up
// n-grams, and what entering a token costs.
//
//   bench.drafters --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <foredraft/drafter/ngram_cache.hpp>
#include <foredraft/drafter/ngram_map_k.hpp>
#include <foredraft/drafter/ngram_map_k4v.hpp>
#include <foredraft/drafter/ngram_mod.hpp>
#include <foredraft/drafter/ngram_simple.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>

namespace {

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

constexpr std::size_t kHistory = 32768;
constexpr std::size_t kPlaces = 512;  // where the text goes on, one after the other

/// Words as unequal as those of a language (Zipf), and in between stretches that were there before:
/// about half of the text.
Tokens text(std::size_t n) {
  std::vector<double> weights;
  for (int rank = 1; rank <= 20000; ++rank) weights.push_back(1.0 / rank);
  std::discrete_distribution<fd::TokenId> word(weights.begin(), weights.end());
  std::mt19937 random(3);
  Tokens tokens;
  while (tokens.size() < n) {
    for (int i = 0; i < 24; ++i) tokens.push_back(word(random));
    const std::size_t from = random() % (tokens.size() - 23);
    for (std::size_t i = 0; i < 24; ++i) tokens.push_back(tokens[from + i]);
  }
  tokens.resize(n);
  return tokens;
}
const Tokens& history() {
  static const Tokens tokens = text(kHistory + kPlaces);
  return tokens;
}

/// Proposals behind the places of a text that grows token by token. What is entered is timed with
/// them, as in a round. The table of NgramMod outlives the text, so from the second time on it knows
/// how the text goes on, and each of its proposals is whole.
template <typename D>
void propose(benchmark::State& state, D (*make)()) {
  D drafter = make();
  fd::DraftTree draft;
  std::size_t drafted = 0;
  std::size_t drafts = 0;
  std::size_t size = kHistory;
  const auto round = [&](fd::Limit limit) {
    const auto tokens = std::span(history()).first(size);
    draft.reset(tokens.back());
    drafter.propose({tokens, {}, {}, false, nullptr}, limit, draft);
  };
  round({});
  for (auto _ : state) {
    if (++size > history().size()) {
      state.PauseTiming();
      size = kHistory;
      drafter.reset();
      round({});
      ++size;
      state.ResumeTiming();
    }
    round({8, 8});
    drafted += fd::idx(draft.drafted());
    drafts += draft.drafted() > 0;
  }
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["drafted"] = static_cast<double>(drafted) / rounds;
  state.counters["rounds_with_draft"] = static_cast<double>(drafts) / rounds;
}

/// Entering a whole text, a token an item, each time into a drafter that knows nothing.
template <typename D>
void enter(benchmark::State& state, D (*make)()) {
  fd::DraftTree draft;
  for (auto _ : state) {
    state.PauseTiming();
    D drafter = make();
    draft.reset(history()[kHistory - 1]);
    state.ResumeTiming();
    drafter.propose({std::span(history()).first(kHistory), {}, {}, false, nullptr}, {}, draft);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kHistory));
}

/// Levels that know other texts, 32768 tokens of each.
fd::NgramCache with_three_levels() {
  const Tokens other = text(3 * kHistory);
  const auto dynamic = std::make_shared<fd::SharedNgramCounts>();
  dynamic->learn(std::span(other).subspan(kHistory, kHistory), 0);
  const auto fixed = std::make_shared<fd::NgramCounts>();
  fixed->learn(std::span(other).last(kHistory), 0, 2, 2);
  return fd::NgramCache(dynamic, fixed, {.learns = false});
}

template <typename D>
void add(const std::string& name, D (*make)()) {
  benchmark::RegisterBenchmark((name + "/propose").c_str(), propose<D>, make);
  benchmark::RegisterBenchmark((name + "/enter").c_str(), enter<D>, make);
}

}  // namespace

int main(int argc, char** argv) {
  add<fd::PromptLookup>("prompt_lookup", [] { return fd::PromptLookup(); });
  add<fd::NgramSimple>("ngram_simple", [] { return fd::NgramSimple(); });
  add<fd::NgramMapK>("ngram_map_k", [] { return fd::NgramMapK(); });
  add<fd::NgramMapK4V>("ngram_map_k4v", [] { return fd::NgramMapK4V(); });
  add<fd::NgramMod>("ngram_mod", [] { return fd::NgramMod(); });
  add<fd::NgramCache>("ngram_cache/context", [] { return fd::NgramCache(); });
  benchmark::RegisterBenchmark("ngram_cache/three_levels/propose", propose<fd::NgramCache>,
                               with_three_levels);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
