#pragma once

#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Many short strings in one block of memory, numbered from 0. A vocabulary has up to some 260,000.
class StringTable {
 public:
  void push_back(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends_.push_back(bytes_.size());
  }

  std::size_t size() const noexcept { return ends_.size(); }

  /// Valid until the next push_back.
  std::string_view operator[](std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::size_t> ends_;  // [size()]
};

/// From a string to its number in a StringTable. It stores numbers only, so that table and index
/// can be copied and moved like any value: an index of views would point into the table that was
/// copied from.
class StringIndex {
 public:
  StringIndex() = default;

  /// Of equal strings the one that comes last in `order` is found.
  StringIndex(const StringTable& table, std::span<const TokenId> order)
      : slots_(std::bit_ceil(2 * order.size() + 1), kEmpty) {  // at most half full: short probes
    for (const TokenId id : order) {
      slots_[slot_of(table, table[static_cast<std::size_t>(id)])] = id;
    }
  }

  /// @cost O(bytes of text)
  std::optional<TokenId> find(const StringTable& table, std::string_view text) const noexcept {
    if (slots_.empty()) return std::nullopt;
    const TokenId id = slots_[slot_of(table, text)];
    return id == kEmpty ? std::nullopt : std::optional<TokenId>(id);
  }

 private:
  static constexpr TokenId kEmpty = std::numeric_limits<TokenId>::min();

  /// The slot that holds `text`, or the free one where it would go.
  std::size_t slot_of(const StringTable& table, std::string_view text) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = std::hash<std::string_view>()(text) & mask;
    while (slots_[slot] != kEmpty && table[static_cast<std::size_t>(slots_[slot])] != text) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  std::vector<TokenId> slots_;  // a power of two
};

}  // namespace foredraft::inline v0
