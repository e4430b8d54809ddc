#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/rng.hpp>

/// Knows the true continuation and proposes it with seeded errors, so that every draft index is
/// both accepted and rejected somewhere. `branches` > 1 makes trees: decoys beside the true token,
/// before or behind it, each with a child where there is room.
class OracleDrafter : public foredraft::StatelessDrafter {
 public:
  static constexpr foredraft::Proposal proposal = foredraft::Proposal::kPointMass;
  static constexpr foredraft::Shape shape = foredraft::Shape::kTree;

  OracleDrafter(std::vector<foredraft::TokenId> truth, int n_vocab, double error_rate,
                std::uint64_t seed, int branches = 1)
      : truth_(std::move(truth)),
        n_vocab_(n_vocab),
        error_rate_(error_rate),
        seed_(seed),
        branches_(branches) {}

  /// Wrong at one index a round, at each in turn and then at none: covers all of them soon.
  static OracleDrafter sweeping(std::vector<foredraft::TokenId> truth, int n_vocab,
                                int branches = 1) {
    OracleDrafter drafter(std::move(truth), n_vocab, 0.0, 1, branches);
    drafter.sweep_ = true;
    return drafter;
  }

  int max_depth() const noexcept { return foredraft::DraftTree::kMaxNodes - 1; }

  void propose(const foredraft::Context& context, foredraft::Limit limit,
               foredraft::DraftTree& draft) {
    ++round_;
    foredraft::Philox noise(seed_, static_cast<std::uint32_t>(round_));
    foredraft::NodeIndex node = 0;
    for (int i = 0; i < limit.depth; ++i) {
      const std::size_t at = context.tokens.size() + foredraft::idx(i);
      const bool wrong = sweep_ ? i == round_ % (limit.depth + 1)
                                : noise.bernoulli({foredraft::Purpose::kDraft, i, 0}, error_rate_);
      const foredraft::TokenId right = true_token(at);
      const foredraft::TokenId token = wrong ? (right + 1) % n_vocab_ : right;
      const bool decoy_first = noise.bernoulli({foredraft::Purpose::kDraft, i, 1}, 0.5);
      if (draft.drafted() + branches_ > limit.nodes) break;
      // The levels that follow come first; only what they leave is for children of decoys.
      int spare = limit.nodes - draft.drafted() - branches_ * (limit.depth - i);
      if (i + 1 == limit.depth) spare = 0;
      if (branches_ > 1 && decoy_first) add_decoys(draft, node, at, spare);
      const foredraft::NodeIndex next = draft.add(node, token);
      if (branches_ > 1 && !decoy_first) add_decoys(draft, node, at, spare);
      node = next;
    }
  }

  void commit(const foredraft::Round& round) noexcept {
    const int accepted = static_cast<int>(round.path.size()) - 1;
    for (int i = 0; i < accepted; ++i) ++accepted_at[foredraft::idx(i)];
    if (accepted < round.draft.max_depth()) ++rejected_at[foredraft::idx(accepted)];
    const auto kept = [&](foredraft::NodeIndex node) {
      return std::find(round.path.begin(), round.path.end(), node) != round.path.end();
    };
    for (foredraft::NodeIndex node = 1; node < round.draft.size(); ++node) {
      const foredraft::NodeIndex decoy = round.draft.parent(node);
      if (decoy == 0 || kept(decoy)) continue;
      const foredraft::NodeIndex fork = round.draft.parent(decoy);
      subtrees += kept(fork) && fork != round.path.back();
    }
  }

  /// Every draft index below `depth` was accepted and rejected at least once; and in trees that are
  /// deep enough, there were subtrees beside accepted tokens.
  bool covered(int depth) const noexcept {
    if (branches_ > 1 && depth > 1 && subtrees == 0) return false;
    for (int i = 0; i < depth; ++i) {
      if (accepted_at[foredraft::idx(i)] == 0 || rejected_at[foredraft::idx(i)] == 0) return false;
    }
    return true;
  }

  std::array<int, foredraft::DraftTree::kMaxNodes> accepted_at{};
  std::array<int, foredraft::DraftTree::kMaxNodes> rejected_at{};
  int subtrees = 0;  // of two nodes, that hung beside an accepted one and had to vanish

 private:
  foredraft::TokenId true_token(std::size_t at) const {
    return at < truth_.size() ? truth_[at] : 0;
  }

  /// Wrong siblings of the token at `at`, up to `spare` of them with a child: whole subtrees that
  /// have to vanish without a trace. Each child is the token that is right behind the right one.
  void add_decoys(foredraft::DraftTree& draft, foredraft::NodeIndex parent, std::size_t at,
                  int spare) const {
    for (int i = 1; i < branches_; ++i) {
      const auto decoy = draft.add(parent, (true_token(at) + 1 + i) % n_vocab_);
      if (i <= spare) draft.add(decoy, true_token(at + 1));
    }
  }

  std::vector<foredraft::TokenId> truth_;
  int n_vocab_;
  double error_rate_;
  std::uint64_t seed_;
  int branches_;
  bool sweep_ = false;
  int round_ = 0;
};
static_assert(foredraft::Drafter<OracleDrafter>);
