#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <foredraft/core/constraint.hpp>

/// A constraint of functions of the answer's tokens, so that a test writes down just those.
struct PathConstraint {
  using Tokens = std::vector<foredraft::TokenId>;
  using State = std::shared_ptr<const Tokens>;

  int n_vocab;
  std::function<bool(const Tokens&, foredraft::TokenId)> allows;
  std::function<bool(const Tokens&)> ends = [](const Tokens&) { return false; };
  std::function<Tokens(const Tokens&)> forces = [](const Tokens&) { return Tokens(); };

  int vocab_size() const { return n_vocab; }
  State start() const { return std::make_shared<const Tokens>(); }
  std::optional<State> next(const State& state, foredraft::TokenId token) const {
    if (!allows(*state, token)) return std::nullopt;
    Tokens longer = *state;
    longer.push_back(token);
    return std::make_shared<const Tokens>(std::move(longer));
  }
  std::shared_ptr<const foredraft::TokenSet> mask(const State& state) const {
    foredraft::TokenSet allowed(n_vocab);
    for (foredraft::TokenId token = 0; token < n_vocab; ++token) {
      if (allows(*state, token)) allowed.add(token);
    }
    return std::make_shared<const foredraft::TokenSet>(std::move(allowed));
  }
  bool may_end(const State& state) const { return ends(*state); }
  bool finished(const State& state) const { return ends(*state) && mask(state)->empty(); }
  Tokens forced(const State& state, int n) const {
    Tokens tokens = forces(*state);
    if (tokens.size() > foredraft::idx(n)) tokens.resize(foredraft::idx(n));
    return tokens;
  }
};
static_assert(foredraft::Constraint<PathConstraint>);

/// Whether an arbitrary constraint allows a token, by a hash of all tokens before: about two of
/// three, and always at least one.
inline bool arbitrarily_allowed(int n_vocab, const PathConstraint::Tokens& text,
                                foredraft::TokenId token) {
  std::uint32_t hash = 12345;
  for (const foredraft::TokenId before : text) {
    hash = (hash ^ static_cast<std::uint32_t>(before + 1)) * 2654435761u;
    hash ^= hash >> 15;
  }
  if (token == static_cast<foredraft::TokenId>(hash % static_cast<std::uint32_t>(n_vocab))) {
    return true;
  }
  return (hash >> (8 + token % 16)) % 3 != 0;
}
inline PathConstraint arbitrary_constraint(int n_vocab) {
  return {n_vocab, [n_vocab](const auto& text, foredraft::TokenId token) {
            return arbitrarily_allowed(n_vocab, text, token);
          }};
}
