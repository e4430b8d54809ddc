#pragma once

#include <cstdint>
#include <vector>

#include <foredraft/core/shared_list.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What a user may put in another order, in the order that is the default.
enum class Sampler : std::uint8_t {
  kPenalties,
  kDry,
  kTemperature,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kTopNSigma,
  kXtc,
};
inline constexpr int kSamplers = static_cast<int>(Sampler::kXtc) + 1;

/// What is added to the logit of a token.
struct LogitBias {
  TokenId token = 0;
  float bias = 0.0f;  ///< -inf: never that token

  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

/// How long a model may think: behind `open` at most `tokens` tokens, then `message` and `close`
/// follow, whatever the model would say.
struct ReasoningBudget {
  int tokens = -1;                 ///< of the model's own; -1: as long as it likes
  SharedList<TokenId> open = {};   ///< begins the thinking part, as `think` in angle brackets does
  SharedList<TokenId> close = {};  ///< ends it
  SharedList<TokenId> message = {};  ///< said before `close` where the budget ends the part

  friend bool operator==(const ReasoningBudget&, const ReasoningBudget&) = default;
};

/// Tokens that may not stand before a position.
struct HeldBack {
  SharedList<TokenId> tokens = {};
  Position until = 0;

  friend bool operator==(const HeldBack&, const HeldBack&) = default;
};

/// How p is made from the target's logits: what must and must not follow, then the penalties, then
/// the transforms in the order of the members of Sampler; p is what is left, renormalised. Every
/// acceptance rule uses this p and nothing else. docs/design/sampling.md has formulas and sources.
///
/// What a member says of the text looks at the prompt, at what was emitted and, for the row of a
/// drafted token, at the draft up to that token.
struct SamplingOptions {
  float temperature = 0.0f;  ///< 0: always the best token
  int top_k = 0;             ///< keep the k most probable tokens; 0: all
  float top_p = 1.0f;        ///< keep the fewest tokens whose probability reaches top_p; 1: all
  float min_p = 0.0f;  ///< keep tokens of at least min_p times the greatest probability; 0: all

  /// Penalties on tokens that occurred.
  float repeat_penalty = 1.0f;     ///< divides logits above 0 and multiplies those below; 1: none
  float presence_penalty = 0.0f;   ///< taken off the logit of a token that occurred
  float frequency_penalty = 0.0f;  ///< taken off once for each time it occurred
  int penalty_last_n = 64;         ///< tokens that penalties look back on; -1: all

  SharedList<LogitBias> logit_bias = {};
  /// Sequences of tokens that must not occur: the last token of one is forbidden behind the others.
  SharedList<std::vector<TokenId>> bad_words = {};

  /// A token that would go on repeating the last L >= dry_allowed_length tokens loses
  /// dry_multiplier * dry_base^(L - dry_allowed_length) of its logit.
  float dry_multiplier = 0.0f;  ///< 0: none
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;                         ///< tokens looked back on; -1: all
  SharedList<std::vector<TokenId>> dry_breakers = {};  ///< no repetition reaches across one

  /// The temperature is between temperature - range and temperature + range, the higher the less
  /// sure the model is: min + (max - min) * (H / H_max)^exponent, with H the entropy.
  float dynatemp_range = 0.0f;  ///< 0: the temperature is what it is
  float dynatemp_exponent = 1.0f;

  float typical_p = 1.0f;    ///< keep what is most nearly as surprising as expected; 1: all
  float top_n_sigma = 0.0f;  ///< keep logits within n standard deviations of the best; 0: all

  /// With xtc_probability, drop all tokens of at least xtc_threshold but the least likely of them.
  float xtc_probability = 0.0f;  ///< 0: never
  float xtc_threshold = 0.1f;    ///< above 0.5 no two tokens reach it

  /// 2: keep tokens whose surprise is below a bound that follows the text, so that its average
  /// surprise comes to mirostat_tau. In place of the transforms that keep some tokens. 0: no.
  int mirostat = 0;
  float mirostat_tau = 5.0f;  ///< @units bits
  float mirostat_eta = 0.1f;  ///< how fast the bound moves

  SharedList<Sampler> samplers = {};  ///< another order; empty: that of Sampler
  ReasoningBudget reasoning = {};
  HeldBack held_back = {};  ///< the loop's: end tokens, where Options::min_tokens asks for it

  bool greedy() const noexcept { return temperature == 0.0f; }
  bool penalises() const noexcept {
    return repeat_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  /// Some tokens are left out of p.
  bool cuts() const noexcept {
    return top_k > 0 || top_p < 1.0f || min_p > 0.0f || typical_p < 1.0f || top_n_sigma > 0.0f ||
           xtc_probability > 0.0f || mirostat != 0;
  }
  /// Some tokens may be forbidden, wherever the text makes it so.
  bool allows_less() const noexcept {
    return !logit_bias.empty() || !bad_words.empty() || reasoning.tokens >= 0 ||
           !held_back.tokens.empty();
  }
  /// Logits change before a law is made of them.
  bool adjusts() const noexcept { return penalises() || dry_multiplier != 0.0f || allows_less(); }
  /// The best token of a row is all that p depends on, so nobody has to read the whole row.
  bool argmax_suffices() const noexcept { return greedy() && !adjusts(); }
  /// p is the softmax of the logits at `temperature`, for which few weights need be worked out.
  bool tempered() const noexcept { return !greedy() && !cuts() && !stepwise(); }
  /// Every token has to be looked at in every step: there is no short cut to p.
  bool stepwise() const noexcept {
    return typical_p < 1.0f || top_n_sigma > 0.0f || xtc_probability > 0.0f || mirostat != 0 ||
           dynatemp_range > 0.0f || reordered();
  }

  bool uses(Sampler sampler) const noexcept {
    switch (sampler) {
      case Sampler::kPenalties: return penalises();
      case Sampler::kDry: return dry_multiplier != 0.0f;
      case Sampler::kTemperature: return temperature != 1.0f || dynatemp_range != 0.0f;
      case Sampler::kTopK: return top_k > 0;
      case Sampler::kTypicalP: return typical_p < 1.0f;
      case Sampler::kTopP: return top_p < 1.0f;
      case Sampler::kMinP: return min_p > 0.0f;
      case Sampler::kTopNSigma: return top_n_sigma > 0.0f;
      case Sampler::kXtc: return xtc_probability > 0.0f;
    }
    return false;
  }
  /// What is used does not come in the default order.
  bool reordered() const noexcept {
    int last = -1;
    for (const Sampler sampler : samplers) {
      if (!uses(sampler)) continue;
      if (static_cast<int>(sampler) < last) return true;
      last = static_cast<int>(sampler);
    }
    return false;
  }
  /// The best `k` tokens that these options allow, by probability, with nothing else left out.
  SamplingOptions ranking(int k) const {
    SamplingOptions best = *this;
    best.temperature = 1.0f;
    best.top_k = k;
    best.top_p = best.typical_p = best.dynatemp_exponent = 1.0f;
    best.min_p = best.top_n_sigma = best.xtc_probability = best.dynatemp_range = 0.0f;
    best.mirostat = 0;
    best.samplers = {};
    return best;
  }

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

}  // namespace foredraft::inline v0
