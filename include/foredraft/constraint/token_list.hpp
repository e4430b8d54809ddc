#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/constraint.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/token_set.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// The same tokens everywhere; the text may end anywhere.
class SameTokens {
 public:
  struct State {};

  int vocab_size() const noexcept { return allowed_->vocab_size(); }
  State start() const noexcept { return {}; }
  std::optional<State> next(State, TokenId token) const noexcept {
    return allowed_->contains(token) ? std::optional<State>{State{}} : std::nullopt;
  }
  std::shared_ptr<const TokenSet> mask(State) const noexcept { return allowed_; }
  bool may_end(State) const noexcept { return true; }
  bool finished(State) const noexcept { return allowed_->empty(); }
  std::vector<TokenId> forced(State, int) const { return {}; }

 protected:
  explicit SameTokens(TokenSet allowed)
      : allowed_(std::make_shared<const TokenSet>(std::move(allowed))) {}

  static void check(TokenId token, int n_vocab) {
    if (token >= 0 && token < n_vocab) return;
    throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                "a token below " + std::to_string(n_vocab), "was it made with another tokenizer?");
  }

 private:
  std::shared_ptr<const TokenSet> allowed_;
};

}  // namespace detail

/// No other tokens than these, besides those that end the text.
class AllowedTokens : public detail::SameTokens {
 public:
  /// @errors kTokenOutOfRange
  AllowedTokens(int n_vocab, std::span<const TokenId> tokens) : SameTokens(of(n_vocab, tokens)) {}

 private:
  static TokenSet of(int n_vocab, std::span<const TokenId> tokens) {
    TokenSet allowed(n_vocab);
    for (const TokenId token : tokens) check(token, n_vocab), allowed.add(token);
    return allowed;
  }
};

/// None of these tokens.
class ForbiddenTokens : public detail::SameTokens {
 public:
  /// @errors kTokenOutOfRange
  ForbiddenTokens(int n_vocab, std::span<const TokenId> tokens) : SameTokens(of(n_vocab, tokens)) {}

 private:
  static TokenSet of(int n_vocab, std::span<const TokenId> tokens) {
    TokenSet allowed(n_vocab);
    allowed.add_all();
    for (const TokenId token : tokens) check(token, n_vocab), allowed.remove(token);
    return allowed;
  }
};

static_assert(Constraint<AllowedTokens> && Constraint<ForbiddenTokens>);

}  // namespace foredraft::inline v0
