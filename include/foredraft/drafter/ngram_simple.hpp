#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <foredraft/core/concepts.hpp>
#include <foredraft/drafter/copied_run.hpp>
#include <foredraft/drafter/ngram_places.hpp>

namespace foredraft::inline v0 {

/// Sizes of NgramSimple and NgramMapK.
struct NgramSettings {
  int size_n = 12;  ///< tokens that have to match: so many are hardly alike by chance
  int size_m = 48;  ///< tokens proposed at most
};

/// @errors kInvalidOption
inline void check(const NgramSettings& settings) {
  if (settings.size_n >= 1 && settings.size_n <= 1024 && settings.size_m >= 1 &&
      settings.size_m < DraftTree::kMaxNodes) {
    return;
  }
  throw Error(ErrorCode::kInvalidOption,
              "n-grams of " + std::to_string(settings.size_n) + " tokens for drafts of " +
                  std::to_string(settings.size_m),
              "1 to 1024 tokens, drafts of 1 to 63", "12 and 48 are usual");
}

/// Proposes what followed the newest earlier occurrence of the text's last `size_n` tokens.
///
/// It differs from others of this name in two things: an occurrence at the very beginning of the
/// text counts, and a repetition shorter than `size_n` is drafted, too, because a copy that runs
/// into the end of the text goes on with itself. How sure a node is comes of the length of the
/// whole match, which may be longer than `size_n`.
///
/// Memory: that of NgramPlaces.
/// @cost a proposal O(size_n + size_m), indexing O(size_n) a token
/// @source llama.cpp, common/ngram-map.cpp ("ngram-simple"), which searches the whole text
class NgramSimple : public DrafterBase {
 public:
  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  static constexpr int kLongestMatch = 64;  ///< a longer match is not worth telling apart
  struct Snapshot {};

  NgramSimple() : NgramSimple(NgramSettings{}) {}
  /// @errors kInvalidOption
  explicit NgramSimple(NgramSettings settings)
      : settings_((check(settings), settings)), places_(settings.size_n) {}

  int max_depth() const noexcept { return settings_.size_m; }
  std::size_t bytes() const noexcept { return places_.bytes(); }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    places_.index(context.tokens);
    const int length = std::min({limit.depth, limit.nodes, settings_.size_m});
    if (length < 1) return;
    const std::int32_t place = places_.newest(context.tokens);
    if (place == NgramPlaces::kNone) return;
    const CopiedRun run(context.tokens, place + 1);
    run.draft(draft, length, run.match(settings_.size_n, kLongestMatch));
  }

  void truncate(int n) noexcept { places_.truncate(n); }
  void reset() noexcept { places_.clear(); }
  Snapshot snapshot() const noexcept { return {}; }
  /// The text that comes next may be another one: it is indexed anew, O(text).
  void restore(const Snapshot&) noexcept { reset(); }

 private:
  NgramSettings settings_;
  NgramPlaces places_;
};

static_assert(Drafter<NgramSimple>);

}  // namespace foredraft::inline v0
