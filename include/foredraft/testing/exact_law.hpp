#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/testing/enumerating_rng.hpp>
#include <foredraft/testing/law_by_definition.hpp>
#include <foredraft/testing/toy_target.hpp>

/// The exact joint law of what a decoder emits, and the law that it ought to be.
namespace foredraft::inline v0::testing {

using Tokens = std::vector<TokenId>;
using JointLaw = std::map<Tokens, double>;

/// Mirostat's bound behind `text`, of which all tokens from place `begin` on were generated.
inline double most_surprise_after(const HashTarget& target, const SamplingOptions& options,
                                  const Tokens& text, std::size_t begin) {
  double bound = 2.0 * options.mirostat_tau;
  for (std::size_t i = begin; i < text.size() && options.mirostat != 0; ++i) {
    const Tokens before(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i));
    const double p = p_of(target.logits_after(before), options, before, bound)[idx(text[i])];
    bound -= options.mirostat_eta * (-std::log2(p) - options.mirostat_tau);
  }
  return bound;
}

/// Law of the `n` tokens that follow `prefix`, whose last `made` tokens were generated.
inline JointLaw target_law(const HashTarget& target, const Tokens& prefix,
                           const SamplingOptions& options, int n, int made = 0) {
  JointLaw law{{{}, 1.0}};
  const std::size_t begin = prefix.size() - idx(made);
  for (int i = 0; i < n; ++i) {
    JointLaw longer;
    for (const auto& [tokens, probability] : law) {
      Tokens text = prefix;
      text.insert(text.end(), tokens.begin(), tokens.end());
      const double bound = most_surprise_after(target, options, text, begin);
      const std::vector<double> p = p_of(target.logits_after(text), options, text, bound);
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
