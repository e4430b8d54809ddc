#include <foredraft/constraint/code_points.hpp>

#include <cstdint>
#include <string>

#include <foredraft/core/utf8.hpp>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

namespace {
std::string utf8_of(std::uint32_t c) {
  const auto byte = [](std::uint32_t b) { return static_cast<char>(b); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) {
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  }
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}
fd::Grammar one_of(const fd::CodePoints& points) {
  fd::Grammar g;
  g.set_root(g.rule("character", fd::utf8_character(g, points)));
  return g;
}
}  // namespace

TEST_CASE("ranges join, and have a complement") {
  fd::CodePoints points('c', 'e');
  points.add('a', 'b');
  points.add('x', 'x');
  CHECK(points.ranges().size() == 2);
  const fd::CodePoints others = points.complement();
  for (std::uint32_t c = 0; c < 300; ++c) CHECK(others.contains(c) != points.contains(c));
  CHECK(others.complement().ranges() == points.ranges());
  CHECK(fd::CodePoints(0, fd::CodePoints::kLast).complement().empty());
  CHECK(fd::CodePoints().complement().contains(fd::CodePoints::kLast));
  CHECK_FALSE(points.without({'b', 'd'}).contains('c'));
  CHECK(points.without({'b', 'd'}).contains('e'));
}

TEST_CASE("characters are taken in UTF-8, at every edge of its lengths") {
  const std::uint32_t edges[] = {0,      1,      0x7E,   0x7F,    0x80,     0x7FF,   0x800,
                                 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFE, 0x10FFFF};
  for (const std::uint32_t first : edges) {
    for (const std::uint32_t last : edges) {
      if (last < first) continue;
      Texts texts(one_of({first, last}));
      for (const std::uint32_t c : edges) {
        CHECK(texts.accepts(utf8_of(c)) == (first <= c && c <= last));
      }
    }
  }
}

TEST_CASE("all characters are exactly what is valid UTF-8") {
  Texts texts(one_of({0, fd::CodePoints::kLast}));
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    // Leading bytes and what is about right behind them.
    std::string text{static_cast<char>(state >> 24)};
    const std::size_t more = (state >> 8) % 4;
    for (std::size_t j = 0; j < more; ++j) {
      text += static_cast<char>(0x78 + (state >> (3 * j) & 0x4F));
    }
    CHECK(texts.accepts(text) == (fd::valid_utf8_character(text) == text.size()));
  }
}
