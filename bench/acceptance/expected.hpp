#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>

/// Expected acceptance of a given draft, from p and q alone: what a rule would accept on average
/// over its own randomness, without drawing any of it.
///
/// Each function gives, for every depth i, the probability that at least i + 1 drafts are accepted.
/// The last token of a prefix is averaged over too: its own p(d) or min(1, p(d) / q(d)) is replaced
/// by its mean over d ~ q, which leaves the expectation alone and takes more of the noise out.
/// docs/design/acceptance.md derives the rules.
namespace bench {

namespace fd = foredraft;

/// A drafted chain. q stays empty where the tokens are point mass. @shape [depth] each
struct Chain {
  std::vector<fd::TokenId> tokens;
  std::vector<fd::Law> p;  ///< of the target, behind the tokens before
  std::vector<fd::Law> q;  ///< that tokens[i] was drawn from
};

using PerDepth = std::vector<double>;

/// sum of f(p(x), q(x)) over the tokens that both laws have. @cost O(support of p and q)
template <typename F>
double sum_over_common(const fd::Law& p, const fd::Law& q, F&& f) {
  double sum = 0;
  std::size_t j = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    while (j < q.size() && q.ids[j] < p.ids[i]) ++j;
    if (j == q.size()) break;
    if (q.ids[j] == p.ids[i]) sum += f(p.p[i], q.p[j]);
  }
  return sum;
}

/// Point-mass drafts, under match, rejection and block verification alike: p(d) is what each of
/// them accepts.
inline PerDepth point_mass(const Chain& chain) {
  PerDepth result;
  double reached = 1;
  for (std::size_t i = 0; i < chain.tokens.size(); ++i) {
    result.push_back(reached *= chain.p[i](chain.tokens[i]));
  }
  return result;
}

/// Drafts drawn from q with noise of their own, compared with the target's sample: sum p q.
inline PerDepth match_drawn(const Chain& chain) {
  PerDepth result;
  double reached = 1;
  for (std::size_t i = 0; i < chain.tokens.size(); ++i) {
    const auto product = [](double p, double q) { return p * q; };
    result.push_back(reached * sum_over_common(chain.p[i], chain.q[i], product));
    reached *= chain.p[i](chain.tokens[i]);
  }
  return result;
}

/// Rejection sampling: sum min(p, q).
inline PerDepth rejection_drawn(const Chain& chain) {
  PerDepth result;
  double reached = 1;
  for (std::size_t i = 0; i < chain.tokens.size(); ++i) {
    const fd::Law& p = chain.p[i];
    const fd::Law& q = chain.q[i];
    result.push_back(reached *
                     sum_over_common(p, q, [](double a, double b) { return std::min(a, b); }));
    reached *= std::min(1.0, p(chain.tokens[i]) / q(chain.tokens[i]));
  }
  return result;
}

/// Block verification. R_i, the worth of a prefix, is the probability that at least this prefix is
/// accepted, whatever is drafted behind it: with S = R_i - sum min(q, R_i p) it passes with
/// h = S / (S + 1 - R_i), and h + (1 - h) sum min(q, R_i p) = R_i. So it is the mean of
/// min(1, R_{i-1} p(d) / q(d)), which is sum min(q, R_{i-1} p).
/// @source Sun et al. 2024, arXiv:2403.10444
inline PerDepth block_drawn(const Chain& chain) {
  PerDepth result;
  double worth = 1;
  for (std::size_t i = 0; i < chain.tokens.size(); ++i) {
    const fd::Law& p = chain.p[i];
    const fd::Law& q = chain.q[i];
    result.push_back(
        sum_over_common(p, q, [worth](double a, double b) { return std::min(worth * a, b); }));
    worth = std::min(1.0, worth * p(chain.tokens[i]) / q(chain.tokens[i]));
  }
  return result;
}

/// Probabilities that samples of p and q with common Gumbel noise are the same token.
struct Agreement {
  double any = 0;   ///< whichever token it is
  double here = 0;  ///< the one that was asked for
};

/// Token x wins both races with probability 1 / sum over y of max(p(y) / p(x), q(y) / q(x)).
/// @cost O(n log n) for n tokens of the common support
/// @source Daliri et al. 2024, arXiv:2408.07978
inline Agreement coupled_agreement(const fd::Law& p, const fd::Law& q, fd::TokenId token) {
  std::vector<std::pair<double, double>> both;  // p, q
  double p_before = 1;  // of tokens that q lacks: there the maximum is p(y) / p(x)
  sum_over_common(p, q, [&](double a, double b) {
    both.emplace_back(a, b);
    p_before -= a;
    return 0.0;
  });
  p_before = std::max(p_before, 0.0);
  // By q / p: before x the maximum is p(y) / p(x), behind it q(y) / q(x).
  std::sort(both.begin(), both.end(),
            [](const auto& a, const auto& b) { return a.second * b.first < b.second * a.first; });
  double q_behind = 1;  // with what q has alone
  const std::pair asked{p(token), q(token)};
  Agreement agreement;
  for (const auto& [a, b] : both) {
    p_before += a;
    q_behind = std::max(q_behind - b, 0.0);
    const double here = 1 / (p_before / a + q_behind / b);
    agreement.any += here;
    if (std::pair{a, b} == asked) agreement.here = here;  // tokens of equal p and q agree alike
  }
  return agreement;
}

/// Drafts sampled with the target's noise. The chain need not be: drawn from q with any noise, it
/// is weighed by how much more or less often coupled samples would agree on it.
inline PerDepth match_coupled(const Chain& chain) {
  PerDepth result;
  double reached = 1;
  for (std::size_t i = 0; i < chain.tokens.size(); ++i) {
    const fd::TokenId token = chain.tokens[i];
    const Agreement agreement = coupled_agreement(chain.p[i], chain.q[i], token);
    result.push_back(reached * agreement.any);
    reached *= agreement.here / chain.q[i](token);
  }
  return result;
}

}  // namespace bench
