#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

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
    const int above = depth[idx(nodes[i].parent)];
    const bool match = above != kNoMatch && above < static_cast<int>(tokens.size()) &&
                       tokens[idx(above)] == nodes[i].token;
    depth[i] = match ? above + 1 : kNoMatch;
    if (depth[i] > depth[idx(deepest)]) deepest = static_cast<NodeIndex>(i);
  }
  return deepest;
}

/// A model that drafts, with its cache: what every drafter that runs a model of its own needs,
/// however it picks its tokens.
///
/// A round is begin(), then expand() for the anchor and for each further level of the draft, then
/// commit(). Each but the last leaves passes to be made: request() is the next one, advance() says
/// that it was made. Who shares no passes calls forward() instead.
///
/// The rows of drafted tokens stay staged until the round is decided; those that turned out final
/// are kept, whoever drafted them, and the others vanish. What the cache lacks of the final tokens
/// (the last draft after full acceptance, rounds without a draft, a new prompt) is forwarded before
/// or together with the anchor.
template <typename T, Cache C = LinearCache<f16>>
  requires Target<T, C>
class DraftModel {
 public:
  struct Snapshot {
    typename C::Snapshot cache;

    static void parts(auto& self, auto& archive) { archive(self.cache); }
  };

  DraftModel(T& model, C cache) : model_(&model), cache_(std::move(cache)) {}

  int vocab_size() const { return model_->vocab_size(); }
  /// Nodes of one draft that expand() can take.
  int max_nodes() const noexcept { return std::min(cache_.max_staged(), DraftTree::kMaxNodes); }
  const C& cache() const noexcept { return cache_; }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  void attach(const TargetInfo& target) const { require_same_vocabulary(target, info_of(*model_)); }

  /// Of n final tokens, those before the anchor that the cache lacks and has room for.
  int backlog(int n_tokens) const noexcept {
    return std::max(std::min(n_tokens - 1, cache_.capacity()) - cache_.size(), 0);
  }

  /// Begin a round: catch up with the final tokens, but for a few that wait for the anchor's pass.
  /// @param read at most so many of them
  /// @return how deep a draft the rest of the cache has room for; 0 where the text is longer than
  /// the cache, or more was to be read
  int begin(std::span<const TokenId> tokens, int read = std::numeric_limits<int>::max()) {
    cache_.discard();  // of a round that failed
    const int n_tokens = static_cast<int>(tokens.size());
    if (cache_.size() >= n_tokens) truncate(n_tokens - 1);  // restored from who knows where
    const int lacking = backlog(n_tokens);
    const auto first = tokens.begin() + cache_.size();
    lagging_.assign(first, first + std::min(lacking, read));
    n_rows_ = 0;
    may_wait_ = lacking <= read ? kMayWait : 0;
    stage_block();
    return lacking <= read ? std::max(cache_.capacity() - (n_tokens - 1), 0) : 0;
  }

  /// Have the nodes of `draft` forwarded that are not yet, all in one pass, once no other pass is
  /// left. The first call of a round finds the anchor alone.
  void expand(const DraftTree& draft, const Want& want) {
    const auto fresh = draft.nodes().subspan(idx(cache_.staged()));
    std::copy(fresh.begin(), fresh.end(), nodes_.begin() + cache_.staged());
    stage(static_cast<int>(lagging_.size()), fresh, want);
  }

  /// The pass to be made next; empty where all that was asked for is forwarded.
  std::optional<Request<C>> request() noexcept {
    if (n_rows_ == 0) return std::nullopt;
    return Request<C>{&cache_, first_, n_rows_, want_, &scores_};
  }

  /// Go on behind the pass that request() named. Committing the tokens that lagged leaves the
  /// anchor staged as node 0.
  /// @return whether it was the pass of expand(), whose rows are in scores() now
  bool advance() {
    const bool expanded = n_rows_ > n_lagging_;
    n_rows_ = 0;
    if (n_lagging_ > 0) cache_.commit(first_nodes(n_lagging_));
    lagging_.erase(lagging_.begin(), lagging_.begin() + n_lagging_);
    stage_block();
    return expanded;
  }

  // For whom nobody else makes the passes: the next one, all that are left, and with them that of the
  // new nodes of `draft`.
  void make_pass() { forward_one(*model_, *request()); }
  void run() {
    while (request()) {
      make_pass();
      advance();
    }
  }
  void forward(const DraftTree& draft, const Want& want) {
    run();
    expand(draft, want);
    run();
  }

  /// Results of the last expand(). The row of a node that was in its pass is row(node).
  const Scores& scores() const noexcept { return scores_; }
  int row(NodeIndex node) const noexcept { return n_lagging_ + node - first_; }

  /// Keep the staged rows that are final: the anchor and each drafted token that stands where it
  /// was drafted. Like the target's cache it never holds the last final token.
  void commit(const Round& round) noexcept {
    keep(round.anchor_position, round.draft.token(0), round.tokens);
  }
  /// The same for whoever knows them in other words: `tokens` became final behind the anchor. Of a
  /// round whose last pass was never made, because it failed, nothing is kept.
  void keep(Position anchor_position, TokenId anchor, std::span<const TokenId> tokens) noexcept {
    std::array<NodeIndex, DraftTree::kMaxNodes> path{};
    std::size_t kept = 0;
    const bool computed = n_rows_ == 0 && cache_.staged() > 0 && cache_.staged() <= max_nodes();
    if (computed && cache_.size() == anchor_position && !tokens.empty() &&
        nodes_[0].token == anchor) {
      const std::span<const Node> staged(nodes_.data(), idx(cache_.staged()));
      NodeIndex node = deepest_match(staged, tokens.first(tokens.size() - 1));
      for (; node >= 0; node = nodes_[idx(node)].parent) path[kept++] = node;
      std::reverse(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    cache_.commit({path.data(), kept});
    cache_.discard();
    n_rows_ = 0;
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

  /// Stage the next block of final tokens, where more of them lag than may wait.
  void stage_block() {
    const int n = static_cast<int>(lagging_.size());
    if (n <= std::min(may_wait_, cache_.max_staged() - 1)) return;
    stage(std::min({n, kBlock, cache_.max_staged()}), {}, {RowNeed::kNothing, {}});
  }

  /// Stage the first of the tokens that lag and, behind them, nodes of the draft.
  ///
  /// A target's vocabulary may be padded further than the draft model's. Its unused tokens stand
  /// for nothing, so any other token will do for them here; the draft and the text keep theirs.
  void stage(int n_lagging, std::span<const Node> fresh, const Want& want) {
    std::vector<Node> nodes = chain_of(lagging_, 0, n_lagging);
    for (const Node& node : fresh) nodes.push_back({node.token, node.parent + n_lagging});
    for (Node& node : nodes) node.token = std::min(node.token, model_->vocab_size() - 1);
    first_ = cache_.staged();
    cache_.stage(nodes);
    n_lagging_ = n_lagging;
    n_rows_ = static_cast<int>(nodes.size());
    want_ = want;
  }

  T* model_;
  C cache_;
  std::vector<TokenId> lagging_;  // final tokens before the anchor that this round has yet to read
  int may_wait_ = 0;              // so many of them for the anchor's pass
  std::array<Node, DraftTree::kMaxNodes> nodes_{};  // the staged ones, by their index in the draft
  // The pass to be made, or the last one.
  NodeIndex first_ = 0;
  int n_lagging_ = 0;  // rows of tokens that lagged; those of nodes from first_ on come behind them
  int n_rows_ = 0;     // all of them; 0: it was made
  Want want_;
  Scores scores_;
};

}  // namespace foredraft::inline v0
