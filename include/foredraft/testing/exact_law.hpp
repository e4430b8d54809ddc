#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/testing/enumerating_rng.hpp>
#include <foredraft/testing/toy_target.hpp>

/// The exact joint law of what a decoder emits, and the law that it ought to be.
namespace foredraft::inline v0::testing {

using Tokens = std::vector<TokenId>;
using JointLaw = std::map<Tokens, double>;

/// Logits after the penalties that `text` brings on, each by its definition.
inline std::vector<float> penalised(std::span<const float> logits, const SamplingOptions& options,
                                    std::span<const TokenId> text) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (options.penalty_last_n >= 0) {
    text = text.last(std::min(text.size(), idx(options.penalty_last_n)));
  }
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const auto times = std::count(text.begin(), text.end(), static_cast<TokenId>(id));
    if (times == 0) continue;
    double score = scores[id];
    score = score > 0 ? score / options.repeat_penalty : score * options.repeat_penalty;
    score -= options.presence_penalty;
    score -= static_cast<double>(times) * options.frequency_penalty;
    scores[id] = static_cast<float>(score);
  }
  return scores;
}

/// p, once more and as plainly as possible: each transform by its definition, over all tokens.
/// @param text what comes before, for the penalties
/// @shape result [n_vocab]
inline std::vector<double> p_of(std::span<const float> raw, const SamplingOptions& options,
                                std::span<const TokenId> text = {}) {
  const std::vector<float> logits = penalised(raw, options, text);
  std::vector<double> p(logits.size(), 0.0);
  if (options.temperature == 0.0f) {
    p[static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())] =
        1.0;
    return p;
  }
  const double shift = *std::max_element(logits.begin(), logits.end());
  const auto normalise = [&] {
    double sum = 0;
    for (const double x : p) sum += x;
    for (double& x : p) x /= sum;
  };
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] = std::exp((logits[i] - shift) / options.temperature);
  normalise();
  // How many tokens come before token i when the likeliest are named first, and their probability.
  const auto before = [&p](std::size_t i) {
    std::pair<int, double> ahead{0, 0.0};
    for (std::size_t j = 0; j < p.size(); ++j) {
      if (p[j] > p[i] || (p[j] == p[i] && j < i)) ahead = {ahead.first + 1, ahead.second + p[j]};
    }
    return ahead;
  };
  const auto keep_where = [&](auto&& keep) {
    std::vector<double> kept(p.size(), 0.0);
    for (std::size_t i = 0; i < p.size(); ++i) kept[i] = keep(i) ? p[i] : 0.0;
    p = kept;
    normalise();
  };
  if (options.top_k > 0) keep_where([&](std::size_t i) { return before(i).first < options.top_k; });
  if (options.top_p < 1)
    keep_where([&](std::size_t i) { return before(i).second < options.top_p; });
  const double greatest = *std::max_element(p.begin(), p.end());
  keep_where([&](std::size_t i) { return p[i] >= options.min_p * greatest; });
  return p;
}

/// Law of the `n` tokens that follow `prefix`.
inline JointLaw target_law(const HashTarget& target, const Tokens& prefix,
                           const SamplingOptions& options, int n) {
  JointLaw law{{{}, 1.0}};
  for (int i = 0; i < n; ++i) {
    JointLaw longer;
    for (const auto& [tokens, probability] : law) {
      Tokens text = prefix;
      text.insert(text.end(), tokens.begin(), tokens.end());
      const std::vector<double> p = p_of(target.logits_after(text), options, text);
      for (std::size_t id = 0; id < p.size(); ++id) {
        if (p[id] == 0) continue;
        Tokens next = tokens;
        next.push_back(static_cast<TokenId>(id));
        longer[next] = probability * p[id];
      }
    }
    law = std::move(longer);
  }
  return law;
}

inline double total_variation(const JointLaw& a, const JointLaw& b) {
  double sum = 0;
  const auto in = [](const JointLaw& law, const Tokens& tokens) {
    const auto found = law.find(tokens);
    return found == law.end() ? 0.0 : found->second;
  };
  for (const auto& [tokens, probability] : a) sum += std::abs(probability - in(b, tokens));
  for (const auto& [tokens, probability] : b) {
    if (!a.contains(tokens)) sum += probability;
  }
  return sum / 2;
}

/// Law of what `program(rng)` returns, every path followed from its beginning to its end.
inline JointLaw law_of(const std::function<Tokens(Rng&)>& program,
                       EnumeratingRng::Reuse reuse = EnumeratingRng::Reuse::kRefuse) {
  JointLaw law;
  EnumeratingRng rng(reuse);
  rng.for_each_path([&] {
    const Tokens tokens = program(rng);
    law[tokens] += rng.weight();
  });
  return law;
}

/// Law of the next `n` tokens of `start`, round by round: paths that have made the same tokens
/// final go on as one. That is exact as long as no round draws with a key of an earlier one, which
/// is checked against all keys of all paths to a state. It needs a copyable decoder whose drafter
/// has no state besides the tokens, and reaches depths that following whole paths cannot.
template <typename D>
JointLaw law_by_rounds(const D& start, const Options& options, int n) {
  struct State {
    D decoder;
    double weight;
    std::vector<RngKey> used;
  };
  std::vector<std::map<Tokens, State>> states(idx(n));  // [tokens made]
  states[0].emplace(Tokens{}, State{start, 1.0, {}});
  JointLaw law;
  EnumeratingRng rng;
  for (int made = 0; made < n; ++made) {
    for (const auto& open : states[idx(made)]) {
      const Tokens& prefix = open.first;
      const State& state = open.second;
      rng.for_each_path(state.used, [&] {
        D decoder = state.decoder;
        decoder.use_rng(&rng);
        bool emitted = false;  // the first token of a round ends the call behind that round
        Options round = options;
        round.max_tokens = n - made;
        round.cancelled = [&emitted] { return emitted; };
        const Result result = decoder.resume(round, [&](const Emitted&) { emitted = true; });
        Tokens tokens = prefix;
        tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
        const double weight = state.weight * rng.weight();
        if (static_cast<int>(tokens.size()) == n) {
          law[tokens] += weight;
          return;
        }
        auto& later = states[tokens.size()];
        auto [place, inserted] =
            later.try_emplace(tokens, State{std::move(decoder), 0.0, state.used});
        place->second.weight += weight;
        std::vector<RngKey>& used = place->second.used;
        const auto add = [&used](const RngKey& key) {
          if (std::find(used.begin(), used.end(), key) == used.end()) used.push_back(key);
        };
        for (const RngKey& key : state.used) add(key);
        for (const RngKey& key : rng.keys()) add(key);
      });
    }
    states[idx(made)].clear();
  }
  return law;
}

}  // namespace foredraft::inline v0::testing
