#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/reduce.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/text_stream.hpp>

namespace foredraft::inline v0::detail {

/// The steps of a round, one function each, in the order in which generate() calls them.

/// Adds the time of its life to `sum`.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) noexcept : sum_(sum), begin_(Clock::now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point begin_;
};

template <typename F>
void timed(double& sum, F&& step) {
  const Stopwatch watch(sum);
  step();
}

/// One call of generate with everything resolved that options leave open.
struct Call {
  const Options& options;
  Rng* rng;
  RowNeed need;   // of the acceptance rule under these options, and of log probabilities
  bool uses_law;  // of the acceptance rule
  std::function<bool(TokenId)> is_end;
  std::function<std::string(TokenId)> piece;  // empty where nobody knows the text

  bool cancelled() const { return options.cancelled && options.cancelled(); }
};

/// Stages nodes and, unless they are committed before, discards them when the round is left by any
/// way.
template <typename C>
class StagedRows {
 public:
  StagedRows(C& cache, std::span<const Node> nodes) : cache_(cache) { cache_.stage(nodes); }
  StagedRows(const StagedRows&) = delete;
  StagedRows& operator=(const StagedRows&) = delete;
  ~StagedRows() { cache_.discard(); }

 private:
  C& cache_;
};

inline std::vector<Node> chain_of(std::span<const TokenId> tokens, int begin, int count) {
  std::vector<Node> nodes(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    nodes[static_cast<std::size_t>(i)] = {tokens[static_cast<std::size_t>(begin + i)], i - 1};
  }
  return nodes;
}

inline std::vector<NodeIndex> first_nodes(int count) {
  std::vector<NodeIndex> path(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) path[static_cast<std::size_t>(i)] = i;
  return path;
}

/// Layers whose output a drafter wants to see; most want none.
template <typename D>
std::span<const int> taps_of(const D& drafter) {
  if constexpr (requires { std::span<const int>(drafter.taps()); }) return drafter.taps();
  return {};
}

template <typename S>
Position anchor_position(const S& s) noexcept {
  return static_cast<Position>(s.tokens.size()) - 1;
}

/// Hand final tokens to the user. A token counts as delivered once emit was entered; if emit
/// throws, the rest stays queued and comes first in the next call.
template <typename S, typename Emit>
void deliver(S& s, Emit& emit) {
  while (s.delivered < s.undelivered.size()) emit(std::as_const(s.undelivered[s.delivered++]));
}

template <typename V>
std::optional<V> take(std::optional<V>& value) noexcept {
  return std::exchange(value, std::nullopt);
}

template <typename S>
int context_left(const S& s) noexcept {
  return s.cache.capacity() - static_cast<int>(s.tokens.size());
}

/// Tokens that this call may still make final, or a large number where only the context limits it.
inline int tokens_left(const Call& call, int made) noexcept {
  constexpr int kUnlimited = 1 << 30;
  return call.options.max_tokens < 0 ? kUnlimited : call.options.max_tokens - made;
}

template <typename S>
std::optional<FinishReason> limit_reached(const S& s, const Call& call, int made) noexcept {
  if (tokens_left(call, made) <= 0) return FinishReason::kLength;
  if (context_left(s) <= 0) return FinishReason::kContext;
  return std::nullopt;
}

/// A draft of depth n makes up to n + 1 tokens, so it is one shorter than what is left.
template <typename S>
Limit draft_limit(const S& s, const Call& call, int made) {
  const int depth =
      std::min({call.options.n_draft, tokens_left(call, made) - 1, context_left(s) - 1,
                s.cache.max_staged() - 1, s.drafter.max_depth(), DraftTree::kMaxNodes - 1});
  // The first round after a prompt drafts nothing: a draft model that has the whole prompt to read
  // would delay the first token.
  if (s.cold || depth <= 0) return {};
  const int nodes = std::min(s.cache.max_staged(), DraftTree::kMaxNodes) - 1;
  return {depth, s.drafter.shape == Shape::kChain ? depth : nodes};
}

template <typename S>
Context context_of(const S& s, const Call& call) {
  return {s.tokens, {}, call.options.sampling(), call.uses_law, call.rng, s.target.vocab_size()};
}

/// Let the drafter read what it lacks of the final tokens, without a draft.
template <typename S>
void catch_up(S& s, const Call& call) {
  s.draft.reset(s.tokens.back());
  s.drafter.propose(context_of(s, call), {}, s.draft);
}

/// A q has to be a law, or the rules that divide by it make a law of their own.
/// @errors kInvalidDraft
inline void check_law(const Law& q) {
  bool valid = q.ids.size() == q.p.size();
  for (std::size_t i = 0; valid && i < q.size(); ++i) {
    valid = q.p[i] >= 0 && (i == 0 || q.ids[i - 1] < q.ids[i]);  // false for NaN too
  }
  const double total = sum(q.p);
  if (valid && std::abs(total - 1.0) < 1e-6) return;
  throw Error(ErrorCode::kInvalidDraft, "a q that is no law, with sum " + std::to_string(total),
              "ascending ids, probabilities that sum to 1",
              "hand over the very law that the tokens were drawn from");
}

/// @errors what the drafter throws; kInvalidDraft where it broke its contract
template <typename S>
void propose(S& s, const Call& call, Limit limit) {
  if (s.cold) return;
  const TokenId anchor = s.tokens.back();
  s.drafter.propose(context_of(s, call), limit, s.draft);
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw Error(ErrorCode::kInvalidDraft, found, expected, "the drafter breaks its contract");
  };
  if (s.draft.token(0) != anchor) refuse("another anchor", "the newest final token at node 0");
  if (s.draft.drafted() > limit.nodes || s.draft.max_depth() > limit.depth) {
    refuse(
        "a draft of " + std::to_string(s.draft.drafted()) + " nodes, depth " +
            std::to_string(s.draft.max_depth()),
        "at most " + std::to_string(limit.nodes) + " nodes, depth " + std::to_string(limit.depth));
  }
  if (s.drafter.shape == Shape::kChain && !s.draft.is_chain()) {
    refuse("a tree of a drafter that is said to make chains", "each node behind the one before");
  }
  for (const Node& node : s.draft.nodes().subspan(1)) {
    if (node.token < 0 || node.token >= s.target.vocab_size()) {
      refuse("drafted token " + std::to_string(node.token),
             "a token below " + std::to_string(s.target.vocab_size()));
    }
  }
  for (NodeIndex node = 0; call.uses_law && node < s.draft.size(); ++node) {
    const bool drawn = s.draft.siblings(node) != Siblings::kPointMass;
    if (drawn && s.draft.first_child(node) >= 0) check_law(s.draft.law(node));
  }
}

template <typename T, typename C>
void forward_one(T& target, Request<C> request) {
  target.forward(std::span<Request<C>>(&request, 1));
}

template <typename S>
void forward(S& s, int count, const Want& want) {
  forward_one(s.target, Request<decltype(s.cache)>{&s.cache, 0, count, want, &s.scores});
}

/// A verdict after end tokens, stop strings and limits: what the round makes final. All memory that
/// the commit needs is allocated here.
struct Cut {
  Verdict verdict;
  std::vector<TokenId> tokens;   // final tokens, as many as rows of the path are kept
  std::vector<Emitted> emitted;  // the same with their text
  TextStream text;               // state behind them
  std::optional<FinishReason> reason;

  int kept() const noexcept { return static_cast<int>(tokens.size()); }
  std::span<const NodeIndex> path() const noexcept { return {verdict.path.data(), tokens.size()}; }
};

template <typename S>
Cut cut(S& s, const Call& call, int made, const Verdict& verdict) {
  Cut cut{verdict, {}, {}, s.text, {}};
  const int most = std::min(tokens_left(call, made), context_left(s));
  const auto longest = static_cast<std::size_t>(verdict.accepted()) + 1;
  cut.tokens.reserve(longest);
  cut.emitted.reserve(longest);
  for (int i = 0; i <= verdict.accepted() && !cut.reason; ++i) {
    const bool from_draft = i < verdict.accepted();
    const TokenId token =
        from_draft ? s.draft.token(verdict.path[static_cast<std::size_t>(i) + 1]) : verdict.last;
    Emitted emitted{token, {}, from_draft};
    if (call.piece) {
      TextStream::Step step = cut.text.push(call.piece(token), call.options.stop);
      emitted.text = std::move(step.text);
      if (step.stopped) cut.reason = FinishReason::kStop;
    }
    if (call.is_end(token)) cut.reason = FinishReason::kEnd;
    if (!cut.reason && i + 1 == most) {
      cut.reason = most == tokens_left(call, made) ? FinishReason::kLength : FinishReason::kContext;
    }
    if (cut.reason) emitted.text += cut.text.flush();
    cut.tokens.push_back(token);
    cut.emitted.push_back(std::move(emitted));
  }
  return cut;
}

/// The one place where state moves. Nothing allocates: the cut brings its memory along, and room
/// for a full context of tokens is reserved when the sequence begins.
template <typename S>
void commit(S& s, Cut& cut) noexcept {
  const Position anchor = anchor_position(s);
  s.cache.commit(cut.path());
  s.drafter.commit({s.draft, cut.path(), cut.tokens, s.scores, anchor});
  s.tokens.insert(s.tokens.end(), cut.tokens.begin(), cut.tokens.end());
  s.undelivered = std::move(cut.emitted);
  s.delivered = 0;
  s.text = std::move(cut.text);
  // A limit is found again by whoever asks; an end has to be remembered until it is reported.
  const bool ended = cut.reason == FinishReason::kEnd || cut.reason == FinishReason::kStop;
  s.unreported = ended ? cut.reason : std::nullopt;
  s.cold = false;
}

inline void count(Stats& stats, const DraftTree& draft, const Cut& cut) noexcept {
  const int accepted = std::min(cut.verdict.accepted(), cut.kept());
  const int depth = draft.max_depth();
  ++stats.rounds;
  stats.emitted += cut.kept();
  stats.drafted += draft.drafted();
  stats.accepted += accepted;
  for (int i = 0; i < depth; ++i) ++stats.drafted_per_position[static_cast<std::size_t>(i)];
  for (int i = 0; i < accepted; ++i) ++stats.accepted_per_position[static_cast<std::size_t>(i)];
  if (cut.kept() == accepted) return;  // the cut took the last token away
  if (depth == 0) {
    ++stats.plain;
  } else {
    ++(draft.first_child(cut.verdict.end()) < 0 ? stats.bonus : stats.corrected);
  }
}

}  // namespace foredraft::inline v0::detail
