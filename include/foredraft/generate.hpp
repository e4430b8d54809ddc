#pragma once

#include <memory>

#include <foredraft/turn.hpp>

namespace foredraft::inline v0 {

/// Read the prompt: forward and commit all final tokens but the last, in blocks. A block that
/// throws or is cancelled has left no trace, and the next call goes on with it.
/// @return false where it was cancelled
template <typename S>
bool prefill(S& sequence, const std::shared_ptr<Call>& call) {
  const Stopwatch watch(call->stats.seconds.prefill);
  while (sequence.reading()) {
    if (call->cancelled()) return false;
    PromptTurn turn(sequence, call);
    forward_one(sequence.target(), turn.request());
    turn.finish();
  }
  return true;
}

/// The loop: propose, verify, commit, until something ends the text. A round that throws or is
/// cancelled has changed nothing that a later one can see.
template <typename S, typename Emit>
FinishReason generate(S& sequence, const std::shared_ptr<Call>& call, Emit&& emit) {
  const Stopwatch watch(call->stats.seconds.total);
  for (;;) {
    sequence.deliver(emit);
    if (const auto reason = sequence.take_end(*call)) return *reason;
    if (call->cancelled()) return FinishReason::kCancelled;

    Turn turn(sequence, call);
    if (call->cancelled()) return FinishReason::kCancelled;

    const auto request = turn.request();
    {
      const Stopwatch pass(call->stats.seconds.verify);
      forward_one(sequence.target(), request);
    }
    if (call->cancelled()) return FinishReason::kCancelled;

    turn.finish();
  }
}

}  // namespace foredraft::inline v0
