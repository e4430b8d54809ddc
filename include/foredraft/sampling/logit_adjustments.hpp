#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/sampling/dry.hpp>
#include <foredraft/sampling/history.hpp>

namespace foredraft::inline v0 {

/// What has to come next, for a text that has used up its reasoning budget; -1: anything may.
///
/// The part is open behind the last `open` that no `close` follows. Behind `tokens` tokens of it the
/// message and `close` follow, of which the text may end with the beginning already.
/// @cost O(tokens behind the last marker)
inline TokenId forced_by(const ReasoningBudget& budget, const Lookback& text) noexcept {
  if (budget.tokens < 0) return -1;
  std::size_t thought = 0;
  while (!text.ends_with(budget.open.items(), thought)) {
    if (thought >= text.size() || text.ends_with(budget.close.items(), thought)) return -1;
    ++thought;
  }
  if (thought < idx(budget.tokens)) return -1;
  const std::size_t n_message = budget.message.size();
  const auto said = [&](std::size_t i) {
    return i < n_message ? budget.message[i] : budget.close[i - n_message];
  };
  // The longest beginning of it that the text ends with, and that the budget forced.
  std::size_t n = std::min(thought - idx(budget.tokens), n_message + budget.close.size() - 1);
  const auto ends_with_first = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (text[count - 1 - i] != said(i)) return false;
    }
    return true;
  };
  while (!ends_with_first(n)) --n;
  return said(n);
}

/// How many of a text's newest tokens options depend on; the largest number for all of them.
inline std::size_t lookback_of(const SamplingOptions& options) noexcept {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  if (options.reasoning.tokens >= 0) return kAll;  // back to the last marker
  const auto of = [](int last_n) { return last_n < 0 ? kAll : idx(last_n); };
  std::size_t most = options.penalises() ? of(options.penalty_last_n) : 0;
  if (options.uses(Sampler::kDry)) most = std::max(most, of(options.dry_penalty_last_n));
  for (const auto& words : options.bad_words) most = std::max(most, words.size() - 1);
  return most;
}

/// Changes rows of logits before a law is made of them. The object only keeps buffers.
/// What it does is a function of the row and of the text before it. Ids that the row does not have
/// change nothing: a draft model may know fewer tokens.
class LogitAdjustments {
 public:
  /// Make room for texts of `n_tokens`, so that nothing is allocated later.
  void reserve(const SamplingOptions& options, std::size_t n_tokens) {
    seen_.reserve(n_tokens);
    if (options.uses(Sampler::kDry)) dry_.reserve(options.dry_breakers.size(), n_tokens);
  }

  /// The reasoning budget, which decides alone unless the row itself forbids what it forces, as that
  /// of a constraint may; then biases, bad words and tokens that are held back.
  /// @shape logits [n_vocab] @cost O(items of the lists); O(n_vocab) where a token is forced
  static void allow(const SamplingOptions& options, const Lookback& text,
                    std::span<float> logits) noexcept {
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    const TokenId forced = forced_by(options.reasoning, text);
    if (forced >= 0 && idx(forced) < logits.size() && logits[idx(forced)] != kNever) {
      std::fill(logits.begin(), logits.end(), kNever);
      logits[idx(forced)] = 0.0f;
      return;
    }
    const auto forbid = [&](TokenId token) {
      if (idx(token) < logits.size()) logits[idx(token)] = kNever;
    };
    for (const LogitBias& bias : options.logit_bias) {
      if (idx(bias.token) < logits.size()) logits[idx(bias.token)] += bias.bias;
    }
    for (const std::vector<TokenId>& words : options.bad_words) {
      if (text.ends_with(std::span(words).first(words.size() - 1))) forbid(words.back());
    }
    if (text.position() < idx(options.held_back.until)) {
      for (const TokenId token : options.held_back.tokens) forbid(token);
    }
  }

  /// Repeat, presence and frequency penalties.
  /// @param visit called as visit(token, f) for each token that occurred; f(logit) is its penalised
  /// logit
  /// @source repeat: Keskar et al. 2019, arXiv:1909.05858, with the sign handled as is usual since;
  /// presence and frequency: as the OpenAI API defines them
  template <typename Visit>
  void for_each_penalised(const SamplingOptions& options, const Lookback& text, Visit&& visit) {
    seen_.clear();
    const std::size_t n = text.reach(options.penalty_last_n);
    for (std::size_t i = 0; i < n; ++i) seen_.push_back(text[i]);
    std::sort(seen_.begin(), seen_.end());
    for (auto token = seen_.begin(); token != seen_.end();) {
      const auto next = std::upper_bound(token, seen_.end(), *token);
      const auto times = static_cast<double>(next - token);
      visit(*token, [&](double x) {
        const double repeat = options.repeat_penalty;
        return static_cast<float>((x > 0 ? x / repeat : x * repeat) - options.presence_penalty -
                                  options.frequency_penalty * times);
      });
      token = next;
    }
  }

  /// The same for DRY.
  template <typename Visit>
  void for_each_repeating(const SamplingOptions& options, const Lookback& text, Visit&& visit) {
    dry_.for_each_penalty(options, text, [&](TokenId token, double penalty) {
      visit(token, [=](double x) { return static_cast<float>(x - penalty); });
    });
  }

  /// Both, in the order of the options, in place.
  /// @shape logits [n_vocab]
  void penalise(const SamplingOptions& options, const Lookback& text, std::span<float> logits) {
    const auto change = [&](TokenId token, auto&& penalised) {
      if (idx(token) < logits.size()) logits[idx(token)] = penalised(double{logits[idx(token)]});
    };
    const auto place = [&](Sampler sampler) {
      return std::find(options.samplers.begin(), options.samplers.end(), sampler);
    };
    const bool dry_first = place(Sampler::kDry) < place(Sampler::kPenalties);
    const auto repeating = [&] {
      if (options.uses(Sampler::kDry)) for_each_repeating(options, text, change);
    };
    if (dry_first) repeating();
    if (options.penalises()) for_each_penalised(options, text, change);
    if (!dry_first) repeating();
  }

 private:
  std::vector<TokenId> seen_;  // what the penalties look back on, in any order
  Dry dry_;
};

}  // namespace foredraft::inline v0
