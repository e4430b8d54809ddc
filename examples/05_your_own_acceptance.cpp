// 05 Your own acceptance rule, and a computation, not a sample, that says whether it is lossless.

#include <iostream>

#include <foredraft/foredraft.hpp>
#include <foredraft/testing/law.hpp>

namespace fd = foredraft;

/// Token by token: accept a draft with probability p / q, replace the first one that fails.
struct TokenByToken {
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr bool uses_law() noexcept { return true; }  // it reads q
  static constexpr bool lossless = true;

  bool subtract_q = true;  // without it: the textbook mistake, a replacement drawn from p itself

  fd::RowNeed needs(const fd::SamplingOptions& sampling) const {
    return sampling.argmax_suffices() ? fd::RowNeed::kArgmax : fd::RowNeed::kLogits;
  }

  fd::Verdict verify(const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng& rng) const {
    // Random numbers have names. Those of a round carry the position of its anchor, so that no
    // two rounds share one.
    const fd::Position anchor = rows.anchor_position();
    fd::Verdict verdict;
    verdict.start();
    for (;;) {
      const fd::NodeIndex node = verdict.end();
      const fd::NodeIndex child = draft.first_child(node);
      fd::Law p = rows.law(node);  // the target's law, after temperature, top-k, penalties, ...
      if (child >= 0) {
        const fd::TokenId token = draft.token(child);
        const bool drawn = draft.siblings(node) != fd::Siblings::kPointMass;
        const fd::Law q = drawn ? draft.law(node) : fd::point_mass(token);
        const double ratio = fd::likelihood_ratio(p(token), q, token);
        if (rng.bernoulli({fd::Purpose::kAccept, anchor, child}, ratio)) {
          verdict.accept(child);
          continue;
        }
        if (subtract_q) p = fd::residual(1.0, p, q);
      }
      verdict.last = p.ids[rng.categorical({fd::Purpose::kResidual, anchor, node}, p.ids, p.p)];
      return verdict;
    }
  }
};
static_assert(fd::Acceptance<TokenByToken>);

int main() {
  const auto right = fd::testing::check_law(TokenByToken{});
  const auto wrong = fd::testing::check_law(TokenByToken{.subtract_q = false});
  std::cout << "with the residual, it " << right << "with p itself, it " << wrong;
  return right.keeps_the_law() && !wrong.keeps_the_law() ? 0 : 1;
}
