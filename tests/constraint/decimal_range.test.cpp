#include <foredraft/constraint/decimal_range.hpp>

#include <optional>
#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

TEST_CASE("decimal numbers of a range are those of it, all of them") {
  const std::string fractions[] = {"", ".0", ".000", ".5", ".05", ".50", ".9999"};
  for (int low = -3; low <= 3; ++low) {
    for (int high = -3; high <= 12; high += 3) {
      for (const int how : {0, 1, 2, 3}) {
        const bool with_low = how % 2 == 0;
        const bool with_high = how / 2 == 0;
        CAPTURE(low, high, with_low, with_high);
        fd::Grammar g;
        const auto range = fd::DecimalRange::write(g, {{low, with_low}}, {{high, with_high}});
        g.set_root(g.rule("n", g.either({range, g.text("x")})));
        Texts texts(g);
        bool right = true;
        for (int whole = -5; whole <= 15; ++whole) {
          for (const std::string& fraction : fractions) {
            const std::string text = std::to_string(whole) + fraction;
            const double n = std::stod(text);
            const bool inside =
                (n > low || (with_low && n == low)) && (n < high || (with_high && n == high));
            right = right && texts.accepts(text) == inside;
          }
        }
        for (const std::string& fraction : fractions) {
          if (fraction.empty() || std::stod("0" + fraction) == 0) continue;
          const double n = -std::stod("0" + fraction);
          right = right && texts.accepts("-0" + fraction) == (n > low && n < high);
        }
        CHECK(right);
        CHECK_FALSE(texts.accepts("-0"));
        CHECK_FALSE(texts.accepts("00"));
        CHECK_FALSE(texts.begins("1.a"));
      }
    }
  }
}

TEST_CASE("a side without a bound has sixteen digits before the point") {
  fd::Grammar g;
  g.set_root(g.rule("n", fd::DecimalRange::write(g, {{5, true}}, std::nullopt)));
  Texts texts(g);
  CHECK(texts.accepts("9999999999999999.0"));
  CHECK_FALSE(texts.begins("10000000000000000"));
  CHECK_FALSE(texts.accepts("4.9"));
}
