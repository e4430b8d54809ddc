#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/text_stream.hpp>
#include <foredraft/detail/round_parts.hpp>
#include <foredraft/sampling/logprobs.hpp>
#include <foredraft/sampling/row_sampler.hpp>

namespace foredraft::inline v0 {

/// All that one sequence carries from round to round. Only final tokens ever reach it.
///
/// Invariant between rounds: cache.size() + 1 <= tokens.size(). The cache never holds the last
/// final token, the anchor; it holds fewer only while the prompt is being read.
template <typename T, typename C, typename D, typename A>
struct Sequence {
  Sequence(T& model, C own_cache, D own_drafter, A rule)
      : target(model),
        cache(std::move(own_cache)),
        drafter(std::move(own_drafter)),
        acceptance(std::move(rule)) {}

  T& target;
  C cache;
  D drafter;
  A acceptance;

  std::vector<TokenId> tokens;  // final: prompt and emitted
  TextStream text;
  std::vector<Emitted> undelivered;  // of the last round; emit has seen the first `delivered`
  std::size_t delivered = 0;
  std::optional<FinishReason> unreported;  // how the text ended, until generate() has returned it
  bool cold = true;                        // no round since the prompt was read

  // Buffers, overwritten by every round.
  DraftTree draft;
  Scores scores;
  RowSampler rows;
};

/// Read the prompt: forward and commit all final tokens but the last, in blocks. A block that
/// throws or is cancelled has left no trace, and the next call goes on with it.
/// @return false where it was cancelled
template <typename T, typename C, typename D, typename A>
bool prefill(Sequence<T, C, D, A>& s, const detail::Call& call, Stats& stats) {
  const detail::Stopwatch watch(stats.seconds.prefill);
  const int rows = static_cast<int>(s.tokens.size()) - 1;
  while (s.cache.size() < rows) {
    if (call.cancelled()) return false;
    const int begin = s.cache.size();
    const int count = std::min({rows - begin, call.options.prefill_block, s.cache.max_staged()});
    const std::vector<Node> nodes = detail::chain_of(s.tokens, begin, count);
    const std::vector<NodeIndex> path = detail::first_nodes(count);
    const detail::StagedRows staged(s.cache, nodes);
    detail::forward(s, count, {RowNeed::kNothing, detail::taps_of(s.drafter)});
    s.drafter.absorb({begin,
                      std::span(s.tokens).subspan(static_cast<std::size_t>(begin), nodes.size()),
                      &s.scores});
    s.cache.commit(path);
  }
  return true;
}

/// Log probabilities of what the cut kept, where they were asked for. The row of emitted token i is
/// that of node i of the path.
template <typename T, typename C, typename D, typename A>
void note_logprobs(const Sequence<T, C, D, A>& s, const detail::Call& call, detail::Cut& cut) {
  if (call.options.logprobs < 0) return;
  for (std::size_t i = 0; i < cut.emitted.size(); ++i) {
    Emitted& emitted = cut.emitted[i];
    emitted.logprobs =
        logprobs_of(s.scores.logits(cut.path()[i]), emitted.token, call.options.logprobs);
  }
}

/// The loop: propose, verify, commit, until something ends the text.
///
/// Everything up to the line "final from here" may throw, or be cancelled, and has then changed
/// nothing that a later round can see.
template <typename T, typename C, typename D, typename A, typename Emit>
FinishReason generate(Sequence<T, C, D, A>& s, const detail::Call& call, Stats& stats,
                      Emit&& emit) {
  const detail::Stopwatch watch(stats.seconds.total);
  for (int made = 0;;) {
    detail::deliver(s, emit);
    if (const auto reason = detail::take(s.unreported)) return *reason;
    if (const auto reason = detail::limit_reached(s, call, made)) return *reason;
    if (call.cancelled()) return FinishReason::kCancelled;

    s.draft.reset(s.tokens.back());
    const Limit limit = detail::draft_limit(s, call, made);
    detail::timed(stats.seconds.draft, [&] { detail::propose(s, call, limit); });
    if (call.cancelled()) return FinishReason::kCancelled;

    const detail::StagedRows staged(s.cache, s.draft.nodes());
    detail::timed(stats.seconds.verify, [&] {
      detail::forward(s, s.draft.size(),
                      {call.need, detail::taps_of(s.drafter), call.options.temperature});
    });
    if (call.cancelled()) return FinishReason::kCancelled;

    detail::Cut cut;
    detail::timed(stats.seconds.accept, [&] {
      s.rows.begin(call.options.sampling(), s.scores, s.draft, s.tokens);
      cut = detail::cut(s, call, made, s.acceptance.verify(s.draft, s.rows, *call.rng));
      note_logprobs(s, call, cut);
    });

    // Final from here: nothing below throws until the next delivery.
    detail::timed(stats.seconds.commit, [&]() noexcept { detail::commit(s, cut); });
    detail::count(stats, s.draft, cut);
    made += cut.kept();
  }
}

}  // namespace foredraft::inline v0
