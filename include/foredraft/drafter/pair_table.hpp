#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Pairs of numbers and a number for each: the edges (state, token) -> state of an automaton, for
/// one. Open addressing with linear probing; what is erased leaves no mark, because those behind it
/// move up.
/// @cost O(1) a call; at most 36 bytes a pair, and half as much again while the table grows
class PairTable {
 public:
  static constexpr std::int32_t kNone = -1;

  /// The number of a pair, or kNone.
  std::int32_t find(std::int32_t a, std::int32_t b) const noexcept {
    if (slots_.empty()) return kNone;
    return slots_[place(a, b)].value;
  }

  /// Add a pair or change its number. It allocates nothing within what was reserved.
  /// @param value not negative
  void set(std::int32_t a, std::int32_t b, std::int32_t value) {
    if (find(a, b) == kNone) reserve(++size_);
    slots_[place(a, b)] = {a, b, value};
  }

  void erase(std::int32_t a, std::int32_t b) noexcept {
    if (slots_.empty()) return;
    std::size_t hole = place(a, b);
    if (slots_[hole].value == kNone) return;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = (hole + 1) & mask; slots_[i].value != kNone; i = (i + 1) & mask) {
      // It may fill the hole unless its search would begin behind the hole.
      const std::size_t home = hash(slots_[i].a, slots_[i].b) & mask;
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};
    --size_;
  }

  void clear() noexcept {
    slots_.clear();
    size_ = 0;
  }

  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return slots_.capacity() * sizeof(Slot); }

  /// Room for `n` pairs. Where it throws, nothing has changed.
  void reserve(std::size_t n) {
    if (n * 3 <= slots_.size() * 2) return;  // two thirds full: about two steps a search
    std::size_t capacity = slots_.empty() ? 16 : slots_.size();
    while (n * 3 > capacity * 2) capacity *= 2;
    std::vector<Slot> old(capacity);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kNone) slots_[place(slot.a, slot.b)] = slot;
    }
  }

 private:
  struct Slot {
    std::int32_t a = 0;
    std::int32_t b = 0;
    std::int32_t value = kNone;
  };

  static std::size_t hash(std::int32_t a, std::int32_t b) noexcept {
    const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(a)} << 32 |
                               std::uint64_t{static_cast<std::uint32_t>(b)};
    const std::uint64_t product = pair * 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
    return static_cast<std::size_t>((product ^ product >> 32) * 0xD6E8FEB86659FD93u >> 32);
  }

  /// Where a pair is, or the free slot where it would be.
  std::size_t place(std::int32_t a, std::int32_t b) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash(a, b) & mask;
    while (slots_[i].value != kNone && (slots_[i].a != a || slots_[i].b != b)) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;  // a power of two of them
  std::size_t size_ = 0;
};

}  // namespace foredraft::inline v0
