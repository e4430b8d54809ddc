#include <foredraft/constraint/text_cursor.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

TEST_CASE("a cursor reads characters, numbers and digits") {
  fd::TextCursor text("a\xC3\xA9\xF0\x9F\x98\x80 12,ff", "a pattern");
  CHECK(text.character() == 'a');
  CHECK(text.character() == 0xE9);
  CHECK(text.character() == 0x1F600);
  CHECK(text.take(" "));
  CHECK_FALSE(text.number() == 13);
  CHECK(text.take(","));
  CHECK_FALSE(text.number().has_value());
  CHECK(text.hex(2) == 255);
  CHECK(text.at_end());
  CHECK(text.peek() == '\0');
  CHECK_FALSE(text.take("x"));
}

TEST_CASE("what is refused is named with its place") {
  fd::TextCursor text("a\nb\xFF", "a grammar");
  text.skip(3);
  CHECK(code_of([&] { text.character(); }) == fd::ErrorCode::kInvalidConstraint);
  CHECK(code_of([&] { text.hex(2); }) == fd::ErrorCode::kInvalidConstraint);
  try {
    text.refuse("x", "y");
  } catch (const fd::Error& error) {
    CHECK(error.found() == "a grammar with x at byte 3, line 2,");
  }
  fd::TextCursor large("99999999", "a pattern");
  CHECK(code_of([&] { large.number(); }) == fd::ErrorCode::kInvalidConstraint);
}
