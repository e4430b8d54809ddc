// What a proposal of the drafters without a model costs behind a long text, and what token recycling
// costs a round. Percentiles, because indexes grow now and then.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <foredraft/foredraft.hpp>

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
constexpr int kHistory = 32768;
constexpr int kRounds = 2000;
constexpr int kVocab = 151936;

/// Tokens as frequent as words are; half of the text is made of stretches that were there before.
Tokens text_of(std::size_t n, double copied) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  Tokens text;
  while (text.size() < n) {
    const bool copy = text.size() > 1000 && uniform(random) < copied;
    const std::size_t length = 5 + random() % 40;
    const std::size_t from = copy ? random() % (text.size() - length) : 0;
    for (std::size_t i = 0; i < length; ++i) {
      // Zipf's law: the logarithm of the rank is uniform.
      text.push_back(copy ? text[from + i]
                          : static_cast<fd::TokenId>(std::exp(uniform(random) * 10.8)));
    }
  }
  text.resize(n);
  return text;
}

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

void print(const char* name, const char* what, std::vector<double>& times, double drafted) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-28s %-20s median %7.2f us  p90 %7.2f  p99 %7.2f  tokens %.2f\n", name, what,
              at(0.5), at(0.9), at(0.99), drafted);
}

/// Rounds of two tokens behind 32k of history.
template <typename D>
void proposals(const char* name, D drafter, const Tokens& text, const char* what) {
  drafter.attach({.n_vocab = kVocab});
  fd::DraftTree draft;
  std::vector<double> times;
  double drafted = 0;
  for (int round = 0; round < kRounds; ++round) {
    fd::Context context{std::span(text).first(fd::idx(kHistory + 2 * round)), {}, {}};
    context.n_vocab = kVocab;
    draft.reset(context.anchor());
    const auto begin = std::chrono::steady_clock::now();
    drafter.propose(context, {8, D::shape == fd::Shape::kChain ? 8 : 16}, draft);
    if (round > 0) times.push_back(since(begin));  // the first reads the whole text
    drafted += draft.drafted();
  }
  print(name, what, times, drafted / kRounds);
}

/// Rounds of 8 rows: what propose and commit take together.
template <typename D>
void recycling(const char* name, const Tokens& text) {
  D drafter;
  drafter.attach({.n_vocab = kVocab});
  fd::Scores scores;
  scores.reset({fd::RowNeed::kLogits, {}}, 8, kVocab);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kVocab);
  for (int row = 0; row < 8; ++row) {
    for (float& x : logits) x = normal(random);
    scores.set_row(row, logits);
    const auto maxima = scores.hand_over_maxima(row);
    for (std::size_t run = 0; run < maxima.size(); ++run) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(run * fd::Scores::kRun);
      maxima[run] = *std::max_element(begin, begin + fd::Scores::kRun);
    }
  }
  fd::DraftTree draft;
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    fd::Context context{std::span(text).first(fd::idx(1 + round)), {}, {}};
    context.n_vocab = kVocab;
    draft.reset(context.anchor());
    auto begin = std::chrono::steady_clock::now();
    drafter.propose(context, {7, 7}, draft);
    double time = since(begin);
    while (draft.size() < 8) draft.extend(text[fd::idx(round + draft.size())]);
    const std::vector<fd::NodeIndex> path{0};
    const Tokens made{text[fd::idx(round + 1)]};
    begin = std::chrono::steady_clock::now();
    drafter.commit({draft, path, made, scores, round});
    times.push_back(time + since(begin));
  }
  print(name, "round of 8 rows", times, 0);
}

}  // namespace

int main() {
  for (const double copied : {0.1, 0.5, 0.95}) {
    const Tokens text = text_of(kHistory + 2 * kRounds, copied);
    char what[32];
    std::snprintf(what, sizeof(what), "%.0f %% repeated", copied * 100);
    proposals("prompt lookup", fd::PromptLookup{}, text, what);
    proposals("suffix automaton", fd::SuffixAutomaton{}, text, what);
    const auto cache = std::make_shared<fd::SuffixCache>();
    cache->insert(text_of(kHistory, copied));
    proposals("suffix, text alone", fd::SuffixDecoding<>{{.max_cached_requests = 0}}, text, what);
    proposals("suffix, with cache", fd::SuffixDecoding<>{{}, cache}, text, what);
    proposals("suffix tree of 16, cache", fd::SuffixDecoding<fd::Shape::kTree>{{}, cache}, text,
              what);
  }
  const Tokens text = text_of(kHistory, 0.5);
  recycling<fd::TokenRecycling<>>("recycling, chain", text);
  recycling<fd::TokenRecycling<fd::Shape::kTree>>("recycling, tree", text);
}
