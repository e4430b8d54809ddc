#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <foredraft/core/token_set.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Says which tokens may follow an answer so far. What it says is a function of the answer's tokens
/// alone: a state for each beginning of an answer, made of the one before and a token, and nothing
/// is ever taken back.
///
/// A type `C` satisfies Constraint when, besides the syntax below:
///  1. start() is the state before the first token of the answer; next(state, token) the one behind
///     that token, nothing where the token is forbidden there;
///  2. mask(state) is the set of the tokens for which next() has a state, over vocab_size() tokens.
///     It is never null. End tokens are not its business: the loop lets them in where may_end(state)
///     holds, and nowhere else;
///  3. finished(state) implies may_end(state), and that no token may follow: the text ends there by
///     itself, without an end token;
///  4. forced(state, n) are at most n tokens that spell what has to follow, none where that is open.
///     Other tokens may spell it, too: it is a draft, not a promise;
///  5. a state is cheap to copy, and a copy does not throw. All members may be called from several
///     threads at once.
/// @see AnyConstraint, AllowedTokens, GrammarConstraint
template <typename C>
concept Constraint = requires(const C c, const typename C::State& state, TokenId token, int n) {
  { c.vocab_size() } -> std::same_as<int>;
  { c.start() } -> std::same_as<typename C::State>;
  { c.next(state, token) } -> std::same_as<std::optional<typename C::State>>;
  { c.mask(state) } -> std::same_as<std::shared_ptr<const TokenSet>>;
  { c.may_end(state) } -> std::same_as<bool>;
  { c.finished(state) } -> std::same_as<bool>;
  { c.forced(state, n) } -> std::same_as<std::vector<TokenId>>;
};

/// Any constraint behind one type, or none. Copies share it; two are equal if they share one.
/// @cost one virtual call and one small allocation a token
class AnyConstraint {
 public:
  using State = std::shared_ptr<const void>;

  AnyConstraint() = default;
  template <Constraint C>
    requires(!std::same_as<C, AnyConstraint>)
  AnyConstraint(C constraint)  // NOLINT(google-explicit-constructor): one is an AnyConstraint
      : held_(std::make_shared<const Holder<C>>(std::move(constraint))) {}

  /// There is one; the others are asked of no other.
  explicit operator bool() const noexcept { return held_ != nullptr; }

  int vocab_size() const { return held_->vocab_size(); }
  State start() const { return held_->start(); }
  /// Null: the token is forbidden.
  State next(const State& state, TokenId token) const { return held_->next(state, token); }
  std::shared_ptr<const TokenSet> mask(const State& state) const { return held_->mask(state); }
  bool may_end(const State& state) const { return held_->may_end(state); }
  bool finished(const State& state) const { return held_->finished(state); }
  std::vector<TokenId> forced(const State& state, int n) const { return held_->forced(state, n); }

  friend bool operator==(const AnyConstraint&, const AnyConstraint&) = default;

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual int vocab_size() const = 0;
    virtual State start() const = 0;
    virtual State next(const State&, TokenId) const = 0;
    virtual std::shared_ptr<const TokenSet> mask(const State&) const = 0;
    virtual bool may_end(const State&) const = 0;
    virtual bool finished(const State&) const = 0;
    virtual std::vector<TokenId> forced(const State&, int) const = 0;
  };

  template <typename C>
  struct Holder final : Interface {
    explicit Holder(C held) : constraint(std::move(held)) {}
    static const typename C::State& of(const State& state) {
      return *static_cast<const typename C::State*>(state.get());
    }
    int vocab_size() const override { return constraint.vocab_size(); }
    State start() const override {
      return std::make_shared<const typename C::State>(constraint.start());
    }
    State next(const State& state, TokenId token) const override {
      auto after = constraint.next(of(state), token);
      if (!after) return nullptr;
      return std::make_shared<const typename C::State>(*std::move(after));
    }
    std::shared_ptr<const TokenSet> mask(const State& state) const override {
      return constraint.mask(of(state));
    }
    bool may_end(const State& state) const override { return constraint.may_end(of(state)); }
    bool finished(const State& state) const override { return constraint.finished(of(state)); }
    std::vector<TokenId> forced(const State& state, int n) const override {
      return constraint.forced(of(state), n);
    }
    C constraint;
  };

  std::shared_ptr<const Interface> held_;
};

}  // namespace foredraft::inline v0
