#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/integer_range.hpp>

namespace foredraft::inline v0 {

/// Decimal numbers between integers: up to 16 digits before and behind the point, no exponent, no -0.
class DecimalRange {
 public:
  using Expression = Grammar::Expression;
  struct Bound {
    std::int64_t value;
    bool included;
  };

  /// @return what no text satisfies where the range is empty
  static Expression write(Grammar& grammar, std::optional<Bound> low, std::optional<Bound> high) {
    const Bound from = low.value_or(Bound{-IntegerRange::kMost, true});
    const Bound to = high.value_or(Bound{IntegerRange::kMost, true});
    DecimalRange range(grammar);
    std::vector<Expression> parts;
    if (from.value < 0) {
      // Distances from zero, which itself is written without a minus.
      const Bound least = to.value < 0 ? Bound{-to.value, to.included} : Bound{0, false};
      parts.push_back(grammar.sequence(
          {grammar.text("-"), range.natural(least, {-from.value, from.included})}));
    }
    if (to.value >= 0) {
      parts.push_back(range.natural(from.value >= 0 ? from : Bound{0, true}, to));
    }
    return grammar.either(std::move(parts));
  }

 private:
  explicit DecimalRange(Grammar& grammar) : g_(grammar) {
    ByteSet digits, others;
    for (char c = '0'; c <= '9'; ++c) digits.set(static_cast<unsigned char>(c));
    others = digits;
    others.reset('0');
    const auto digit = g_.bytes(digits);
    const auto zeros = [&](int least, int most) { return g_.repeat(g_.text("0"), least, most); };
    any_ = rule("fraction", g_.repeat(digit, 1, kDigits));
    zero_ = rule("zeros", zeros(1, kDigits));
    some_ = rule("more than zeros", g_.sequence({zeros(0, kDigits / 2 - 1), g_.bytes(others),
                                                 g_.repeat(digit, 0, kDigits / 2)}));
  }

  /// A point and digits.
  Grammar::Expression rule(const char* name, Expression digits) {
    return g_.call(g_.rule(name, g_.sequence({g_.text("."), digits})));
  }

  Expression whole(std::int64_t low, std::int64_t high) {
    return IntegerRange::write(g_, low, high);
  }

  /// Of numbers that are not negative: by what may follow the integer before the point.
  Expression natural(Bound low, Bound high) {
    const bool single = low.value == high.value;
    std::vector<Expression> parts;
    if (low.value > high.value || low.value > IntegerRange::kMost) return g_.either({});
    if (!single) {
      const auto behind = low.included ? g_.optional(any_) : some_;
      parts.push_back(g_.sequence({whole(low.value, low.value), behind}));
      if (high.value - low.value > 1) {
        parts.push_back(
            g_.sequence({whole(low.value + 1, std::min(high.value - 1, IntegerRange::kMost)),
                         g_.optional(any_)}));
      }
    }
    if (high.included && high.value <= IntegerRange::kMost && (!single || low.included)) {
      parts.push_back(g_.sequence({whole(high.value, high.value), g_.optional(zero_)}));
    }
    return g_.either(std::move(parts));
  }

  static constexpr int kDigits = 16;

  Grammar& g_;
  Expression any_, zero_, some_;
};

}  // namespace foredraft::inline v0
