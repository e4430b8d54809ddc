#pragma once

#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/round.hpp>

#include "support/catch.hpp"

using Tokens = std::vector<foredraft::TokenId>;

/// The chain that a drafter proposes behind `tokens`. Every node of it says how sure it is.
template <typename D>
foredraft::DraftTree draft_of(D& drafter, const Tokens& tokens, int depth,
                              int n_vocab = std::numeric_limits<int>::max()) {
  foredraft::DraftTree draft;
  draft.reset(tokens.back());
  drafter.propose({tokens, {}, {}, false, nullptr, n_vocab}, {depth, depth}, draft);
  CHECK(draft.is_chain());
  CHECK(draft.drafted() <= depth);
  for (foredraft::NodeIndex node = 1; node < draft.size(); ++node) {
    CHECK(draft.confidence(node) > 0.0f);
    CHECK(draft.confidence(node) <= 1.0f);
  }
  return draft;
}

template <typename D>
Tokens proposed(D& drafter, const Tokens& tokens, int depth,
                int n_vocab = std::numeric_limits<int>::max()) {
  Tokens drafted;
  const foredraft::DraftTree draft = draft_of(drafter, tokens, depth, n_vocab);
  for (const foredraft::Node& node : draft.nodes().subspan(1)) drafted.push_back(node.token);
  return drafted;
}

/// Tell a drafter that `next` became final behind `tokens`, and append it.
template <typename D>
void commit(D& drafter, Tokens& tokens, const Tokens& next) {
  foredraft::DraftTree draft;
  draft.reset(tokens.back());
  for (std::size_t i = 0; i + 1 < next.size(); ++i) draft.extend(next[i]);
  const auto path = foredraft::first_nodes(static_cast<int>(next.size()));
  const foredraft::Scores scores;
  drafter.commit({draft, path, next, scores, static_cast<foredraft::Position>(tokens.size()) - 1});
  tokens.insert(tokens.end(), next.begin(), next.end());
}

/// `count` tokens from `first` on, no two alike.
inline Tokens ascending(foredraft::TokenId first, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

inline Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens all;
  for (const Tokens& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}
