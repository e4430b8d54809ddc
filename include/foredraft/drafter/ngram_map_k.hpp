#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <foredraft/core/concepts.hpp>
#include <foredraft/drafter/copied_run.hpp>
#include <foredraft/drafter/key_feedback.hpp>
#include <foredraft/drafter/ngram_places.hpp>
#include <foredraft/drafter/ngram_simple.hpp>

namespace foredraft::inline v0 {

/// NgramSimple that remembers of each n-gram how much of its continuation was right, and proposes
/// no more than that the next time.
///
/// Others never propose again behind an n-gram whose continuation was wrong from its first token;
/// here such a one is watched, and proposed again once the text goes on with it (KeyFeedback). What
/// was learnt is part of the text: truncate() forgets it with the tokens that taught it.
///
/// Memory: that of NgramPlaces and KeyFeedback.
/// @cost a proposal O(size_n + size_m), indexing O(size_n) a token
/// @source llama.cpp, common/ngram-map.cpp ("ngram-map-k")
class NgramMapK : public DrafterBase {
 public:
  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  struct Snapshot {
    KeyFeedback::Slots feedback = {};

    static void parts(auto& self, auto& archive) { archive(self.feedback); }
  };

  NgramMapK() : NgramMapK(NgramSettings{}) {}
  /// @errors kInvalidOption
  explicit NgramMapK(NgramSettings settings)
      : settings_((check(settings), settings)),
        places_(settings.size_n),
        feedback_(settings.size_m) {}

  int max_depth() const noexcept { return settings_.size_m; }
  std::size_t bytes() const noexcept { return places_.bytes() + feedback_.bytes(); }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    places_.index(context.tokens);
    feedback_.expect_nothing();
    const std::int32_t place = places_.newest(context.tokens);
    if (place == NgramPlaces::kNone) return;
    const std::uint64_t key = places_.hash(context.tokens, place);
    const CopiedRun run(context.tokens, place + 1);
    feedback_.expect(key, context.anchor_position(), run);
    const int length = std::min({limit.depth, limit.nodes, feedback_.length(key)});
    run.draft(draft, length, run.match(settings_.size_n, NgramSimple::kLongestMatch));
  }
  void commit(const Round& round) noexcept { feedback_.commit(round); }

  void truncate(int n) noexcept {
    places_.truncate(n);
    feedback_.truncate(n);
  }
  void reset() noexcept {
    places_.clear();
    feedback_.truncate(0);
  }
  Snapshot snapshot() const { return {feedback_.slots()}; }
  /// The text that comes next may be another one: it is indexed anew, O(text).
  void restore(const Snapshot& snapshot) {
    feedback_.restore(snapshot.feedback);
    places_.clear();
  }

 private:
  NgramSettings settings_;
  NgramPlaces places_;
  KeyFeedback feedback_;
};

static_assert(Drafter<NgramMapK>);

}  // namespace foredraft::inline v0
