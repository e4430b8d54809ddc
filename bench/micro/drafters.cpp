// What entering a token costs, in a text of 32768 tokens, for each drafter that looks up n-grams.
// proposals.cpp measures what they propose.
//
//   bench.drafters --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <cstddef>
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
  static const Tokens tokens = text(kHistory);
  return tokens;
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
    drafter.propose({history(), {}, {}, false, nullptr}, {}, draft);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kHistory));
}

template <typename D>
void add(const std::string& name, D (*make)()) {
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
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
