#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/shared_list.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/sampling/history.hpp>

namespace foredraft::inline v0 {

/// DRY, "don't repeat yourself": penalises the token that would make a repetition longer.
///
/// Where the text ends with L tokens that occurred before, followed by token t, then t loses
/// multiplier * base^(L - allowed_length), for the longest such L if that is at least
/// allowed_length. The L tokens hold no breaker.
/// @source p-e-w 2024, text-generation-webui#5677; Z function: Gusfield 1997, section 1.4
class Dry {
 public:
  /// Make room for texts of `n_tokens`, so that nothing is allocated later.
  void reserve(std::size_t n_breakers, std::size_t n_tokens) {
    by_end_.reserve(n_breakers);
    matched_.reserve(n_tokens);
    longest_.reserve(n_tokens);
  }

  /// Penalties of a text.
  /// @param visit called as visit(TokenId, double penalty), once for each penalised token
  /// @cost O(tokens looked back on * log(breakers))
  template <typename Visit>
  void for_each_penalty(const SamplingOptions& options, const Lookback& text, Visit&& visit) {
    const std::size_t n = text.reach(options.dry_penalty_last_n);
    const std::size_t most = unbroken(options.dry_breakers, text, n);
    const auto allowed = idx(options.dry_allowed_length);
    if (most < allowed) return;
    match_with_end(text, n);
    longest_.clear();
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t length = std::min(matched_[i], most);
      if (length >= allowed) longest_.push_back({text[i - 1], length});
    }
    std::sort(longest_.begin(), longest_.end(), [](const Repetition& a, const Repetition& b) {
      return a.next != b.next ? a.next < b.next : a.length > b.length;
    });
    for (std::size_t i = 0; i < longest_.size(); ++i) {
      const Repetition& longest = longest_[i];
      if (i > 0 && longest_[i - 1].next == longest.next) continue;
      const auto over = static_cast<double>(longest.length - allowed);
      visit(longest.next,
            std::min(options.dry_multiplier * std::pow(options.dry_base, over), kMostPenalty));
    }
  }

 private:
  /// Large enough for all, and no penalised logit leaves the range of a float.
  static constexpr double kMostPenalty = 1e30;

  struct Repetition {
    TokenId next;        // what followed
    std::size_t length;  // of what was repeated
  };

  struct Breaker {
    TokenId end;        // its last token
    std::size_t place;  // in the list
  };
  struct Less {
    bool operator()(const Breaker& a, const Breaker& b) const noexcept { return a.end < b.end; }
    bool operator()(const Breaker& a, TokenId b) const noexcept { return a.end < b; }
    bool operator()(TokenId a, const Breaker& b) const noexcept { return a < b.end; }
  };

  /// How many of the newest `n` tokens come behind the last breaker among them.
  std::size_t unbroken(const SharedList<std::vector<TokenId>>& breakers, const Lookback& text,
                       std::size_t n) {
    index(breakers);
    for (std::size_t i = 0; i < n && !by_end_.empty(); ++i) {
      const auto [first, last] = std::equal_range(by_end_.begin(), by_end_.end(), text[i], Less{});
      for (auto breaker = first; breaker != last; ++breaker) {
        const std::vector<TokenId>& tokens = breakers[breaker->place];
        if (i + tokens.size() <= n && text.ends_with(tokens, i)) return i;
      }
    }
    return n;
  }

  /// There may be thousands, one for each token with a newline or a quotation mark.
  void index(const SharedList<std::vector<TokenId>>& breakers) {
    if (indexed_.items().data() == breakers.items().data()) return;
    indexed_ = breakers;  // held, so that no other list comes to lie there
    by_end_.clear();
    for (std::size_t i = 0; i < breakers.size(); ++i) by_end_.push_back({breakers[i].back(), i});
    std::sort(by_end_.begin(), by_end_.end(), Less{});
  }

  /// matched_[i]: how many tokens before place i are equal to as many at the end. On the reversed
  /// text that is its Z function.
  void match_with_end(const Lookback& text, std::size_t n) {
    matched_.assign(n, 0);
    std::size_t begin = 0;  // of the match that reaches furthest, and its end
    std::size_t end = 0;
    for (std::size_t i = 1; i < n; ++i) {
      std::size_t length = i < end ? std::min(end - i, matched_[i - begin]) : 0;
      while (i + length < n && text[length] == text[i + length]) ++length;
      matched_[i] = length;
      if (i + length > end) {
        begin = i;
        end = i + length;
      }
    }
  }

  SharedList<std::vector<TokenId>> indexed_;
  std::vector<Breaker> by_end_;  // of that list, by their last token
  std::vector<std::size_t> matched_;
  std::vector<Repetition> longest_;
};

}  // namespace foredraft::inline v0
