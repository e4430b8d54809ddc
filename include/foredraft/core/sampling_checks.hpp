#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_options.hpp>

namespace foredraft::inline v0 {

namespace detail {

[[noreturn]] inline void refuse(const std::string& found, const char* expected, const char* hint) {
  throw Error(ErrorCode::kInvalidOption, found, expected, hint);
}

/// Within it, no penalised logit leaves the range of a float.
inline constexpr float kMostPenalty = 1000.0f;

inline void check_cuts(const SamplingOptions& options) {
  if (options.top_k < 0) {
    refuse("top_k " + std::to_string(options.top_k), "0 (all tokens) or more",
           "40 is a usual value");
  }
  if (!(options.top_p > 0.0f && options.top_p <= 1.0f)) {
    refuse("top_p " + std::to_string(options.top_p), "a value in (0, 1]", "1 keeps all tokens");
  }
  if (!(options.min_p >= 0.0f && options.min_p <= 1.0f)) {
    refuse("min_p " + std::to_string(options.min_p), "a value in [0, 1]", "0 keeps all tokens");
  }
  if (!(options.typical_p > 0.0f && options.typical_p <= 1.0f)) {
    refuse("typical_p " + std::to_string(options.typical_p), "a value in (0, 1]",
           "1 keeps all tokens");
  }
  if (!(options.top_n_sigma >= 0.0f) || std::isinf(options.top_n_sigma)) {
    refuse("top_n_sigma " + std::to_string(options.top_n_sigma), "a finite value >= 0",
           "0 keeps all tokens, 1 is a usual value");
  }
}

inline void check_penalties(const SamplingOptions& options) {
  if (!(options.repeat_penalty >= 1 / kMostPenalty && options.repeat_penalty <= kMostPenalty)) {
    refuse("repeat_penalty " + std::to_string(options.repeat_penalty), "a value from 0.001 to 1000",
           "1 penalises nothing");
  }
  for (const float penalty : {options.presence_penalty, options.frequency_penalty}) {
    if (std::abs(penalty) <= kMostPenalty) continue;  // false for NaN
    refuse("a presence or frequency penalty of " + std::to_string(penalty),
           "values from -1000 to 1000", "0 penalises nothing");
  }
  if (options.penalty_last_n < -1) {
    refuse("penalty_last_n " + std::to_string(options.penalty_last_n),
           "-1 (all tokens), or how many of the newest tokens count", "64 is a usual value");
  }
  const SamplingOptions unset;
  if (options.penalises()
          ? options.penalty_last_n == 0
          : options.penalty_last_n != 0 && options.penalty_last_n != unset.penalty_last_n) {
    refuse("penalty_last_n " + std::to_string(options.penalty_last_n) +
               (options.penalty_last_n == 0 ? " with penalties" : " without a penalty"),
           "a penalty and tokens to look back on", "one without the other has no effect");
  }
}

inline void check_dry(const SamplingOptions& options) {
  if (!(options.dry_multiplier >= 0.0f && options.dry_multiplier <= kMostPenalty)) {
    refuse("dry_multiplier " + std::to_string(options.dry_multiplier), "a value from 0 to 1000",
           "0 penalises nothing, 0.8 is a usual value");
  }
  if (!(options.dry_base >= 1.0f && options.dry_base <= kMostPenalty)) {
    refuse("dry_base " + std::to_string(options.dry_base), "a value from 1 to 1000",
           "1.75 is a usual value");
  }
  if (options.dry_allowed_length < 1) {
    refuse("dry_allowed_length " + std::to_string(options.dry_allowed_length), "1 or more",
           "2 is a usual value");
  }
  const int last_n = options.dry_penalty_last_n;
  if (last_n < -1 || last_n == 0) {
    refuse("dry_penalty_last_n " + std::to_string(last_n),
           "-1 (all tokens), or how many of the newest tokens count", "-1 is the usual value");
  }
  for (const std::vector<TokenId>& breaker : options.dry_breakers) {
    if (breaker.empty()) refuse("an empty DRY breaker", "at least one token", "leave it out");
  }
  const SamplingOptions unset;
  if (options.dry_multiplier == 0.0f &&
      (options.dry_base != unset.dry_base || !options.dry_breakers.empty() ||
       options.dry_allowed_length != unset.dry_allowed_length ||
       last_n != unset.dry_penalty_last_n)) {
    refuse("settings of DRY without a multiplier", "dry_multiplier above 0",
           "0.8 is a usual value; without it the others have no effect");
  }
}

inline void check_lists(const SamplingOptions& options) {
  for (const LogitBias& bias : options.logit_bias) {
    const bool never = bias.bias == -std::numeric_limits<float>::infinity();
    if (never || std::abs(bias.bias) <= kMostPenalty) continue;  // false for NaN
    refuse("a logit bias of " + std::to_string(bias.bias), "-inf, or a value from -1000 to 1000",
           "-inf forbids a token");
  }
  for (const std::vector<TokenId>& words : options.bad_words) {
    if (words.empty()) refuse("an empty bad word", "at least one token", "leave it out");
  }
  const ReasoningBudget& budget = options.reasoning;
  if (budget.tokens < -1) {
    refuse("a reasoning budget of " + std::to_string(budget.tokens),
           "-1 (no limit), or how many tokens a model may think", "0 closes the part at once");
  }
  if (budget.tokens >= 0 && (budget.open.empty() || budget.close.empty())) {
    refuse("a reasoning budget without markers", "tokens that open and close the thinking part",
           "<think> and </think> are usual ones");
  }
  if (budget.tokens < 0 && !budget.message.empty()) {
    refuse("a message of a reasoning budget without one", "tokens that a model may think",
           "leave it out");
  }
}

inline void check_dynamic_temperature(const SamplingOptions& options) {
  const SamplingOptions unset;
  if (!(options.dynatemp_range >= 0.0f) || std::isinf(options.dynatemp_range)) {
    refuse("dynatemp_range " + std::to_string(options.dynatemp_range), "a finite value >= 0",
           "0 leaves the temperature as it is");
  }
  if (!(options.dynatemp_exponent > 0.0f) || std::isinf(options.dynatemp_exponent)) {
    refuse("dynatemp_exponent " + std::to_string(options.dynatemp_exponent), "a finite value > 0",
           "1 is the usual value");
  }
  if (options.dynatemp_range == 0.0f && options.dynatemp_exponent != unset.dynatemp_exponent) {
    refuse("dynatemp_exponent without a range", "dynatemp_range above 0",
           "one without the other has no effect");
  }
}

inline void check_xtc(const SamplingOptions& options) {
  const SamplingOptions unset;
  if (!(options.xtc_probability >= 0.0f && options.xtc_probability <= 1.0f)) {
    refuse("xtc_probability " + std::to_string(options.xtc_probability), "a value in [0, 1]",
           "0 never drops a token");
  }
  if (!(options.xtc_threshold > 0.0f && options.xtc_threshold <= 0.5f)) {
    refuse("xtc_threshold " + std::to_string(options.xtc_threshold), "a value in (0, 0.5]",
           "no two tokens have more than 0.5");
  }
  if (options.xtc_probability == 0.0f && options.xtc_threshold != unset.xtc_threshold) {
    refuse("xtc_threshold without a probability", "xtc_probability above 0",
           "one without the other has no effect");
  }
}

inline void check_mirostat(const SamplingOptions& options) {
  const SamplingOptions unset;
  if (options.mirostat != 0 && options.mirostat != 2) {
    refuse("mirostat " + std::to_string(options.mirostat), "0 (none) or 2 (version 2)",
           "version 2 is the simpler one of the same paper");
  }
  if (!(options.mirostat_tau > 0.0f) || std::isinf(options.mirostat_tau)) {
    refuse("mirostat_tau " + std::to_string(options.mirostat_tau), "a finite value > 0, in bits",
           "5 is a usual value");
  }
  if (!(options.mirostat_eta > 0.0f && options.mirostat_eta <= 1.0f)) {
    refuse("mirostat_eta " + std::to_string(options.mirostat_eta), "a value in (0, 1]",
           "0.1 is a usual value");
  }
  if (options.mirostat == 0) {
    if (options.mirostat_tau == unset.mirostat_tau && options.mirostat_eta == unset.mirostat_eta) {
      return;
    }
    refuse("settings of mirostat without it", "mirostat 2", "without it they have no effect");
  }
  SamplingOptions without = options;
  without.mirostat = 0;
  if (without.cuts()) {
    refuse("mirostat with another transform that keeps some tokens", "one way to choose them",
           "mirostat chooses how many tokens stay: leave out top_k, top_p and the like");
  }
}

inline void check_order(const SamplingOptions& options) {
  if (options.samplers.empty()) return;
  for (int i = 0; i < kSamplers; ++i) {
    const auto sampler = static_cast<Sampler>(i);
    const auto times = std::count(options.samplers.begin(), options.samplers.end(), sampler);
    if (times > 1) {
      refuse("a sampler twice in samplers", "each at most once", "leave one of them out");
    }
    // The best token is the same at every temperature.
    const bool used =
        options.greedy() && sampler == Sampler::kTemperature ? false : options.uses(sampler);
    if (times == 0 && used) {
      refuse("an option whose sampler is not in samplers", "all samplers that are used",
             "a sampler that is not in the list has no effect");
    }
  }
}

}  // namespace detail

/// @errors kInvalidOption for a value out of range, or one that could have no effect
inline void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0.0f) || std::isinf(options.temperature)) {
    detail::refuse("temperature " + std::to_string(options.temperature), "a finite value >= 0",
                   "0 picks the best token, 1 leaves the model's law as it is");
  }
  detail::check_cuts(options);
  detail::check_penalties(options);
  detail::check_dry(options);
  detail::check_lists(options);
  detail::check_dynamic_temperature(options);
  detail::check_xtc(options);
  detail::check_mirostat(options);
  detail::check_order(options);
  if (options.greedy() && (options.cuts() || options.dynatemp_range != 0.0f)) {
    detail::refuse("top_k, top_p, min_p or another cut at temperature 0", "a temperature above 0",
                   "at temperature 0 the best token always wins, so these would have no effect");
  }
}

}  // namespace foredraft::inline v0
