#include <foredraft/constraint/integer_range.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;
using Bound = std::optional<std::int64_t>;

namespace {
bool takes(Bound low, Bound high, const std::string& text) {
  fd::Grammar g;
  g.set_root(g.rule("n", g.either({fd::IntegerRange::write(g, low, high), g.text("x")})));
  return Texts(g).accepts(text);
}
}  // namespace

TEST_CASE("integers of a range are those of it, all of them") {
  const std::int64_t bounds[] = {-1000, -101, -100, -99, -10, -9,  -1,  0,   1,
                                 7,     9,    10,   19,  99,  100, 123, 1000};
  for (const auto low : bounds) {
    for (const auto high : bounds) {
      fd::Grammar g;
      g.set_root(g.rule("n", g.either({fd::IntegerRange::write(g, low, high), g.text("x")})));
      Texts texts(g);
      bool right = true;
      for (std::int64_t n = -1100; n <= 1100; ++n) {
        right = right && texts.accepts(std::to_string(n)) == (low <= n && n <= high);
      }
      INFO(low << " .. " << high);
      CHECK(right);
      CHECK_FALSE(texts.accepts("-0"));
      CHECK_FALSE(texts.accepts("01"));
    }
  }
}

TEST_CASE("a side without a bound has sixteen digits") {
  CHECK(takes(5, {}, "9999999999999999"));
  CHECK_FALSE(takes(5, {}, "10000000000000000"));
  CHECK_FALSE(takes(5, {}, "4"));
  CHECK(takes({}, -5, "-9999999999999999"));
  CHECK_FALSE(takes({}, -5, "-4"));
  CHECK(takes({}, {}, "0"));
  CHECK_FALSE(takes(fd::IntegerRange::kMost + 1, {}, "9999999999999999"));
}
