#pragma once

#include <cstddef>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// The arithmetic that acceptance rules share: pure functions of p, the target's law, and q, the
/// law that a drafted token was drawn from. docs/design/acceptance.md derives the formulas.

/// q of a token that was not drawn but found: certain to be that token.
inline Law point_mass(TokenId token) { return {{token}, {1.0}}; }

/// p(token) / q(token), which may exceed 1.
/// @errors kInvalidDraft where q(token) is 0: such a token cannot have been drawn from q
inline double likelihood_ratio(const Law& p, const Law& q, TokenId token) {
  const double drafted = q(token);
  if (drafted > 0) return p(token) / drafted;
  throw Error(ErrorCode::kInvalidDraft, "a drawn token whose q is 0", "a token of q's support",
              "hand over the very law that the token was drawn from");
}

namespace detail {

/// visit(i, scale * p.p[i] - q(p.ids[i])) for each token of p's support with more than 0 of it.
/// @cost O(support of p and q)
template <typename Visit>
void for_each_excess(double scale, const Law& p, const Law& q, Visit&& visit) {
  std::size_t j = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    while (j < q.size() && q.ids[j] < p.ids[i]) ++j;
    const double drafted = j < q.size() && q.ids[j] == p.ids[i] ? q.p[j] : 0.0;
    const double excess = scale * p.p[i] - drafted;
    if (excess > 0) visit(i, excess);
  }
}

}  // namespace detail

/// sum over tokens of max(scale * p - q, 0). @cost O(support of p and q)
inline double residual_mass(double scale, const Law& p, const Law& q) noexcept {
  double mass = 0;
  detail::for_each_excess(scale, p, q, [&](std::size_t, double excess) { mass += excess; });
  return mass;
}

/// max(scale * p - q, 0), renormalised: the law of the token that replaces a rejected draft.
///
/// Where it has no mass, exact arithmetic never asks for it: a rejection is only as probable as the
/// mass is large. So rounding did, p itself is as right as any other law, and is returned.
/// @cost O(support of p and q)
inline Law residual(double scale, const Law& p, const Law& q) {
  Law rest;
  double mass = 0;
  detail::for_each_excess(scale, p, q, [&](std::size_t i, double excess) {
    rest.ids.push_back(p.ids[i]);
    rest.p.push_back(excess);
    mass += excess;
  });
  if (!(mass > 0)) return p;
  for (double& weight : rest.p) weight /= mass;
  return rest;
}

/// q once `token` is known not to be drawn again, renormalised; empty where nothing is left.
/// @cost O(support of q)
inline Law without(const Law& q, TokenId token) {
  Law rest;
  double mass = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (q.ids[i] == token) continue;
    rest.ids.push_back(q.ids[i]);
    rest.p.push_back(q.p[i]);
    mass += q.p[i];
  }
  for (double& weight : rest.p) weight /= mass;
  return rest;
}

}  // namespace foredraft::inline v0
