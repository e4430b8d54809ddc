// 03 Your own drafter: after a token, propose what followed it most recently, token by token.

#include <iostream>
#include <map>

#include "bigram.hpp"

namespace fd = foredraft;

/// Remembers, for each token, the token that came after it last.
class LastSuccessor : public fd::DrafterBase {
 public:
  // What it proposes at most: tokens found by any means, one after the other.
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;
  struct Snapshot {};

  int max_depth() const { return 8; }

  // Fill the draft. Everything final is in context.tokens; the last of them is the anchor, which is
  // in the draft already.
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (; learnt_ + 1 < context.tokens.size(); ++learnt_) {
      successor_[context.tokens[learnt_]] = context.tokens[learnt_ + 1];
    }
    fd::TokenId token = context.anchor();
    for (int i = 0; i < limit.depth; ++i) {
      token = successor_[token];
      draft.extend(token);
    }
  }

  // It learns from the context alone, so DrafterBase says the rest but for this. What another text
  // taught it is forgotten: the next propose() learns what it needs again.
  void reset() noexcept {
    successor_.clear();
    learnt_ = 0;
  }
  void truncate(int) noexcept { reset(); }
  Snapshot snapshot() const { return {}; }
  void restore(const Snapshot&) { reset(); }

 private:
  std::map<fd::TokenId, fd::TokenId> successor_;
  std::size_t learnt_ = 0;  // tokens learnt from so far
};
static_assert(fd::Drafter<LastSuccessor>);

int main() {
  bigram::Model target{bigram::kText};
  fd::Decoder decoder{target, bigram::Cache{}, LastSuccessor{}, fd::Greedy{}};
  const auto result = decoder.generate(target.encode("the mouse"), {.max_tokens = 30});
  std::cout << result.text << "\n\n" << result.stats;
}
