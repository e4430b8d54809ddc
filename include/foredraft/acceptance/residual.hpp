#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/sampling/row_sampler.hpp>
#include <foredraft/sampling/tempered_row.hpp>

namespace foredraft::inline v0 {

/// The arithmetic that acceptance rules share: pure functions of p, the target's law, and q, the
/// law that a drafted token was drawn from. docs/design/acceptance.md derives the formulas.

/// q of a token that was not drawn but found: certain to be that token.
inline Law point_mass(TokenId token) { return {{token}, {1.0}}; }

/// p / q(token), which may exceed 1. @param p  of the token
/// @errors kInvalidDraft where q(token) is 0: such a token cannot have been drawn from q
inline double likelihood_ratio(double p, const Law& q, TokenId token) {
  const double drafted = q(token);
  if (drafted > 0) return p / drafted;
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

/// max(p - q, 0) as weights, of which few need be worked out.
class ResidualWeights final : public LazyWeights {
 public:
  /// Both must outlive the use. @cost that of TemperedRow::total()
  ResidualWeights(TemperedRow& p, const Law& q) : p_(p), q_(q), scale_(1.0 / p.total()) {
    for (const double bound : p.bounds()) bounds_.push_back(bound * scale_);
  }

  std::span<const double> bounds() const noexcept override { return bounds_; }

  std::span<const double> run(std::size_t i) noexcept override {
    const std::span<const double> weights = p_.run(i);
    const auto first = static_cast<TokenId>(i * kRun);
    const auto drafted = std::lower_bound(q_.ids.begin(), q_.ids.end(), first);
    std::size_t j = idx(drafted - q_.ids.begin());
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const bool known = j < q_.size() && q_.ids[j] == first + static_cast<TokenId>(k);
      excess_[k] = std::max(weights[k] * scale_ - (known ? q_.p[j++] : 0.0), 0.0);
    }
    return std::span(excess_).first(weights.size());
  }

 private:
  TemperedRow& p_;
  const Law& q_;
  double scale_;
  std::vector<double> bounds_;
  std::array<double, kRun> excess_{};
};

/// A token of max(p - q, 0) renormalised, with p the law after `node`.
/// @errors kInvalidLogits
/// @cost O(n_vocab + support of q); where nothing is cut off O(n_vocab / Scores::kRun), and the runs
/// that are looked at: few as long as q leaves much of p, at worst all
inline TokenId draw_residual(const RowSampler& rows, NodeIndex node, const Law& q, RngKey key,
                             Rng& rng) {
  if (TemperedRow* p = rows.lazily(node)) {
    ResidualWeights rest(*p, q);
    if (const TokenId token = rng.pick(key, rest); token >= 0) return token;
    return rng.pick(key, *p);  // as residual() without mass
  }
  const Law rest = residual(1.0, rows.law(node), q);
  return rest.ids[rng.categorical(key, rest.ids, rest.p)];
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
