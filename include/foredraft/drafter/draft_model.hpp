#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

namespace detail {
template <typename T>
struct DraftCacheFor {
  using type = LinearCache<f16>;
};
template <typename T>
  requires requires(const T& model) { model.make_cache(); }
struct DraftCacheFor<T> {
  using type = decltype(std::declval<const T&>().make_cache());
};
}  // namespace detail

/// The cache that drafters make for a draft model, where nobody names one: what the model makes for
/// itself, so that recurrent layers and other backends' memory are no special case.
template <typename T>
using DraftCacheFor = typename detail::DraftCacheFor<T>::type;

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
///
/// Where more is lacking than may be read, the model begins anew with the first token of the text,
/// where models look that have nowhere else to look, and its last ones. What lies between is passed
/// over: to the model those tokens were never there, and rows are numbered without them. So its
/// drafts may be worse, and the price of the next draft has a bound.
/// @source the first token: Xiao et al. 2023, arXiv:2309.17453
template <typename T, Cache C = DraftCacheFor<T>>
  requires Target<T, C>
class DraftModel {
 public:
  static constexpr int kWholeText = std::numeric_limits<int>::max();

  struct Snapshot {
    typename C::Snapshot cache;
    int passed_over = 0;

    static void parts(auto& self, auto& archive) {
      archive(self.cache);
      archive(self.passed_over);
    }
  };

  /// @param tail of more final tokens than this that the cache lacks the last ones are read
  /// @errors kInvalidOption
  DraftModel(T& model, C cache, int tail = kWholeText)
      : model_(&model), cache_(std::move(cache)), tail_(tail) {
    if (tail >= 1) return;
    throw Error(ErrorCode::kInvalidOption, "a tail of " + std::to_string(tail) + " tokens",
                "1 or more", "");
  }

  int vocab_size() const { return model_->vocab_size(); }
  /// Nodes of one draft that expand() can take.
  int max_nodes() const noexcept { return std::min(cache_.max_staged(), DraftTree::kMaxNodes); }
  const C& cache() const noexcept { return cache_; }
  C& cache() noexcept { return cache_; }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  void attach(const TargetInfo& target) const { require_same_vocabulary(target, info_of(*model_)); }

  /// Positions of the text up to which it was read. The rows of the cache are those of its first
  /// token and, but for the passed_over() tokens behind that, of all up to here.
  int reached() const noexcept { return cache_.size() + passed_over(); }
  int passed_over() const noexcept { return cache_.size() > 0 ? passed_over_ : 0; }

  /// Of n final tokens, those before the anchor that have to be read before the next draft.
  int backlog(int n_tokens) const noexcept { return std::min(lacking(n_tokens), tail_); }

  /// Begin a round: catch up with the final tokens, but for a few that wait for the anchor's pass.
  /// @param read where more of them are lacking, begin anew with so many
  /// @param at_once of these, read so many in this round, and those that may wait for the anchor's pass
  /// @return how deep a draft the rest of the cache has room for; 0 where the text is longer than
  /// the cache, or is not read to its end in this round
  int begin(std::span<const TokenId> tokens, int read = kWholeText, int at_once = kWholeText) {
    cache_.discard();  // of a round that failed
    lagging_.clear();
    n_rows_ = 0;
    const int n_tokens = static_cast<int>(tokens.size());
    if (reached() >= n_tokens) truncate(n_tokens - 1);  // restored from who knows where
    passed_over_ = passed_over();
    read = std::min(read, tail_);
    if ((lacking(n_tokens) > read || !has_room(n_tokens)) && !begin_anew(n_tokens, read)) return 0;
    const int rows = n_tokens - 1 - passed_over_;
    const int n = std::min(rows - cache_.size(), std::max(at_once, kMayWait + 1));
    const int end = rows - cache_.size() - n > kMayWait ? cache_.size() + n : rows;
    for (int row = cache_.size(); row < end; ++row) {
      lagging_.push_back(tokens[idx(row == 0 ? 0 : row + passed_over_)]);
    }
    stage_block();
    return end < rows ? 0 : cache_.capacity() - rows;
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
    n_read_ += n_lagging_;
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
    if (computed && reached() == anchor_position && !tokens.empty() && nodes_[0].token == anchor) {
      const std::span<const Node> staged(nodes_.data(), idx(cache_.staged()));
      NodeIndex node = deepest_match(staged, tokens.first(tokens.size() - 1));
      for (; node >= 0; node = nodes_[idx(node)].parent) path[kept++] = node;
      std::reverse(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    cache_.commit({path.data(), kept});
    cache_.discard();
    n_rows_ = 0;
  }

  /// The text is cut to n tokens. Of one whose beginning was passed over at least kLeastLeft rows
  /// have to be left, else what was read of it is worth nothing.
  void truncate(int n) noexcept {
    cache_.discard();
    n_rows_ = 0;
    const int rows = n - passed_over();
    if (rows >= cache_.size()) return;
    cut_cache(passed_over() == 0 || rows >= kLeastLeft ? rows : 0);
  }
  Snapshot snapshot() const { return {cache_.snapshot(), passed_over()}; }
  /// @errors kInvalidOption for a snapshot that passes over less than nothing
  void restore(const Snapshot& snapshot) {
    if (snapshot.passed_over < 0 || snapshot.passed_over > kMostPassedOver) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot that passes over " + std::to_string(snapshot.passed_over) + " tokens",
                  "0 to " + std::to_string(kMostPassedOver), "");
    }
    cache_.restore(snapshot.cache);
    passed_over_ = snapshot.passed_over;
  }

  /// For people: what catching up has cost, where it was not the whole text.
  std::string summary() const {
    if (n_passed_over_ == 0) return {};
    return "  its model read " + std::to_string(n_read_) + " tokens and passed over " +
           std::to_string(n_passed_over_) + "\n";
  }

 private:
  static constexpr int kBlock = 512;  // rows per catch-up pass: the weights are read seldom
  // Final tokens that join the anchor's pass. So few cost hardly more than the anchor alone, while
  // a pass of their own would read all weights once more.
  static constexpr int kMayWait = 4;
  static constexpr int kLeastLeft = 16;
  static constexpr int kMostPassedOver = 1 << 30;  // sums with the size of a cache stay in range

  bool has_room(int n_tokens) const noexcept {
    return n_tokens - 1 - passed_over() <= cache_.capacity();
  }
  int lacking(int n_tokens) const noexcept {
    const int have = has_room(n_tokens) ? reached() : 0;
    return std::max(n_tokens - 1 - have, 0);
  }

  /// Pass over all but the last `read` tokens before the anchor, and of the cache keep the first row.
  /// @return false, and nothing has changed, where that is more than the cache can hold
  bool begin_anew(int n_tokens, int read) noexcept {
    int rows = std::min(read, n_tokens - 1);
    if (rows < n_tokens - 1) rows = std::min(rows, cache_.capacity() / 2);  // room for what comes
    if (rows < 1 || rows > cache_.capacity()) return false;
    cut_cache(1);
    passed_over_ = n_tokens - 1 - rows;
    n_passed_over_ += passed_over_;
    return true;
  }
  void cut_cache(int rows) noexcept {
    if constexpr (Truncatable<C>) {
      cache_.truncate(rows);
    } else if (rows < cache_.size()) {
      cache_.restore(typename C::Snapshot{});
    }
  }

  /// Stage the next block of final tokens, where more of them lag than may wait.
  void stage_block() {
    const int n = static_cast<int>(lagging_.size());
    if (n <= std::min(kMayWait, cache_.max_staged() - 1)) return;
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
  int tail_;
  int passed_over_ = 0;      // tokens behind the first one; 0 where the cache is empty
  std::int64_t n_read_ = 0;  // tokens in all ...
  std::int64_t n_passed_over_ = 0;
  std::vector<TokenId> lagging_;  // final tokens before the anchor that this round has yet to read
  // The staged ones, by their index in the draft: keep() looks for the final tokens among them, and a
  // Cache names neither the token nor the parent of a staged row.
  std::array<Node, DraftTree::kMaxNodes> nodes_{};
  // The pass to be made, or the last one.
  NodeIndex first_ = 0;
  int n_lagging_ = 0;  // rows of tokens that lagged; those of nodes from first_ on come behind them
  int n_rows_ = 0;     // all of them; 0: it was made
  Want want_;
  Scores scores_;
};

}  // namespace foredraft::inline v0
