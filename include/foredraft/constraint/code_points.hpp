#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <foredraft/constraint/grammar.hpp>

namespace foredraft::inline v0 {

/// A set of characters, as ranges of code points.
class CodePoints {
 public:
  static constexpr std::uint32_t kLast = 0x10FFFF;

  CodePoints() = default;
  CodePoints(std::uint32_t first, std::uint32_t last) { add(first, last); }

  void add(std::uint32_t first, std::uint32_t last) {
    ranges_.emplace_back(first, last);
    std::sort(ranges_.begin(), ranges_.end());
    std::size_t to = 0;
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      if (ranges_[i].first <= ranges_[to].second + 1) {
        ranges_[to].second = std::max(ranges_[to].second, ranges_[i].second);
      } else {
        ranges_[++to] = ranges_[i];
      }
    }
    ranges_.resize(to + 1);
  }
  void add(const CodePoints& others) {
    for (const auto& [first, last] : others.ranges_) add(first, last);
  }

  /// All others.
  CodePoints complement() const {
    CodePoints others;
    std::uint32_t from = 0;
    for (const auto& [first, last] : ranges_) {
      if (first > from) others.ranges_.emplace_back(from, first - 1);
      from = last + 1;
    }
    if (from <= kLast) others.ranges_.emplace_back(from, kLast);
    return others;
  }
  CodePoints without(const CodePoints& others) const {
    CodePoints outside = complement();
    outside.add(others);
    return outside.complement();
  }

  bool empty() const noexcept { return ranges_.empty(); }
  bool contains(std::uint32_t point) const noexcept {
    return std::any_of(ranges_.begin(), ranges_.end(), [point](const auto& range) {
      return range.first <= point && point <= range.second;
    });
  }
  const auto& ranges() const noexcept { return ranges_; }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges_;  // ascending, with gaps between
};

/// How one character out of a set is written.
using CharacterWriter = std::function<Grammar::Expression(Grammar&, const CodePoints&)>;

namespace detail {

/// Alternatives of bytes for the characters first .. last, which take `length` bytes each.
/// @source RFC 3629: the low six bits of a code point are the last byte, and so on
inline void add_utf8(Grammar& grammar, std::uint32_t first, std::uint32_t last, int length,
                     std::vector<Grammar::Expression>& alternatives) {
  // Where only a part of what a last byte can be is in the range, that part stands for itself.
  for (int tail = 1; tail < length; ++tail) {
    const std::uint32_t low = (std::uint32_t{1} << (6 * tail)) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      add_utf8(grammar, first, first | low, length, alternatives);
      return add_utf8(grammar, (first | low) + 1, last, length, alternatives);
    }
    if ((last & low) != low) {
      add_utf8(grammar, first, (last & ~low) - 1, length, alternatives);
      return add_utf8(grammar, last & ~low, last, length, alternatives);
    }
  }
  constexpr std::uint32_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  std::vector<Grammar::Expression> bytes;
  for (int i = 0; i < length; ++i) {
    const int shift = 6 * (length - 1 - i);
    const std::uint32_t mark = i == 0 ? kLead[length] : 0x80;
    const std::uint32_t mask = i == 0 ? 0xFF : 0x3F;
    ByteSet set;
    for (std::uint32_t b = first >> shift & mask; b <= (last >> shift & mask); ++b)
      set.set(mark | b);
    bytes.push_back(grammar.bytes(set));
  }
  alternatives.push_back(grammar.sequence(std::move(bytes)));
}

}  // namespace detail

/// One of these characters in UTF-8. Surrogates are no characters.
inline Grammar::Expression utf8_character(Grammar& grammar, const CodePoints& points) {
  std::vector<Grammar::Expression> alternatives;
  ByteSet ascii;
  const CodePoints valid = points.without({0xD800, 0xDFFF});
  for (const auto& [first, last] : valid.ranges()) {
    for (std::uint32_t c = first; c <= std::min(last, 0x7Fu); ++c) ascii.set(c);
    constexpr std::uint32_t kFirst[] = {0x80, 0x800, 0x10000};
    constexpr std::uint32_t kEnd[] = {0x7FF, 0xFFFF, CodePoints::kLast};
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t low = std::max(first, kFirst[i]);
      const std::uint32_t high = std::min(last, kEnd[i]);
      if (low <= high) detail::add_utf8(grammar, low, high, i + 2, alternatives);
    }
  }
  if (ascii.any()) alternatives.insert(alternatives.begin(), grammar.bytes(ascii));
  return grammar.either(std::move(alternatives));
}

}  // namespace foredraft::inline v0
