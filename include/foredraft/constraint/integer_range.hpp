#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/constraint/grammar.hpp>

namespace foredraft::inline v0 {

/// The integers of a range in decimal, without leading zeros or a plus.
class IntegerRange {
 public:
  using Expression = Grammar::Expression;
  /// Where a side has no bound: so many digits.
  static constexpr std::int64_t kMost = 9'999'999'999'999'999;

  /// @return what no text satisfies where the range is empty
  static Expression write(Grammar& grammar, std::optional<std::int64_t> minimum,
                          std::optional<std::int64_t> maximum) {
    const std::int64_t low = std::clamp(minimum.value_or(-kMost), -kMost, kMost);
    const std::int64_t high = std::clamp(maximum.value_or(kMost), -kMost, kMost);
    const bool outside = minimum.value_or(0) > kMost || maximum.value_or(0) < -kMost;
    std::vector<Expression> parts;
    if (low < 0 && low <= high && !outside) {
      const auto least = static_cast<std::uint64_t>(-std::min<std::int64_t>(high, -1));
      const auto most = static_cast<std::uint64_t>(-low);
      parts.push_back(grammar.sequence({grammar.text("-"), natural(grammar, least, most)}));
    }
    if (high >= 0 && low <= high && !outside) {
      parts.push_back(natural(grammar, static_cast<std::uint64_t>(std::max<std::int64_t>(low, 0)),
                              static_cast<std::uint64_t>(high)));
    }
    return grammar.either(std::move(parts));
  }

 private:
  /// low .. high, by their number of digits.
  static Expression natural(Grammar& grammar, std::uint64_t low, std::uint64_t high) {
    std::vector<Expression> parts;
    while (low <= high) {
      std::uint64_t last = 9;
      while (last < low) last = last * 10 + 9;
      last = std::min(last, high);
      parts.push_back(same_length(grammar, std::to_string(low), std::to_string(last)));
      low = last + 1;
    }
    return grammar.either(std::move(parts));
  }

  static Expression digits(Grammar& grammar, char first, char last) {
    ByteSet set;
    for (char c = first; c <= last; ++c) set.set(static_cast<unsigned char>(c));
    return grammar.bytes(set);
  }

  /// Two numbers of as many digits, and those between. The first digit decides whether the others
  /// are bounded below, above, or not at all.
  static Expression same_length(Grammar& grammar, const std::string& low, const std::string& high) {
    if (low.empty()) return grammar.text("");
    const int rest = static_cast<int>(low.size()) - 1;
    const auto part = [&](char first, char last, Expression behind) {
      return grammar.sequence({digits(grammar, first, last), behind});
    };
    const std::string zeros(low.size() - 1, '0');
    const std::string nines(low.size() - 1, '9');
    if (low[0] == high[0]) {
      return part(low[0], low[0], same_length(grammar, low.substr(1), high.substr(1)));
    }
    std::vector<Expression> parts;
    char first = low[0];
    char last = high[0];
    if (low.substr(1) != zeros) {
      parts.push_back(part(first, first, same_length(grammar, low.substr(1), nines)));
      ++first;
    }
    if (high.substr(1) != nines) {
      parts.push_back(part(last, last, same_length(grammar, zeros, high.substr(1))));
      --last;
    }
    if (first <= last) {
      parts.push_back(part(first, last, grammar.repeat(digits(grammar, '0', '9'), rest, rest)));
    }
    return grammar.either(std::move(parts));
  }
};

}  // namespace foredraft::inline v0
