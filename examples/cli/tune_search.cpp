#include "tune_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <utility>

#include <foredraft/core/index.hpp>

namespace cli {

namespace {

// Prompts of the first turn of a halving; each further turn has as many more.
constexpr int kFirstPrompts = 2;

std::string joined(const std::vector<int>& numbers) {
  std::string list;
  for (const int n : numbers) list += (list.empty() ? "" : ",") + std::to_string(n);
  return list;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 1.0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// Ways that differ in one number.
std::vector<Way> with_each(const Way& way, int Way::* number, std::initializer_list<int> values) {
  std::vector<Way> ways;
  for (const int value : values) {
    ways.push_back(way);
    ways.back().*number = value;
  }
  return ways;
}

/// Prompts of turn `turn`, going round: later turns see others.
std::vector<int> prompts_of(int turn, int first, int n_prompts) {
  std::vector<int> prompts(foredraft::idx(std::min(kFirstPrompts * (turn + 1), n_prompts)));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    prompts[i] = (first + static_cast<int>(i)) % n_prompts;
  }
  return prompts;
}

struct Candidate {
  Way way;
  std::vector<double> ratios;  // auto's seconds / its own
};

/// Successive halving; the first of `ways` wins where others are no better.
class Halving {
 public:
  Halving(int n_prompts, const Measure& measure) : n_prompts_(n_prompts), measure_(&measure) {}

  Way best(const std::string& coordinate, const std::vector<Way>& ways, std::vector<Step>& steps) {
    std::vector<Candidate> left;
    for (const Way& way : ways) left.push_back({way, {}});
    std::vector<Candidate> out;
    for (int turn = 0; left.size() > 1; ++turn) {
      measure(left, prompts_of(turn, next_, n_prompts_));
      std::stable_sort(left.begin(), left.end(), [](const Candidate& a, const Candidate& b) {
        return median(a.ratios) > median(b.ratios);
      });
      // The slower half goes in front of those that left before: at the end the best comes first.
      const std::size_t keep = left.size() / 2;
      out.insert(out.begin(), left.begin() + static_cast<std::ptrdiff_t>(keep), left.end());
      left.resize(keep);
    }
    out.insert(out.begin(), left.begin(), left.end());
    for (Candidate& candidate : out) {
      if (candidate.way == Way{}) continue;  // 1, by definition
      steps.push_back({coordinate, candidate.way, Ratio::of(std::move(candidate.ratios))});
    }
    return out.front().way;
  }

 private:
  void measure(std::vector<Candidate>& candidates, const std::vector<int>& prompts) {
    next_ = (prompts.back() + 1) % n_prompts_;
    // Auto answers each time, candidate or not: all ratios are to it.
    std::vector<Way> ways{Way{}};
    for (const Candidate& candidate : candidates) {
      if (candidate.way != Way{}) ways.push_back(candidate.way);
    }
    const Lap lap = (*measure_)(ways, prompts);
    std::size_t row = 0;
    for (Candidate& candidate : candidates) {
      const bool is_auto = candidate.way == Way{};
      if (!is_auto) ++row;
      const auto& own = is_auto ? lap[0] : lap[row];
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        candidate.ratios.push_back(lap[0][i] / own[i]);
      }
    }
  }

  int n_prompts_;
  int next_ = 0;
  const Measure* measure_;
};

}  // namespace

std::string Way::options() const {
  std::string text;
  if (plain) return " --spec-type none";
  for (const std::string& name : drafters) text += (text.empty() ? " --spec-type " : ",") + name;
  if (!copy.quantize.empty()) text += " --quantize-draft " + copy.quantize;
  if (copy.vocab > 0) text += " --draft-vocab " + std::to_string(copy.vocab);
  if (!tree.empty()) text += " --spec-tree " + joined(tree);
  if (depth > 0) text += " --spec-draft-n-max " + std::to_string(depth);
  if (nodes > 0) text += " --spec-draft-nodes " + std::to_string(nodes);
  if (lookup_min > 0) text += " --spec-lookup-min " + std::to_string(lookup_min);
  if (ngram_size > 0) text += " --spec-ngram-size-n " + std::to_string(ngram_size);
  return text;
}

// As Method::asks, and only where the model is there.
bool Space::asks(const Way& way, const Kind& kind) const {
  if (way.plain || (kind.needs_model && !draft_model)) return false;
  if (way.drafters.empty()) return kind.in_auto && (!kind.needs_model || way.with_model);
  return std::find(way.drafters.begin(), way.drafters.end(), kind.name) != way.drafters.end();
}

bool Space::any_asked(const Way& way, const std::function<bool(const Kind&)>& which) const {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const Kind& kind) { return which(kind) && asks(way, kind); });
}

bool Space::uses_model(const Way& way) const {
  return any_asked(way, [](const Kind& kind) { return kind.needs_model; });
}

const std::vector<Space::Coordinate>& Space::coordinates() {
  static const std::vector<Coordinate> all{
      {"drafters", &Space::other_drafters}, {"draft model", &Space::other_copies},
      {"tree", &Space::other_trees},        {"depth", &Space::other_depths},
      {"nodes", &Space::other_nodes},       {"match", &Space::other_matches},
      {"n-gram", &Space::other_ngrams}};
  return all;
}

/// None, each one alone, auto without the draft model, auto without one of the others, and auto with one
/// of those that match n-grams, which cost next to nothing.
std::vector<Way> Space::other_drafters(const Way&) const {
  std::vector<Way> ways{{.plain = true}};
  if (draft_model) ways.push_back({.with_model = false});
  for (const Kind& kind : kinds) {
    if (draft_model || !kind.needs_model) ways.push_back({.drafters = {kind.name}});
  }
  for (const Kind& changed : kinds) {
    const bool leaves = asks({}, changed) && !changed.needs_model;
    const bool joins = !changed.in_auto && changed.takes_sizes;
    if (!leaves && !joins) continue;
    Way way;
    for (const Kind& kind : kinds) {
      const bool stays = asks({}, kind) && kind.name != changed.name;
      if (stays || (joins && kind.name == changed.name)) way.drafters.push_back(kind.name);
    }
    // One alone is there already, and none would be auto.
    if (way.drafters.size() > 1) ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Way> Space::other_copies(const Way& way) const {
  std::vector<Way> ways;
  if (!uses_model(way)) return ways;
  for (const DraftCopy& copy : copies) {
    ways.push_back(way);
    ways.back().copy = copy;
  }
  return ways;
}

std::vector<Way> Space::other_trees(const Way& way) const {
  std::vector<Way> ways;
  if (!trees || !uses_model(way)) return ways;
  for (const std::vector<int>& tree : {std::vector{2, 1, 1}, {3, 2, 1, 1}, {4, 2, 1, 1, 1}}) {
    ways.push_back(way);
    ways.back().tree = tree;
  }
  return ways;
}

std::vector<Way> Space::other_depths(const Way& way) const {
  return way.plain ? std::vector<Way>{} : with_each(way, &Way::depth, {2, 4, 8, 16});
}

std::vector<Way> Space::other_nodes(const Way& way) const {
  return way.plain ? std::vector<Way>{} : with_each(way, &Way::nodes, {4, 8, 16, 32});
}

std::vector<Way> Space::other_matches(const Way& way) const {
  const bool has_effect = any_asked(way, [](const Kind& kind) { return kind.takes_lookup_min; });
  return has_effect ? with_each(way, &Way::lookup_min, {1, 3, 5}) : std::vector<Way>{};
}

std::vector<Way> Space::other_ngrams(const Way& way) const {
  const auto takes_sizes = [](const Kind& kind) { return kind.takes_sizes; };
  const auto sized = std::find_if(kinds.begin(), kinds.end(), takes_sizes);
  if (way.plain || sized == kinds.end()) return {};
  Way with_sizes = way;
  if (!any_asked(way, takes_sizes)) {
    // None of these drafters has a size: the first one that has joins them.
    with_sizes.drafters.clear();
    for (const Kind& kind : kinds) {
      if (asks(way, kind) || kind.name == sized->name) with_sizes.drafters.push_back(kind.name);
    }
  }
  return with_each(with_sizes, &Way::ngram_size, {4, 8, 24});
}

Ratio Ratio::of(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  Ratio ratio{.median = cli::median(ratios), .prompts = static_cast<int>(n)};
  // The greatest k with P(less than k of n are below the median) <= 2.5 %.
  double term = std::pow(0.5, static_cast<double>(n));
  double below = 0;
  std::size_t k = 0;
  while (k < n / 2 && below + term <= 0.025) {
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  if (k == 0) return ratio;
  ratio.low = ratios[k - 1];
  ratio.high = ratios[n - k];
  return ratio;
}

Found search(const Space& space, int n_prompts, int rounds, const Measure& measure) {
  Found found;
  Halving halving(n_prompts, measure);
  for (const Space::Coordinate& coordinate : Space::coordinates()) {
    std::vector<Way> ways = (space.*coordinate.others)(found.best);
    if (ways.empty()) continue;
    ways.insert(ways.begin(), found.best);
    found.best = halving.best(coordinate.name, ways, found.steps);
  }
  std::vector<Way> ways{{.plain = true}, {}};
  if (found.best != ways[0] && found.best != ways[1]) ways.push_back(found.best);
  const std::size_t best = found.best == ways[0] ? 0 : found.best == ways[1] ? 1 : 2;
  std::vector<int> all(foredraft::idx(n_prompts));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Lap> laps;
  for (int round = 0; round < rounds; ++round) laps.push_back(measure(ways, all));
  // Rounds of one prompt are no independent answers: each prompt has one ratio, their median.
  const auto ratio = [&](std::size_t slow, std::size_t quick) {
    std::vector<double> of_prompts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<double> of_rounds;
      for (const Lap& lap : laps) of_rounds.push_back(lap[slow][i] / lap[quick][i]);
      of_prompts.push_back(Ratio::of(std::move(of_rounds)).median);
    }
    return Ratio::of(std::move(of_prompts));
  };
  found.to_auto = ratio(1, best);
  found.to_plain = ratio(0, best);
  found.auto_to_plain = ratio(0, 1);
  return found;
}

int most_answers(const Space& space, int n_prompts, int rounds) {
  // In the end plain decoding, auto and the best way.
  int answers = 3 * n_prompts * rounds;
  Way most{};  // it has all of what a later coordinate changes
  for (const Space::Kind& kind : space.kinds) most.drafters.push_back(kind.name);
  for (const Space::Coordinate& coordinate : Space::coordinates()) {
    std::size_t left = (space.*coordinate.others)(most).size();
    if (left == 0) continue;
    ++left;  // the one that it has to beat
    for (int turn = 0; left > 1; ++turn, left /= 2) {
      answers += static_cast<int>(left + 1) * std::min(kFirstPrompts * (turn + 1), n_prompts);
    }
  }
  return answers;
}

}  // namespace cli
