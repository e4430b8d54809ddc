#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <foredraft/testing/drafts.hpp>

#include "support/exact_law.hpp"
#include "support/function_policies.hpp"

/// Drafters and acceptance rules with one known mistake each, and the same with the mistake undone.
/// The tests of the law have to refute the former and pass the latter.
namespace mutants {

namespace fd = foredraft;
using law::LawAfter;
using law::Tokens;

/// Which position a random number belongs to.
enum class KeyBy {
  kAnchor,    ///< that of the round's anchor: no two rounds share it
  kPosition,  ///< that of the token itself: a later round at the same position sees it again
};

// ---- drafters ----------------------------------------------------------------------------------

struct Drawing {
  LawAfter draw_from;             // the law a token is drawn from
  LawAfter hand_over = {};        // mutant: the law said to be q; empty: draw_from
  KeyBy key_by = KeyBy::kAnchor;  // mutant: kPosition
  double p_min = 0.0;             // tokens of a smaller q end the draft ...
  enum class Unlikely {
    kStopAfter,       // ... after them
    kWithdraw,        // ... before them. Mutant: the tokens that stay no longer have the law q
    kWithdrawUnlawed  // ... before them, and nothing is said to be drawn
  } unlikely = Unlikely::kStopAfter;
};

/// A chain of tokens, each drawn given those before it.
inline TreeFunction drawn(Drawing how) {
  return {[how](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    Tokens text(context.tokens.begin(), context.tokens.end());
    for (int i = 0; i < limit.depth; ++i) {
      const fd::Law q = how.draw_from(text);
      const fd::RngKey key =
          how.key_by == KeyBy::kAnchor
              ? fd::RngKey{fd::Purpose::kDraft, context.anchor_position(), i + 1}
              : fd::RngKey{fd::Purpose::kDraft, context.anchor_position() + i + 1, 0};
      const fd::TokenId token = q.ids[context.rng->categorical(key, q.ids, q.p)];
      const bool unlikely = q(token) < how.p_min;
      if (unlikely && how.unlikely != Drawing::Unlikely::kStopAfter) return;
      if (how.unlikely != Drawing::Unlikely::kWithdrawUnlawed) {
        draft.drawn_from(draft.size() - 1) = how.hand_over ? how.hand_over(text) : q;
      }
      draft.extend(token);
      text.push_back(token);
      if (unlikely) return;
    }
  }};
}

/// A chain of tokens that are a function of the text before.
inline TreeFunction point_mass(std::function<fd::TokenId(const Tokens&)> token_after) {
  return {[token_after](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    Tokens text(context.tokens.begin(), context.tokens.end());
    for (int i = 0; i < limit.depth; ++i) {
      text.push_back(token_after(text));
      draft.extend(text.back());
    }
  }};
}

/// A chain that offers no token of a mask, a set that grammars and word lists are made of.
struct Masking {
  LawAfter draw_from;
  fd::TokenId forbidden = 0;
  bool before_drawing = true;  // mutant: false, the draft ends before a drawn token of the mask
};

inline TreeFunction masked(Masking how) {
  return {[how](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < limit.depth; ++i) {
      const fd::NodeIndex node = draft.size() - 1;
      fd::Law q = how.draw_from(law::text_at(context, draft, node));
      if (how.before_drawing) q = fd::without(q, how.forbidden);
      const fd::RngKey key{fd::Purpose::kDraft, context.anchor_position(), draft.size()};
      const fd::TokenId token = q.ids[context.rng->categorical(key, q.ids, q.p)];
      if (token == how.forbidden) return;
      draft.drawn_from(node) = q;
      draft.extend(token);
    }
  }};
}

/// One token, the better of two drafts.
struct Choosing {
  LawAfter draw_from;
  bool hand_over_q = false;  // mutant: the winner of a choice by token is no draw from q
};

inline TreeFunction better_of_two(Choosing how) {
  return {[how](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    if (limit.depth == 0) return;
    const fd::Law q = how.draw_from(law::text_at(context, draft, 0));
    const auto draw = [&](fd::NodeIndex node) {
      const fd::RngKey key{fd::Purpose::kDraft, context.anchor_position(), node};
      return q.ids[context.rng->categorical(key, q.ids, q.p)];
    };
    const fd::TokenId a = draw(1);
    const fd::TokenId b = draw(2);
    if (how.hand_over_q) draft.drawn_from(0) = q;
    draft.extend(q(a) >= q(b) ? a : b);
  }};
}

/// Two siblings at the anchor.
struct Ranking {
  LawAfter draw_from;
  fd::Siblings made = fd::Siblings::kIndependent;
  bool after_drawing = false;  // mutant: the likelier sibling is offered first
};

inline TreeFunction ranked(Ranking how) {
  return {[how](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    if (limit.depth == 0 || limit.nodes < 2) return;
    const fd::Law q = draft.drawn_from(0, how.made) =
        how.draw_from(law::text_at(context, draft, 0));
    fd::Law rest = q;
    std::vector<fd::TokenId> tokens;
    for (int i = 0; i < 2; ++i) {
      const fd::RngKey key{fd::Purpose::kDraft, context.anchor_position(), i + 1};
      tokens.push_back(rest.ids[context.rng->categorical(key, rest.ids, rest.p)]);
      if (how.made == fd::Siblings::kWithoutReplacement) rest = fd::without(rest, tokens.back());
    }
    if (how.after_drawing && q(tokens[1]) > q(tokens[0])) std::swap(tokens[0], tokens[1]);
    for (const fd::TokenId token : tokens) draft.add(0, token);
  }};
}

// ---- acceptance rules --------------------------------------------------------------------------

struct Rejection {
  enum class Residual {
    kRight,
    kNotSubtracted,    // mutant: p itself after a rejection
    kNotRenormalised,  // mutant: the missing mass falls to the token of the lowest id
  } residual = Residual::kRight;
  KeyBy key_by = KeyBy::kAnchor;    // mutant: kPosition
  bool ignore_temperature = false;  // mutant: p as if the temperature were 1
  bool ignore_penalties = false;    // mutant: p before the penalties
};

/// Rejection sampling as in the book, apart from what `how` says.
inline TreeRule rejection(Rejection how) {
  return {[how](const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng& rng) {
    const auto p_after = [&](fd::NodeIndex node) {
      fd::SamplingOptions options = rows.options();
      if (how.ignore_temperature && !options.greedy()) options.temperature = 1.0f;
      if (how.ignore_penalties) {
        options.repeat_penalty = 1.0f;
        options.presence_penalty = options.frequency_penalty = 0.0f;
      }
      return rows.law(node, options);
    };
    const auto draw = [&](const fd::Law& p, const std::vector<double>& weights,
                          fd::NodeIndex node) {
      const fd::RngKey key{fd::Purpose::kResidual, rows.anchor_position(), node};
      return p.ids[rng.categorical(key, p.ids, weights)];
    };
    fd::Verdict verdict;
    verdict.start();
    for (;;) {
      const fd::NodeIndex node = verdict.end();
      const fd::Law p = p_after(node);
      const fd::NodeIndex child = draft.first_child(node);
      if (child < 0) {
        verdict.last = draw(p, p.p, node);
        return verdict;
      }
      const fd::TokenId token = draft.token(child);
      const bool is_drawn = draft.siblings(node) != fd::Siblings::kPointMass;
      const auto q = [&](fd::TokenId id) {
        return is_drawn ? draft.law(node)(id) : (id == token ? 1.0 : 0.0);
      };
      const fd::RngKey key = how.key_by == KeyBy::kAnchor
                                 ? fd::RngKey{fd::Purpose::kAccept, rows.anchor_position(), child}
                                 : fd::RngKey{fd::Purpose::kAccept, rows.position_after(node), 0};
      if (rng.bernoulli(key, std::min(1.0, p(token) / q(token)))) {
        verdict.accept(child);
        continue;
      }
      std::vector<double> weights = p.p;
      if (how.residual != Rejection::Residual::kNotSubtracted) {
        double mass = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          mass += weights[i] = std::max(p.p[i] - q(p.ids[i]), 0.0);
        }
        if (how.residual == Rejection::Residual::kNotRenormalised) weights[0] += 1.0 - mass;
      }
      verdict.last = draw(p, weights, node);
      return verdict;
    }
  }};
}

struct Block {
  KeyBy key_by = KeyBy::kAnchor;  // mutant: kPosition
  bool stop_at_first_failure =
      false;  // mutant: a longer prefix is not tried after a shorter failed
};

/// Block verification: how long a prefix is accepted is decided for the whole draft at once, with
/// one test for every length. It draws tests whose tokens are not reached, which is what makes it
/// sensitive to keys.
/// @source Sun et al. 2024, arXiv:2403.10444 (p target, q draft)
inline TreeRule block(Block how) {
  return {[how](const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng& rng) {
    const int depth = draft.drafted();  // a chain: node i has depth i
    const auto residual = [&](double reached, fd::NodeIndex node, fd::Law& p) {
      p = rows.law(node);
      double mass = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double q = node == depth ? 0.0 : draft.law(node)(p.ids[i]);
        mass += p.p[i] = std::max(reached * p.p[i] - q, 0.0);
      }
      return mass;
    };
    fd::Law p;
    double reached = 1.0;  // min(1, ...) of the products of p / q so far
    double reached_at_end = 1.0;
    int accepted = 0;
    for (fd::NodeIndex node = 1; node <= depth; ++node) {
      const fd::TokenId token = draft.token(node);
      reached = std::min(1.0, reached * rows.law(node - 1)(token) / draft.law(node - 1)(token));
      double accept = reached;
      if (node < depth) {
        const double mass = residual(reached, node, p);
        const double either = mass + 1.0 - reached;
        accept = either > 0 ? mass / either : 1.0;
      }
      const fd::RngKey key =
          how.key_by == KeyBy::kAnchor
              ? fd::RngKey{fd::Purpose::kAccept, rows.anchor_position(), node}
              : fd::RngKey{fd::Purpose::kAccept, rows.position_after(node - 1), 0};
      if (rng.bernoulli(key, accept)) {
        accepted = node;
        reached_at_end = reached;
      } else if (how.stop_at_first_failure) {
        break;
      }
    }
    fd::Verdict verdict;
    verdict.start();
    for (fd::NodeIndex node = 1; node <= accepted; ++node) verdict.accept(node);
    residual(accepted == depth ? 1.0 : reached_at_end, accepted, p);
    const fd::RngKey key{fd::Purpose::kResidual, rows.anchor_position(), accepted};
    verdict.last = p.ids[rng.categorical(key, p.ids, p.p)];
    return verdict;
  }};
}

}  // namespace mutants
