#pragma once

#include <array>
#include <limits>
#include <span>

#include <foredraft/core/any_ref.hpp>
#include <foredraft/core/constraint_path.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What a drafter is told before it proposes.
struct Context {
  /// All final tokens, prompt and emitted. The newest, tokens.back(), is the anchor.
  std::span<const TokenId> tokens;
  /// Tokens that are guessed to follow. A drafter that continues() drafts behind the last of them,
  /// which is node 0 of the draft then; nothing of them may be committed. Others are never given any.
  std::span<const TokenId> assumed;
  /// The options under which the target is sampled.
  SamplingOptions sampling;
  /// The acceptance rule makes use of q. Where it does not, drawing from q gains nothing over point
  /// mass.
  bool uses_law = false;
  Rng* rng = nullptr;
  /// Tokens of the target's vocabulary: no other may be drafted, even if a draft model's is padded
  /// further.
  int n_vocab = std::numeric_limits<int>::max();
  /// Where the anchor stands under the call's constraint; null where there is none. A drafter may
  /// ignore it: found tokens that it forbids are taken out of the draft, drawn ones are rejected.
  const ConstraintPath* constraint = nullptr;
  /// Mirostat's bound on the surprise of the next token. @units bits
  double most_surprise = std::numeric_limits<double>::infinity();
  /// The call makes no more tokens than this: for who has to know what an investment may bring.
  int tokens_left = std::numeric_limits<int>::max();
  /// The target's cache, with all of `tokens` but the anchor committed, for a drafter that reads it
  /// through an Overlay. What another drafter of the round has staged may be there; whatever is staged
  /// is dropped before the target's turn.
  AnyRef cache = {};

  TokenId anchor() const noexcept { return tokens.back(); }
  /// Behind which the draft begins.
  TokenId end() const noexcept { return assumed.empty() ? anchor() : assumed.back(); }
  Position anchor_position() const noexcept { return static_cast<Position>(tokens.size()) - 1; }
};

/// How much may be drafted this round. Depth 0 is legal: nothing is drafted, but a drafter may
/// catch up.
struct Limit {
  int depth = 0;
  int nodes = 0;  ///< drafted nodes, the anchor not counted
  /// Final tokens that a drafter with a model may read to catch up. One that lags behind by more
  /// begins anew with the last of them, and passes over those before.
  int read = std::numeric_limits<int>::max();
  /// A drafter with a model goes on only behind a token whose path has at least this probability,
  /// by its own confidence. It stops behind an improbable token, it does not withdraw one: so tokens
  /// that it draws keep their law.
  float stop_below = 0.0f;
  /// The user asked for this depth: whoever chooses how much to draft does not.
  bool fixed = false;
  /// ... and for so many nodes, on how many branches ever: they are not reduced to those of a chain.
  bool fixed_nodes = false;
  /// Tokens that were not drawn are not worth a row of the target where their path has less than this
  /// probability, by the drafter's own confidence.
  float prune_below = 0.0f;
  /// Of the tokens that may be read, about so many in this round. Where more are left, the drafter drafts
  /// nothing, and goes on in the next round: one token waits for a piece of a long text, not for all of it.
  int read_at_once = std::numeric_limits<int>::max();
};

/// A block of prompt tokens that is about to be committed, with the rows that the drafter asked to
/// see.
struct PromptBlock {
  Position begin = 0;  ///< position of tokens[0]
  std::span<const TokenId> tokens;
  const Scores* scores = nullptr;
};

/// Outcome of a verification before any cut: the accepted path, which begins with node 0, and one
/// more token.
///
/// With n accepted drafts there are n + 1 rows to keep and n + 1 final tokens. The loop may shorten
/// both to a common length k: the last kept token then becomes the anchor and its row stays out of
/// the cache.
struct Verdict {
  static constexpr int kMaxPath = DraftTree::kMaxNodes;

  /// Begin a path at the anchor.
  void start() noexcept {
    path[0] = 0;
    path_size = 1;
  }
  void accept(NodeIndex node) noexcept { path[idx(path_size++)] = node; }
  NodeIndex end() const noexcept { return path[idx(path_size - 1)]; }
  int accepted() const noexcept { return path_size - 1; }

  std::array<NodeIndex, kMaxPath> path{};
  int path_size = 0;
  TokenId last = -1;  ///< bonus after full acceptance, else the target's own choice
};

/// What became of a round, told to the drafter after the cut. Valid during the call only. Which of
/// several drafters proposed a node is DraftTree::origin().
struct Round {
  const DraftTree& draft;
  std::span<const NodeIndex> path;  ///< committed nodes; begins with node 0
  std::span<const TokenId> tokens;  ///< final tokens of the round; as many as path has nodes
  const Scores& scores;             ///< rows of all nodes of the draft, rejected ones included
  Position anchor_position = 0;     ///< of node 0
  /// What the round cost: to propose, and its pass of the target, as whoever made the pass counts.
  /// @units seconds
  struct Cost {
    double draft = 0;
    double verify = 0;
  };
  Cost cost = {};
};

}  // namespace foredraft::inline v0
