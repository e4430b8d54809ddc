#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/round.hpp>
#include <foredraft/drafter/copied_run.hpp>

namespace foredraft::inline v0 {

/// How many tokens of what a key stands for were right when it was last seen: so many are worth
/// proposing the next time.
///
/// What the text goes on with says whether a proposal was right, even if it was not verified or not
/// made at all. So a key whose length became 0 speaks again once it would have been right. A run
/// that was right to the end of a round may draft twice as many tokens.
///
/// Bound: a table of kSlots keys, 48 KiB. Keys that share a slot replace each other.
class KeyFeedback {
 public:
  static constexpr std::size_t kSlots = 4096;  // a text has fewer phrases that come back again
  struct Slot {
    std::uint32_t tag = 0;
    Position learnt_at = kNever;  ///< position of the last token that taught it
    std::int32_t length = 0;
  };
  using Slots = std::vector<Slot>;

  /// @param longest  proposal of a key of which nothing is known
  explicit KeyFeedback(int longest) : longest_(longest), slots_(kSlots) {}

  std::size_t bytes() const noexcept { return slots_.capacity() * sizeof(Slot); }

  int length(std::uint64_t key) const noexcept {
    const Slot& slot = slots_[place(key)];
    return knows(slot, key) ? slot.length : longest_;
  }

  /// Remember what `key` stands for in this round, whether or not it is proposed.
  void expect(std::uint64_t key, Position anchor, const CopiedRun& run) noexcept {
    key_ = key;
    anchor_ = anchor;
    std::size_t i = 0;
    run.each(longest_, [&](TokenId token) { expected_[i++] = token; });
  }
  void expect_nothing() noexcept { anchor_ = kNever; }

  void commit(const Round& round) noexcept {
    const bool asked = anchor_ != kNever && anchor_ == round.anchor_position;
    anchor_ = kNever;
    if (!asked) return;
    const auto seen = std::min(idx(longest_), round.tokens.size());
    const auto right = static_cast<std::int32_t>(
        std::mismatch(expected_.begin(), expected_.begin() + static_cast<std::ptrdiff_t>(seen),
                      round.tokens.begin())
            .first -
        expected_.begin());
    const bool wrong = idx(right) < seen;
    const int known = length(key_);
    slots_[place(key_)] = {tag(key_),
                           round.anchor_position + static_cast<Position>(round.tokens.size()),
                           wrong ? right : std::min(longest_, std::max(known, 2 * right))};
  }

  /// Forget what tokens from position `n` on taught.
  void truncate(int n) noexcept {
    expect_nothing();
    for (Slot& slot : slots_) {
      if (slot.learnt_at >= n) slot.learnt_at = kNever;
    }
  }

  Slots slots() const { return slots_; }
  /// @param slots  what slots() returned, or empty. It may come from a file: other sizes are taken for
  /// empty, and lengths held to what is possible
  void restore(const Slots& slots) {
    slots_ = slots.size() == kSlots ? slots : Slots(kSlots);
    for (Slot& slot : slots_) slot.length = std::clamp(slot.length, 0, longest_);
    expect_nothing();
  }

 private:
  static constexpr Position kNever = -1;  // nothing was learnt, or is expected

  static std::size_t place(std::uint64_t key) noexcept { return key % kSlots; }
  static std::uint32_t tag(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key >> 32);
  }
  static bool knows(const Slot& slot, std::uint64_t key) noexcept {
    return slot.learnt_at != kNever && slot.tag == tag(key);
  }

  int longest_;
  Slots slots_;
  std::uint64_t key_ = 0;
  Position anchor_ = kNever;  // of the round whose end is waited for
  std::array<TokenId, DraftTree::kMaxNodes> expected_{};
};

}  // namespace foredraft::inline v0
