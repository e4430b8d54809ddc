#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/sampling/greatest_logit.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// log(sum(exp(logits))) in two parts: added to a large logit, the second one would lose its
/// digits.
struct LogSumExp {
  double greatest = 0;
  double rest = 0;  // log(sum(exp(logits - greatest)))

  float logprob(float logit) const noexcept {
    return static_cast<float>(static_cast<double>(logit) - greatest - rest);
  }
};

/// Added up in the order of ids: a function of the row alone.
/// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf
inline LogSumExp log_sum_exp(std::span<const float> logits) {
  const double greatest = greatest_logit(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  return {greatest, std::log(sum)};
}

/// The `k` greatest logits as log probabilities. A heap of k keeps the pass over the row cheap: of
/// n_vocab tokens few ever enter it.
/// @param best  the result; allocates nothing where it has room for k
inline void most_probable(std::span<const float> logits, const LogSumExp& sum, int k,
                          std::vector<TokenLogprob>& best) {
  const auto likelier = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
  };
  best.clear();  // holds logits at first; its front is the least of them
  const std::size_t most = std::min(logits.size(), idx(std::max(k, 0)));
  best.reserve(most);
  for (std::size_t id = 0; most > 0 && id < logits.size(); ++id) {
    const float logit = logits[id];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    if (best.size() == most) {
      if (logit <= best.front().logprob) continue;  // a tie goes to the lower id, which is there
      std::pop_heap(best.begin(), best.end(), likelier);
      best.pop_back();
    }
    best.push_back({static_cast<TokenId>(id), logit});
    std::push_heap(best.begin(), best.end(), likelier);
  }
  std::sort_heap(best.begin(), best.end(), likelier);
  for (TokenLogprob& token : best) token.logprob = sum.logprob(token.logprob);
}

}  // namespace detail

/// The `k` most probable tokens of a row under the softmax over all of it, best first, ties to the
/// lower id; tokens of probability 0 are left out.
/// @shape logits [n_vocab] @units natural log @errors kInvalidLogits for NaN, +inf, or a row
/// without any value above -inf @cost O(n_vocab + k log k) for the usual small k
inline std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k) {
  std::vector<TokenLogprob> best;
  detail::most_probable(logits, detail::log_sum_exp(logits), k, best);
  return best;
}

/// The same, and the log probability of `token`, which is -inf where it is impossible.
/// @param out  of which the memory is used
inline void logprobs_of(std::span<const float> logits, TokenId token, int k, Logprobs& out) {
  const detail::LogSumExp sum = detail::log_sum_exp(logits);
  out.logprob = sum.logprob(logits[idx(token)]);
  detail::most_probable(logits, sum, k, out.top);
}
inline Logprobs logprobs_of(std::span<const float> logits, TokenId token, int k) {
  Logprobs out;
  logprobs_of(logits, token, k, out);
  return out;
}

}  // namespace foredraft::inline v0
