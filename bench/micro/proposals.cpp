// What a proposal of 8 tokens costs behind a text of 32768 tokens, for each drafter that needs no model (K7), and what
// token recycling costs a round of 8 rows. Medians and percentiles over many rounds, because indexes grow now and then.
//
//   bench.proposals > result.json

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/foredraft.hpp>
#include <nlohmann/json.hpp>

#include "../support/summary.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Tokens = std::vector<fd::TokenId>;

constexpr int kHistory = 32768;
constexpr int kRounds = 2000;
constexpr int kVocab = 151936;

/// Tokens as frequent as words are; so much of the text is made of stretches that were there before.
Tokens text_of(std::size_t n, double copied, unsigned seed) {
  std::mt19937 random(seed);
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

Json figures(const std::vector<double>& microseconds) {
  Json out;
  for (const auto& [name, part] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}) {
    out[name] = bench::quantile(microseconds, part);
  }
  return out;
}

/// Rounds of two new tokens each: what is entered is timed with the proposal, as in a round.
template <typename D>
Json proposals(D drafter, const Tokens& text) {
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
  Json out = figures(times);
  out["drafted"] = drafted / kRounds;
  return out;
}

/// What propose and commit take together.
template <typename D>
Json recycling(const Tokens& text) {
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
    const double time = since(begin);
    while (draft.size() < 8) draft.extend(text[fd::idx(round + draft.size())]);
    const std::vector<fd::NodeIndex> path{0};
    const Tokens made{text[fd::idx(round + 1)]};
    begin = std::chrono::steady_clock::now();
    drafter.commit({draft, path, made, scores, round});
    times.push_back(time + since(begin));
  }
  return figures(times);
}

/// Levels that know other texts, 32768 tokens of each.
fd::NgramCache with_three_levels(const Tokens& other) {
  const auto dynamic = std::make_shared<fd::SharedNgramCounts>();
  dynamic->learn(std::span(other).first(kHistory), 0);
  const auto fixed = std::make_shared<fd::NgramCounts>();
  fixed->learn(std::span(other).last(kHistory), 0, 2, 2);
  return fd::NgramCache(dynamic, fixed, {.learns = false});
}

Json all_drafters(double copied) {
  const Tokens text = text_of(kHistory + 2 * kRounds, copied, 1);
  const Tokens other = text_of(2 * kHistory, copied, 2);
  const auto cache = std::make_shared<fd::SuffixCache>();
  cache->insert(std::span(other).last(kHistory));
  Json out;
  out["lookup"] = proposals(fd::PromptLookup{}, text);
  out["ngram-simple"] = proposals(fd::NgramSimple{}, text);
  out["ngram-map-k"] = proposals(fd::NgramMapK{}, text);
  out["ngram-map-k4v"] = proposals(fd::NgramMapK4V{}, text);
  out["ngram-mod"] = proposals(fd::NgramMod{}, text);
  out["ngram-cache"] = proposals(fd::NgramCache{}, text);
  out["ngram-cache, three levels"] = proposals(with_three_levels(other), text);
  out["suffix-automaton"] = proposals(fd::SuffixAutomaton{}, text);
  out["suffix, of the text alone"] =
      proposals(fd::SuffixDecoding<>{{.max_cached_requests = 0}}, text);
  out["suffix, and other texts"] = proposals(fd::SuffixDecoding<>{{}, cache}, text);
  out["suffix, trees of 16"] = proposals(fd::SuffixDecoding<fd::Shape::kTree>{{}, cache}, text);
  return out;
}

}  // namespace

int main() {
  Json out{{"history", kHistory}, {"rounds", kRounds}};
  for (const int percent : {10, 50, 95}) {
    out["repeated"][std::to_string(percent)] = all_drafters(percent / 100.0);
  }
  const Tokens text = text_of(kHistory, 0.5, 1);
  out["recycling"] = {{"chain", recycling<fd::TokenRecycling<>>(text)},
                      {"tree", recycling<fd::TokenRecycling<fd::Shape::kTree>>(text)}};
  std::cout << out.dump(1) << '\n';
}
