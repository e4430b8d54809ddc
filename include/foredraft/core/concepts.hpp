#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <foredraft/core/round.hpp>
#include <foredraft/core/target_info.hpp>

namespace foredraft::inline v0 {

/// Nodes of one sequence for the next forward pass: the staged nodes from `first` on. Several
/// requests of a pass may be of one sequence, where its nodes want different things.
template <typename C>
struct Request {
  C* cache = nullptr;
  NodeIndex first = 0;
  int count = 0;
  Want want;
  Scores* scores = nullptr;  ///< row i belongs to node first + i
};

/// State of one sequence that only final tokens reach.
///
/// A type `C` satisfies Cache when, besides the syntax below:
///  1. size() counts the committed positions; capacity() is the greatest size() it can reach;
///     max_staged() bounds the staged nodes; all three limits are fixed at construction;
///  2. stage(nodes) is cumulative: a node's parent is an earlier staged node by its index, or
///     kCommitted; later rows see their ancestors; nothing that a later forward can see of the
///     committed state changes. It may throw, and has then done nothing;
///  3. commit(path) leaves exactly the state of having forwarded the path's tokens one by one. The
///     path runs from a node with parent kCommitted downwards. The subtree below its end stays
///     staged, renumbered in order, the rest is dropped. discard() drops all;
///  4. both are noexcept and allocate nothing; a device fault they meet is thrown by the next
///     forward, and the sequence can be rebuilt from its tokens;
///  5. snapshot() holds the state at size(), and restore() brings it back with nothing staged; a
///     value-initialised Snapshot is the empty state, and restoring that one does not throw;
///  6. trees may be staged, unless it says `static constexpr Shape shape = Shape::kChain`: then what
///     is staged is one chain, and drafters of trees are refused (StagesDraftsOf).
/// Not required: thread safety, copying.
/// @cost stage O(rows), commit O(rows of the path); state where a type differs
/// @see LinearCache, RotatingCache, HybridCache
template <typename C>
concept Cache = requires(C cache, const C view, std::span<const Node> nodes,
                         std::span<const NodeIndex> path, const typename C::Snapshot& snapshot) {
  { view.size() } -> std::same_as<int>;
  { view.capacity() } -> std::same_as<int>;
  { view.max_staged() } -> std::same_as<int>;
  { view.staged() } -> std::same_as<int>;
  cache.stage(nodes);
  { cache.commit(path) } noexcept;
  { cache.discard() } noexcept;
  { view.snapshot() } -> std::same_as<typename C::Snapshot>;
  cache.restore(snapshot);
};

/// A stateful part that can go back to its first `n` positions, n <= what it holds. Not every cache
/// can: a recurrent one has to restore a snapshot. One that no longer has what it would need goes
/// back to the beginning: its size() says so. truncate() is noexcept and drops what is staged.
template <typename S>
concept Truncatable = requires(S state, int n) {
  { state.truncate(n) } noexcept;
};

/// A cache that can go back to some sizes and not to others, and says to which.
template <typename C>
concept HoldsSome = requires(const C view, int n) {
  { view.holds(n) } -> std::convertible_to<bool>;
};

/// A language model, ours or any engine's.
///
/// A type `T` satisfies Target for caches of type `C` when, besides the syntax below:
///  1. forward(requests) computes, for each request, the rows of the staged nodes first .. first +
///     count - 1, each seeing the committed positions and its own ancestors, and fills
///     request.scores (it calls Scores::reset);
///  2. it may write keys, values and states of these nodes into the cache's staged rows, nowhere
///     else, but that a kept state may take in committed tokens that it lacks (StateCache); an
///     earlier staged node is forwarded before its children or with them;
///  3. it may throw; staged nodes are then discarded by the caller and committed state is as
///     before;
///  4. `row_exact` says that the row of a node is the same to the bit whatever other nodes share
///     the pass. Where it is false, speculative text equals plain text up to the target's own
///     rounding.
/// Not required: thread safety.
/// @see TextTarget, ListsEnds, SuppressesTokens and DescribedTarget for what else a target may offer
template <typename T, typename C>
concept Target = Cache<C> && requires(T target, const T view, std::span<Request<C>> requests) {
  { view.vocab_size() } -> std::same_as<int>;
  { T::row_exact } -> std::convertible_to<bool>;
  target.forward(requests);
};

template <typename T, typename C>
  requires Target<T, C>
void forward_one(T& target, Request<C> request) {
  target.forward(std::span<Request<C>>(&request, 1));
}

/// A target that knows its vocabulary as text: which tokens end a text, and the bytes of each
/// token.
template <typename T>
concept TextTarget = requires(const T view, TokenId token) {
  { view.is_end(token) } -> std::convertible_to<bool>;
  { view.piece(token) } -> std::convertible_to<std::string>;
};

/// A target that lists the tokens which end a text, so that it need not be asked of each token.
template <typename T>
concept ListsEnds = requires(const T view) {
  { view.ends() } -> std::convertible_to<std::span<const TokenId>>;
};

/// A target with tokens that it may not choose: they get a logit bias of -inf.
template <typename T>
concept SuppressesTokens = requires(const T view) {
  { view.suppressed() } -> std::convertible_to<std::span<const TokenId>>;
};

/// A target that says more of itself than its size, to the drafter that is attached to it.
template <typename T>
concept DescribedTarget = requires(const T view) {
  { view.info() } -> std::same_as<TargetInfo>;
};

template <typename T>
TargetInfo info_of(const T& target) {
  if constexpr (DescribedTarget<T>) {
    return target.info();
  } else {
    return {.n_vocab = target.vocab_size()};
  }
}

/// What a drafter's tokens are, at most: found by any means, or drawn from a q that it hands over.
enum class Proposal : std::uint8_t {
  kPointMass,
  kLaw,
};

/// What a draft looks like, at most.
enum class Shape : std::uint8_t {
  kChain,
  kTree,
};

/// Proposes tokens that the target then verifies.
///
/// A type `D` satisfies Drafter when, besides the syntax below:
///  1. propose(context, limit, draft) fills `draft`, which holds only the anchor, with at most
///     limit.nodes nodes of at most limit.depth; no node at all is legal. The loop calls it in every
///     round but the first behind a prompt, with depth 0 too, so that state which lags behind
///     context.tokens can catch up; a drafter made of others may leave one of them out for any
///     number of rounds. It may throw and may allocate;
///  2. absorb(block) sees every prompt block that the cache did not hold, in order, before the block
///     is committed; never the prompt's last token, which is the first anchor. It may throw, has
///     then done nothing, and is asked again;
///  3. commit(round) learns what became final, at most DraftTree::kMaxNodes tokens. It is noexcept
///     and allocates nothing: it takes note, in memory that was reserved before. It is called after
///     every round that made a token final, the first behind a prompt included, though nothing was
///     proposed for that one; and not for a round that failed;
///  4. state may lag behind the final tokens and never leads them: whatever stands for drafted
///     tokens is dropped unless they turn up among round.tokens;
///  5. `proposal` and `shape` are upper bounds over all instances; max_depth() is asked before
///     every round and may change from one to the next. `controls` says that it drafts less than the
///     limit where that pays better, so that the limit may be as wide as there is room; Limit::fixed
///     asks it not to;
///  6. truncate(n) forgets what was learnt beyond the first n tokens of the sequence; reset() is
///     truncate(0). What a drafter learns for later texts, and says so, stays until its forget();
///  7. attach(info) tells it once of the target that it drafts for, before any other call; it throws
///     where it cannot (kVocabularyMismatch). What `info` refers to lives during the call only;
///  8. taps() are the layers whose rows it wants to see, in absorb() and commit(), and needs() how
///     much it reads of the logits of a round, in commit(); what it asks for may not change while it
///     lives. backlog(n) is how many of n final tokens its model has to read before it drafts again,
///     nothing for a drafter without a model; summary() says in words what it did and why. Where
///     continues() holds, propose() may be called once more in a round, with Context::assumed, and
///     drafts behind these tokens;
///  9. what it proposes changes the speed, not the law of the text: not the text itself at
///     temperature 0 and under SampleAndMatch; under rules that test with q another draft gives
///     another text of the same law.
/// Not required: thread safety, copying.
/// @see DrafterBase and StatelessDrafter, which say what most have to say; NoDraft, PromptLookup,
/// ModelDrafter, ModelTreeDrafter, AnyDrafter
template <typename D>
concept Drafter =
    Truncatable<D> &&
    requires(D drafter, const D view, const Context& context, Limit limit, DraftTree& draft,
             const PromptBlock& block, const Round& round, const typename D::Snapshot& snapshot,
             const TargetInfo& target, int n_tokens) {
      { D::proposal } -> std::convertible_to<Proposal>;
      { D::shape } -> std::convertible_to<Shape>;
      { D::controls } -> std::convertible_to<bool>;
      { view.max_depth() } -> std::same_as<int>;
      { view.taps() } -> std::same_as<std::span<const int>>;
      { view.needs() } -> std::same_as<RowNeed>;
      { view.backlog(n_tokens) } -> std::same_as<std::optional<int>>;
      { view.summary() } -> std::same_as<std::string>;
      { view.continues() } -> std::same_as<bool>;
      drafter.attach(target);
      drafter.propose(context, limit, draft);
      drafter.absorb(block);
      { drafter.commit(round) } noexcept;
      { drafter.reset() } noexcept;
      { view.snapshot() } -> std::same_as<typename D::Snapshot>;
      drafter.restore(snapshot);
    };

/// For a drafter that drafts for any target, wants no taps and no rows, and learns what it has to
/// know from Context::tokens alone. What differs is declared anew.
struct DrafterBase {
  static constexpr bool controls = false;

  std::span<const int> taps() const noexcept { return {}; }
  RowNeed needs() const noexcept { return RowNeed::kNothing; }
  std::optional<int> backlog(int) const noexcept { return std::nullopt; }
  std::string summary() const { return {}; }
  bool continues() const noexcept { return false; }
  void attach(const TargetInfo&) const noexcept {}
  void absorb(const PromptBlock&) const noexcept {}
  void commit(const Round&) const noexcept {}
};

/// And for one that remembers nothing from one call to the next.
struct StatelessDrafter : DrafterBase {
  struct Snapshot {};
  void truncate(int) const noexcept {}
  void reset() const noexcept {}
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) const noexcept {}
};

/// A drafter that runs a model and lets others forward for it, so that sequences which draft
/// together share a pass.
///
/// A type `D` satisfies SteppedDrafter when, besides the syntax below:
///  1. begin(context, limit, draft) begins what propose() would do; what `context` refers to has to
///     live until the draft is complete;
///  2. request() is what its model has to forward next, empty where the draft is complete;
///  3. advance(draft, seconds) goes on behind that pass, which took so long as whoever made it counts.
///     Each may throw; the next begin() or propose() then finds no trace;
///  4. the draft is that of propose(), whatever else was in the passes, if its model is row-exact. How
///     much a drafter that `controls` drafts depends on what it measured, here as there.
/// @see ModelDrafter, ModelTreeDrafter, HeterogeneousDrafter, Controlled, Chain, Drafting
template <typename D>
concept SteppedDrafter =
    Drafter<D> && !std::same_as<typename D::DraftCache, void> &&
    requires(D drafter, const Context& context, Limit limit, DraftTree& draft, double seconds) {
      drafter.begin(context, limit, draft);
      { drafter.request() } -> std::same_as<std::optional<Request<typename D::DraftCache>>>;
      drafter.advance(draft, seconds);
    };

namespace detail {

template <typename D>
struct CacheInSteps {
  using type = void;
};
template <SteppedDrafter D>
struct CacheInSteps<D> {
  using type = typename D::DraftCache;
};

}  // namespace detail

/// Caches of the model whose passes a drafter leaves to others; void where it leaves none.
template <typename D>
using DraftCacheOf = typename detail::CacheInSteps<D>::type;

/// What an acceptance rule sees of a round besides the draft: the target's rows, and p made from
/// them.
class RowSampler;

/// Decides which drafted tokens become final.
///
/// A type `A` satisfies Acceptance when, besides the syntax below:
///  1. verify(draft, rows, rng) returns a path from node 0 through accepted nodes, and one more
///     token; it changes nothing that outlives the call. It may throw (kInvalidLogits);
///  2. it draws only through rng, with keys that no other round uses (see RngKey);
///  3. `lossless`: emitted tokens have exactly the law p, for point-mass drafts and for draws from
///     the q handed over;
///  4. needs(sampling) is how much of each row it reads under these options;
///  5. `shape` is the widest draft it can verify;
///  6. uses_law() says whether it makes use of q; it does not change.
/// @see Greedy, SampleAndMatch, RejectionSampling, BlockVerification, AnyAcceptance
template <typename A>
concept Acceptance = requires(const A acceptance, const DraftTree& draft, const RowSampler& rows,
                              Rng& rng, const SamplingOptions& sampling) {
  { A::shape } -> std::convertible_to<Shape>;
  { A::lossless } -> std::convertible_to<bool>;
  { acceptance.uses_law() } noexcept -> std::same_as<bool>;
  { acceptance.needs(sampling) } -> std::same_as<RowNeed>;
  { acceptance.verify(draft, rows, rng) } -> std::same_as<Verdict>;
};

/// The rule A can verify whatever D proposes.
template <typename A, typename D>
concept VerifiesDraftsOf =
    Acceptance<A> && Drafter<D> && (A::shape == Shape::kTree || D::shape == Shape::kChain);

/// The widest draft that can be staged in a C.
template <Cache C>
constexpr Shape staged_shape() {
  if constexpr (requires { C::shape; }) {
    return C::shape;
  } else {
    return Shape::kTree;
  }
}

/// The cache can stage whatever D proposes.
template <typename C, typename D>
concept StagesDraftsOf =
    Cache<C> && Drafter<D> && (staged_shape<C>() == Shape::kTree || D::shape == Shape::kChain);

}  // namespace foredraft::inline v0
