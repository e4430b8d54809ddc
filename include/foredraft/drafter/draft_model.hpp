#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/detail/round_parts.hpp>

namespace foredraft::inline v0 {

/// The deepest of `nodes` whose path from node 0 spells the beginning of `tokens`; node 0 itself
/// where none does. Siblings may be equal: what counts is how far a path reaches, not which comes
/// first.
/// @shape nodes [<= 64], a draft from its anchor on @cost O(nodes)
inline NodeIndex deepest_match(std::span<const Node> nodes,
                               std::span<const TokenId> tokens) noexcept {
  constexpr int kNoMatch = -1;
  std::array<int, DraftTree::kMaxNodes> depth{};  // of nodes that match
  NodeIndex deepest = 0;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const int above = depth[static_cast<std::size_t>(nodes[i].parent)];
    const bool match = above != kNoMatch && above < static_cast<int>(tokens.size()) &&
                       tokens[static_cast<std::size_t>(above)] == nodes[i].token;
    depth[i] = match ? above + 1 : kNoMatch;
    if (depth[i] > depth[static_cast<std::size_t>(deepest)]) deepest = static_cast<NodeIndex>(i);
  }
  return deepest;
}

/// A model that drafts, with its cache: what every drafter that runs a model of its own needs,
/// however it picks its tokens.
///
/// A round is begin(), then forward() for the anchor and for each further level of the draft, then
/// commit(). The rows of drafted tokens stay staged until the round is decided; those that turned
/// out final are kept, whoever drafted them, and the others vanish. What the cache lacks of the
/// final tokens (the last draft after full acceptance, rounds without a draft, a new prompt) is
/// forwarded before or together with the anchor.
template <typename T, Cache C = LinearCache<f16>>
  requires Target<T, C>
class DraftModel {
 public:
  struct Snapshot {
    typename C::Snapshot cache;
  };

  DraftModel(T& model, C cache) : model_(&model), cache_(std::move(cache)) {}

  int vocab_size() const { return model_->vocab_size(); }
  /// Nodes of one draft that forward() can take.
  int max_nodes() const noexcept { return std::min(cache_.max_staged(), DraftTree::kMaxNodes); }
  const C& cache() const noexcept { return cache_; }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  template <typename Other>
  void check_target(const Other& target) const {
    if constexpr (requires { check_same_vocabulary(target, *model_); }) {
      check_same_vocabulary(target, *model_);
    } else if (target.vocab_size() != model_->vocab_size()) {
      throw Error(ErrorCode::kVocabularyMismatch,
                  "a draft vocabulary of " + std::to_string(model_->vocab_size()),
                  std::to_string(target.vocab_size()), "draft with a model of the same family");
    }
  }

  /// Catch up with the final tokens, up to a few that wait for the anchor's pass.
  /// @return how deep a draft the rest of the cache has room for; 0 where the text is longer than
  /// the cache
  int begin(std::span<const TokenId> tokens) {
    cache_.discard();  // of a round that failed
    lagging_.clear();
    const int final_rows = static_cast<int>(tokens.size()) - 1;  // all but the anchor
    const int room = cache_.capacity() - final_rows;
    const int may_wait = room > 0 ? std::min(kMayWait, cache_.max_staged() - 1) : 0;
    const int rows = std::min(final_rows, cache_.capacity());
    while (rows - cache_.size() > may_wait) {
      const int count = std::min({rows - cache_.size(), kBlock, cache_.max_staged()});
      stage(detail::chain_of(tokens, cache_.size(), count));
      forward_staged(0, count, {RowNeed::kNothing, {}});
      cache_.commit(detail::first_nodes(count));
    }
    lagging_ = detail::chain_of(tokens, cache_.size(), rows - cache_.size());
    return std::max(room, 0);
  }

  /// Forward the nodes of `draft` that are not forwarded yet, all in one pass. The first call of a
  /// round finds the anchor alone.
  void forward(const DraftTree& draft, const Want& want) {
    const std::span<const Node> fresh =
        draft.nodes().subspan(static_cast<std::size_t>(cache_.staged()));
    std::copy(fresh.begin(), fresh.end(), nodes_.begin() + cache_.staged());
    first_ = cache_.staged();
    first_row_ = 0;
    if (first_ == 0 && !lagging_.empty()) {
      forward_with_lagging(fresh, want);
    } else {
      stage(fresh);
      forward_staged(first_, static_cast<int>(fresh.size()), want);
    }
  }

  /// Results of the last pass. The row of a node that was in it is row(node).
  const Scores& scores() const noexcept { return scores_; }
  int row(NodeIndex node) const noexcept { return first_row_ + node - first_; }

  /// Keep the staged rows that are final: the anchor and each drafted token that stands where it
  /// was drafted. Like the target's cache it never holds the last final token.
  void commit(const Round& round) noexcept {
    std::array<NodeIndex, DraftTree::kMaxNodes> path{};
    std::size_t kept = 0;
    if (cache_.staged() > 0 && cache_.size() == round.anchor_position && !round.tokens.empty() &&
        nodes_[0].token == round.draft.token(0)) {
      const std::span<const Node> staged(nodes_.data(), static_cast<std::size_t>(cache_.staged()));
      NodeIndex node = deepest_match(staged, round.tokens.first(round.tokens.size() - 1));
      for (; node >= 0; node = nodes_[static_cast<std::size_t>(node)].parent) path[kept++] = node;
      std::reverse(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    cache_.commit({path.data(), kept});
    cache_.discard();
  }

  void truncate(int n) noexcept {
    cache_.discard();
    if constexpr (Truncatable<C>) {
      cache_.truncate(n);
    } else if (n < cache_.size()) {
      cache_.restore(typename C::Snapshot{});
    }
  }
  Snapshot snapshot() const { return {cache_.snapshot()}; }
  void restore(const Snapshot& snapshot) { cache_.restore(snapshot.cache); }

 private:
  static constexpr int kBlock = 512;  // rows per catch-up pass: the weights are read seldom
  // Final tokens that join the anchor's pass. So few cost hardly more than the anchor alone, while
  // a pass of their own would read all weights once more.
  static constexpr int kMayWait = 4;

  /// One pass for the tokens that waited and, behind them, the anchor. Committing the former leaves
  /// the anchor staged as node 0.
  void forward_with_lagging(std::span<const Node> anchor, const Want& want) {
    const int waited = static_cast<int>(lagging_.size());
    lagging_.push_back({anchor.front().token, waited - 1});
    const std::vector<NodeIndex> path = detail::first_nodes(waited);
    stage(lagging_);
    forward_staged(0, waited + 1, want);
    cache_.commit(path);
    lagging_.clear();
    first_row_ = waited;
  }

  /// A target's vocabulary may be padded further than the draft model's. Its unused tokens stand
  /// for nothing, so any other token will do for them here; the draft and the text keep theirs.
  void stage(std::span<const Node> nodes) {
    known_.assign(nodes.begin(), nodes.end());
    for (Node& node : known_) node.token = std::min(node.token, model_->vocab_size() - 1);
    cache_.stage(known_);
  }

  void forward_staged(NodeIndex first, int count, const Want& want) {
    Request<C> request{&cache_, first, count, want, &scores_};
    model_->forward(std::span<Request<C>>(&request, 1));
  }

  T* model_;
  C cache_;
  std::vector<Node> lagging_;  // final tokens before the anchor that the cache lacks, as a chain
  std::vector<Node> known_;    // what is being staged, with tokens that the model knows
  std::array<Node, DraftTree::kMaxNodes> nodes_{};  // the staged ones, by their index in the draft
  NodeIndex first_ = 0;                             // first node of the last pass ...
  int first_row_ = 0;                               // ... and its row there
  Scores scores_;
};

}  // namespace foredraft::inline v0
