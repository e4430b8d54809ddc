#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/call.hpp>
#include <foredraft/core/constraint_path.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/text_stream.hpp>

namespace foredraft::inline v0 {

/// A verdict after end tokens, stop strings and limits: what the round makes final. All memory that
/// the commit needs is allocated here.
struct Cut {
  Verdict verdict;
  std::vector<TokenId> tokens;   // final tokens, as many as rows of the path are kept
  std::vector<Emitted> emitted;  // the same with their text
  TextStream text;               // state behind them
  ConstraintPath constraint;     // the same
  std::optional<FinishReason> reason;

  int kept() const noexcept { return static_cast<int>(tokens.size()); }
  /// Drafted tokens among them.
  int accepted() const noexcept { return std::min(verdict.accepted(), kept()); }
  std::span<const NodeIndex> path() const noexcept { return {verdict.path.data(), tokens.size()}; }
};

/// @param text state before the round
/// @param context_left tokens that the cache has room for
/// @param constraint state before the round, if the call has one
inline Cut cut(const Verdict& verdict, const DraftTree& draft, const Call& call,
               const TextStream& text, int context_left, const ConstraintPath& constraint = {}) {
  const Options& options = call.options();
  Cut cut{verdict, {}, {}, text, {}, {}};
  if (options.constraint) cut.constraint = constraint;
  const int most = std::min(call.tokens_left(), context_left);
  const auto longest = idx(verdict.accepted()) + 1;
  cut.tokens.reserve(longest);
  cut.emitted.reserve(longest);
  for (int i = 0; i <= verdict.accepted() && !cut.reason; ++i) {
    const bool from_draft = i < verdict.accepted();
    const TokenId token = from_draft ? draft.token(verdict.path[idx(i) + 1]) : verdict.last;
    cut.tokens.push_back(token);
    Emitted& emitted = cut.emitted.emplace_back(Emitted{token, {}, from_draft});
    if (options.piece) {
      TextStream::Step step = cut.text.push(options.piece(token), options.stop);
      emitted.text = std::move(step.text);
      if (step.stopped) cut.reason = FinishReason::kStop;
    }
    if (call.is_end(token)) cut.reason = FinishReason::kEnd;
    if (options.constraint && cut.constraint.step(token).over() && !cut.reason) {
      cut.reason = FinishReason::kEnd;
    }
    if (!cut.reason && i + 1 == most) {
      cut.reason = most == call.tokens_left() ? FinishReason::kLength : FinishReason::kContext;
    }
    if (cut.reason) emitted.text += cut.text.flush();
  }
  return cut;
}

/// Counts each token of a round once, as what it is.
inline void count(Stats& stats, const DraftTree& draft, const Cut& cut) noexcept {
  const int accepted = cut.accepted();
  const int depth = draft.max_depth();
  ++stats.rounds;
  stats.emitted += cut.kept();
  stats.drafted += draft.drafted();
  stats.accepted += accepted;
  for (int i = 0; i < depth; ++i) ++stats.drafted_per_position[idx(i)];
  for (int i = 0; i < accepted; ++i) ++stats.accepted_per_position[idx(i)];
  if (cut.kept() == accepted) return;  // the cut took the last token away
  if (depth == 0) {
    ++stats.plain;
  } else {
    ++(draft.first_child(cut.verdict.end()) < 0 ? stats.bonus : stats.corrected);
  }
}

}  // namespace foredraft::inline v0
