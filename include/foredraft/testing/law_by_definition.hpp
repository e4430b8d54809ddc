#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/types.hpp>

/// p, once more and as plainly as possible: each transform by its definition, over all tokens.
namespace foredraft::inline v0::testing {

using Text = std::span<const TokenId>;

inline bool ends_with(Text text, Text end) {
  return text.size() >= end.size() && std::ranges::equal(text.last(end.size()), end);
}

/// Repeat, presence and frequency penalty of a token's logit.
inline double penalised(double x, TokenId token, const SamplingOptions& options, Text text) {
  if (options.penalty_last_n >= 0) {
    text = text.last(std::min(text.size(), idx(options.penalty_last_n)));
  }
  const auto times = static_cast<double>(std::count(text.begin(), text.end(), token));
  if (times == 0) return x;
  x = x > 0 ? x / options.repeat_penalty : x * options.repeat_penalty;
  return static_cast<float>(x - options.presence_penalty - times * options.frequency_penalty);
}

/// DRY's of a token's logit: every place where it stood is tried with every length.
inline double undried(double x, TokenId token, const SamplingOptions& options, Text text) {
  if (options.dry_penalty_last_n >= 0) {
    text = text.last(std::min(text.size(), idx(options.dry_penalty_last_n)));
  }
  std::size_t longest = 0;
  for (std::size_t place = 0; place < text.size(); ++place) {
    if (text[place] != token) continue;
    for (std::size_t length = 1; length <= place; ++length) {
      const Text repeated = text.subspan(place - length, length);
      bool broken = false;
      for (std::size_t end = text.size() - length + 1; end <= text.size(); ++end) {
        for (const auto& breaker : options.dry_breakers) {
          broken = broken || ends_with(text.first(end), breaker);
        }
      }
      if (!broken && ends_with(text, repeated)) longest = std::max(longest, length);
    }
  }
  if (longest < idx(options.dry_allowed_length)) return x;
  const double over = static_cast<double>(longest) - options.dry_allowed_length;
  return static_cast<float>(x - options.dry_multiplier * std::pow(options.dry_base, over));
}

/// The only token that may follow under a reasoning budget, told from the beginning of the text; -1:
/// any.
inline TokenId forced_after(const ReasoningBudget& budget, Text text) {
  if (budget.tokens < 0) return -1;
  std::vector<TokenId> said(budget.message.begin(), budget.message.end());
  said.insert(said.end(), budget.close.begin(), budget.close.end());
  int thought = -1;  // tokens of the part that is open; -1: none is
  std::size_t forced = 0;
  for (std::size_t n = 1; n <= text.size(); ++n) {
    const Text before = text.first(n);
    if (thought >= budget.tokens) forced = before.back() == said[forced] ? forced + 1 : 0;
    if (thought >= 0) ++thought;
    if (ends_with(before, budget.open.items())) thought = 0, forced = 0;
    if (ends_with(before, budget.close.items())) thought = -1, forced = 0;
  }
  return thought >= budget.tokens && thought >= 0 ? said[forced] : -1;
}

/// What is possible at all: logits after biases, bad words, what is held back and the budget.
inline std::vector<double> allowed(std::span<const float> logits, const SamplingOptions& options,
                                   Text text) {
  std::vector<double> x(logits.begin(), logits.end());
  const double never = -std::numeric_limits<double>::infinity();
  TokenId forced = forced_after(options.reasoning, text);
  if (forced >= 0 && (idx(forced) >= x.size() || x[idx(forced)] == never)) forced = -1;
  for (std::size_t id = 0; id < x.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    for (const LogitBias& bias : options.logit_bias) {
      if (bias.token == token) x[id] = static_cast<float>(x[id] + bias.bias);
    }
    for (const auto& words : options.bad_words) {
      if (words.back() == token && ends_with(text, Text(words).first(words.size() - 1))) {
        x[id] = never;
      }
    }
    for (const TokenId held : options.held_back.tokens) {
      if (held == token && static_cast<Position>(text.size()) < options.held_back.until) {
        x[id] = never;
      }
    }
    if (forced >= 0) x[id] = token == forced ? 0.0 : never;
  }
  return x;
}

inline std::vector<double> softmax(const std::vector<double>& x) {
  const double greatest = *std::max_element(x.begin(), x.end());
  std::vector<double> p;
  for (const double value : x) p.push_back(std::exp(value - greatest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

/// The order by which a cut keeps tokens: what it prefers first, then the lower id.
inline std::vector<std::size_t> by_preference(const std::vector<double>& preference) {
  std::vector<std::size_t> order(preference.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return preference[a] > preference[b]; });
  return order;
}

/// The fewest tokens that reach `enough`, in that order.
inline std::vector<bool> fewest(const std::vector<double>& preference, const std::vector<double>& p,
                                double enough) {
  std::vector<bool> keep(p.size(), false);
  double mass = 0;
  for (const std::size_t i : by_preference(preference)) {
    if (mass < enough) keep[i] = true;
    mass += p[i];
  }
  return keep;
}

inline double entropy_of(const std::vector<double>& p) {
  double entropy = 0;
  for (const double value : p) entropy -= value > 0 ? value * std::log(value) : 0.0;
  return entropy;
}

inline std::vector<double> finite_ones(const std::vector<double>& x) {
  std::vector<double> left;
  for (const double value : x) {
    if (std::isfinite(value)) left.push_back(value);
  }
  return left;
}

/// The temperature, which the entropy of what is left may move.
inline void temper(const SamplingOptions& options, std::vector<double>& x) {
  const auto n = static_cast<double>(finite_ones(x).size());
  double temperature = options.temperature;
  if (options.dynatemp_range > 0 && n > 1) {
    const double least = std::max(0.0, temperature - options.dynatemp_range);
    const double most = temperature + options.dynatemp_range;
    temperature = least + (most - least) * std::pow(entropy_of(softmax(x)) / std::log(n),
                                                    options.dynatemp_exponent);
  }
  // Where a penalty follows it sees the logits; else the greatest is taken off, for precision.
  const double off = options.reordered() ? 0.0 : *std::max_element(x.begin(), x.end());
  for (double& value : x) value = (value - off) / temperature;
}

/// Which tokens a cut keeps.
inline std::vector<bool> kept(Sampler sampler, const SamplingOptions& options,
                              const std::vector<double>& x) {
  const std::vector<double> p = softmax(x);
  std::vector<bool> keep(x.size(), true);
  switch (sampler) {
    case Sampler::kPenalties:
    case Sampler::kDry:
    case Sampler::kTemperature: break;  // no cuts
    case Sampler::kTopK: {
      const auto order = by_preference(x);
      for (std::size_t i = idx(options.top_k); i < order.size(); ++i) keep[order[i]] = false;
      break;
    }
    case Sampler::kTypicalP: {
      std::vector<double> nearness;
      for (const double value : p) {
        nearness.push_back(-std::abs(-std::log(value) - entropy_of(p)));
      }
      keep = fewest(nearness, p, options.typical_p);
      break;
    }
    case Sampler::kTopP: keep = fewest(p, p, options.top_p); break;
    case Sampler::kMinP: {
      const double greatest = *std::max_element(p.begin(), p.end());
      for (std::size_t i = 0; i < p.size(); ++i) keep[i] = p[i] >= options.min_p * greatest;
      break;
    }
    case Sampler::kTopNSigma: {
      const std::vector<double> left = finite_ones(x);
      const auto n = static_cast<double>(left.size());
      const double greatest = *std::max_element(x.begin(), x.end());
      const double mean = std::accumulate(left.begin(), left.end(), 0.0) / n;
      double variance = 0;
      for (const double value : left) variance += (value - mean) * (value - mean) / n;
      for (std::size_t i = 0; i < x.size(); ++i) {
        keep[i] = x[i] >= greatest - options.top_n_sigma * std::sqrt(variance);
      }
      break;
    }
    case Sampler::kXtc: {
      const auto order = by_preference(p);
      for (std::size_t i = 0; i + 1 < order.size(); ++i) {
        keep[order[i]] = p[order[i + 1]] < options.xtc_threshold;
      }
      break;
    }
  }
  return keep;
}

/// One transform of what is left; logits of what is not are -inf.
inline void transform(Sampler sampler, const SamplingOptions& options, Text text,
                      std::vector<double>& x) {
  if (sampler == Sampler::kTemperature) return temper(options, x);
  if (sampler == Sampler::kPenalties || sampler == Sampler::kDry) {
    for (std::size_t id = 0; id < x.size(); ++id) {
      const auto token = static_cast<TokenId>(id);
      if (!std::isfinite(x[id])) continue;
      x[id] = sampler == Sampler::kDry ? undried(x[id], token, options, text)
                                       : penalised(x[id], token, options, text);
    }
    return;
  }
  const std::vector<bool> keep = kept(sampler, options, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!keep[i]) x[i] = -std::numeric_limits<double>::infinity();
  }
}

/// What the transforms from place `first` on make of logits, the two sides of XTC weighed.
inline std::vector<double> transformed(std::vector<double> x, const SamplingOptions& options,
                                       std::span<const Sampler> order, Text text,
                                       double most_surprise) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != Sampler::kXtc) {
      transform(order[i], options, text, x);
      continue;
    }
    std::vector<double> without = x;
    transform(Sampler::kXtc, options, text, without);
    const auto rest = order.subspan(i + 1);
    const std::vector<double> a = transformed(x, options, rest, text, most_surprise);
    const std::vector<double> b = transformed(without, options, rest, text, most_surprise);
    std::vector<double> p;
    for (std::size_t id = 0; id < a.size(); ++id) {
      p.push_back((1.0 - options.xtc_probability) * a[id] + options.xtc_probability * b[id]);
    }
    return p;
  }
  std::vector<double> p = softmax(x);
  if (options.mirostat == 0) return p;
  const auto best = std::max_element(p.begin(), p.end()) - p.begin();
  for (std::size_t id = 0; id < x.size(); ++id) {
    const bool best_of_none = -std::log2(p[idx(best)]) > most_surprise && idx(best) == id;
    if (-std::log2(p[id]) > most_surprise && !best_of_none) {
      x[id] = -std::numeric_limits<double>::infinity();
    }
  }
  return softmax(x);
}

/// @param text what comes before
/// @param most_surprise mirostat's bound
/// @shape result [n_vocab]
inline std::vector<double> p_of(std::span<const float> logits, const SamplingOptions& options,
                                Text text = {},
                                double most_surprise = std::numeric_limits<double>::infinity()) {
  std::vector<Sampler> order(options.samplers.begin(), options.samplers.end());
  for (int i = 0; i < kSamplers && options.samplers.empty(); ++i) {
    order.push_back(static_cast<Sampler>(i));
  }
  std::erase_if(order, [&](Sampler sampler) {
    const bool logits_only = sampler == Sampler::kPenalties || sampler == Sampler::kDry;
    return !options.uses(sampler) || (options.greedy() && !logits_only);
  });
  std::vector<double> x = allowed(logits, options, text);
  if (!options.greedy()) return transformed(std::move(x), options, order, text, most_surprise);
  for (const Sampler sampler : order) transform(sampler, options, text, x);
  std::vector<double> p(x.size(), 0.0);
  p[idx(std::max_element(x.begin(), x.end()) - x.begin())] = 1.0;
  return p;
}

}  // namespace foredraft::inline v0::testing
