#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/constraint_path.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/stats.hpp>

namespace foredraft::inline v0 {

/// One call of generate: its options, with all filled in that they leave to the target and the
/// acceptance rule, and what has come of it so far. It owns what it needs, so that turns of it may
/// outlive whoever asked; only the target and a source of randomness of the caller's are referred
/// to.
class Call {
 public:
  /// @param rng where to draw from; null: Philox, of the options' seed
  /// @errors kInvalidOption, and what the rule's needs() throws
  template <typename T, Acceptance A>
  Call(Options asked, const T& target, const A& acceptance, Rng* rng = nullptr)
      : options_(std::move(asked)), rng_(rng), philox_(options_.seed, options_.sequence) {
    if constexpr (SuppressesTokens<T>) {
      suppress(target.suppressed());
    }
    check(options_);
    need_ = acceptance.needs(options_.sampling);
    uses_law_ = acceptance.uses_law();
    if (options_.logprobs >= 0) {
      check_logprobs(target.vocab_size());
      need_ = std::max(need_, RowNeed::kLogits);
    }
    if (options_.constraint) need_ = std::max(need_, RowNeed::kLogits);
    if constexpr (TextTarget<T>) {
      if (!options_.piece) {
        options_.piece = [&target](TokenId token) { return std::string(target.piece(token)); };
      }
      if (options_.end_tokens.empty() && !options_.ignore_end) {
        is_end_ = [&target](TokenId token) { return static_cast<bool>(target.is_end(token)); };
      }
    }
    if (!options_.stop.empty() && !options_.piece) {
      throw Error(ErrorCode::kInvalidOption, "stop strings for a target without a vocabulary",
                  "Options::piece, the bytes of a token",
                  "stop at tokens instead: Options::end_tokens");
    }
    if (options_.constraint) constrain(target);
    if (options_.min_tokens > 0) ends_ = ends_of(target);
    need_early_ = std::max(need_, acceptance.needs(sampling(0)));
  }

  /// As asked for; `piece` is the target's where the caller has none, and what the target suppresses
  /// is among the logit biases.
  const Options& options() const noexcept { return options_; }
  /// Those of the options, and where min_tokens is not reached, the end tokens held back.
  /// @param next position of the token that comes next
  SamplingOptions sampling(Position next) const {
    SamplingOptions sampling = options_.sampling;
    if (early()) {
      const auto made = static_cast<Position>(stats.emitted);
      sampling.held_back = {ends_, next - made + options_.min_tokens};
    }
    return sampling;
  }
  Rng& rng() noexcept { return rng_ != nullptr ? *rng_ : philox_; }
  /// Of the acceptance rule under these options, and of log probabilities.
  RowNeed need() const noexcept { return early() ? need_early_ : need_; }
  /// The acceptance rule makes use of q.
  bool uses_law() const noexcept { return uses_law_; }

  /// The constraint's beginning; without one where there is none.
  const ConstraintPath& constraint() const noexcept { return constraint_; }

  bool cancelled() const { return options_.cancelled && options_.cancelled(); }
  bool is_end(TokenId token) const {
    const auto& ends = options_.end_tokens;
    return is_end_ ? is_end_(token) : std::find(ends.begin(), ends.end(), token) != ends.end();
  }
  /// Tokens that may still be made final, or a large number where only the context limits them.
  int tokens_left() const noexcept {
    constexpr int kUnlimited = 1 << 30;
    return options_.max_tokens < 0 ? kUnlimited
                                   : options_.max_tokens - static_cast<int>(stats.emitted);
  }

  /// Of this call alone. Who forwards a pass adds its time to `stats.seconds`.
  Stats stats;

 private:
  void check_logprobs(int n_vocab) const {
    if (options_.logprobs <= n_vocab) return;
    throw Error(ErrorCode::kInvalidOption, "logprobs " + std::to_string(options_.logprobs),
                "at most the " + std::to_string(n_vocab) + " tokens there are", "ask for fewer");
  }

  /// What the target may not write gets the bias of tokens that are forbidden.
  void suppress(std::span<const TokenId> tokens) {
    if (tokens.empty()) return;
    const auto& asked = options_.sampling.logit_bias;
    std::vector<LogitBias> biases(asked.begin(), asked.end());
    for (const TokenId token : tokens) {
      biases.push_back({token, -std::numeric_limits<float>::infinity()});
    }
    options_.sampling.logit_bias = std::move(biases);
  }

  /// A token may come before which the text must not end.
  bool early() const noexcept { return !ends_.empty() && stats.emitted < options_.min_tokens; }

  /// All tokens that end the text, ascending. A target that names its own need not be asked of each
  /// token of the vocabulary.
  template <typename T>
  std::vector<TokenId> ends_of(const T& target) const {
    const int n_vocab = target.vocab_size();
    std::vector<TokenId> ends;
    const auto take = [&](TokenId token) {
      if (token >= 0 && token < n_vocab) ends.push_back(token);
    };
    if (!is_end_) {
      std::for_each(options_.end_tokens.begin(), options_.end_tokens.end(), take);
    } else if constexpr (ListsEnds<T>) {
      for (const TokenId token : target.ends()) take(token);
    } else {
      for (TokenId token = 0; token < n_vocab; ++token) {
        if (is_end_(token)) take(token);
      }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  template <typename T>
  void constrain(const T& target) {
    if (options_.constraint.vocab_size() > target.vocab_size()) {
      throw Error(
          ErrorCode::kVocabularyMismatch,
          "a constraint over " + std::to_string(options_.constraint.vocab_size()) + " tokens",
          "at most the " + std::to_string(target.vocab_size()) + " of the target",
          "make the constraint with the target's own vocabulary");
    }
    auto ends = std::make_shared<std::vector<TokenId>>(ends_of(target));
    constraint_ = ConstraintPath(options_.constraint, std::move(ends));
  }

  Options options_;
  Rng* rng_;
  Philox philox_;
  RowNeed need_ = RowNeed::kNothing;
  RowNeed need_early_ = RowNeed::kNothing;
  SharedList<TokenId> ends_;  // where min_tokens holds them back
  bool uses_law_ = false;
  ConstraintPath constraint_;
  std::function<bool(TokenId)> is_end_;  // of the target; empty: Options::end_tokens says
};

}  // namespace foredraft::inline v0
