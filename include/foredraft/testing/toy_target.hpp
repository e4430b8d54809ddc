#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <foredraft/cache/token_cache.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>

/// An engine that is not foredraft's own: its logits are a function of the tokens before.
namespace foredraft::inline v0::testing {

using foredraft::TokenCache;

/// Logits from a hash of the last `order` tokens (0: of the whole text, so that one wrong cache row
/// changes everything behind it). `sharpness` scales the logits.
class HashTarget {
 public:
  static constexpr bool row_exact = true;

  explicit HashTarget(int n_vocab = 16, int order = 1, double sharpness = 3.0,
                      std::uint32_t seed = 1)
      : n_vocab_(n_vocab), order_(order), sharpness_(sharpness), seed_(seed) {}

  int vocab_size() const { return n_vocab_; }
  bool is_end(TokenId token) const { return token == end_token; }
  std::string piece(TokenId token) const {
    return pieces.empty() ? std::string(1, static_cast<char>('a' + token % 26)) + ' '
                          : pieces[idx(token)];
  }

  void forward(std::span<Request<TokenCache>> requests) {
    ++passes;
    if (before_forward) before_forward();
    for (Request<TokenCache>& request : requests) {
      request.scores->reset(request.want, request.count, n_vocab_);
      if (request.want.rows == RowNeed::kNothing) continue;
      for (int row = 0; row < request.count; ++row) {
        const auto logits = logits_after(request.cache->text_of(request.first + row));
        request.scores->set_row(row, logits);
        add_up_runs(logits, request.want.temperature, request.scores->hand_over_maxima(row),
                    request.scores->hand_over_sums(row));
      }
    }
  }

  std::vector<float> logits_after(std::span<const TokenId> prefix) const {
    if (order_ > 0 && prefix.size() > idx(order_)) {
      prefix = prefix.subspan(prefix.size() - idx(order_));
    }
    std::uint64_t hash = seed_;
    for (const TokenId token : prefix) {
      hash = (hash ^ (static_cast<std::uint64_t>(token) + 1)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    std::vector<float> logits(idx(n_vocab_));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto words =
          philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(hash),
                      static_cast<std::uint32_t>(hash >> 32), 0},
                     {seed_, 0});
      logits[i] = static_cast<float>(sharpness_ * (static_cast<double>(words[0]) * 0x1p-31 - 1.0));
    }
    return logits;
  }

  TokenId end_token = -1;
  std::vector<std::string> pieces;
  std::function<void()> before_forward;  // may throw, to make a pass fail
  int passes = 0;
  double sum_factor = 1.0;  // any other makes the sums of runs wrong

 private:
  /// As a head would hand them over; places are empty where nobody wants them.
  void add_up_runs(std::span<const float> logits, double temperature, std::span<float> maxima,
                   std::span<double> sums) const {
    for (std::size_t run = 0; run < maxima.size(); ++run) {
      const std::size_t begin = run * Scores::kRun;
      const auto tokens = logits.subspan(begin, std::min(Scores::kRun, logits.size() - begin));
      maxima[run] = *std::max_element(tokens.begin(), tokens.end());
      if (sums.empty()) continue;
      sums[run] = 0;
      for (const float x : tokens)
        sums[run] += sum_factor * std::exp((double{x} - maxima[run]) / temperature);
    }
  }

  int n_vocab_;
  int order_;
  double sharpness_;
  std::uint32_t seed_;
};
static_assert(Target<HashTarget, TokenCache>);
static_assert(TextTarget<HashTarget>);

}  // namespace foredraft::inline v0::testing
