#include <foredraft/constraint/character_kind.hpp>

#include <string_view>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("characters of a kind are counted up to the first that is none") {
  fd::CharacterKind kind;
  kind.ascii.set('a');
  const auto run = [&](std::string_view text, int most = 9) {
    const fd::CharacterKind::Run found = kind.run(text, most);
    CHECK(found.bytes <= text.size());
    return found.characters;
  };
  CHECK(run("") == 0);
  CHECK(run("aab") == 2);
  CHECK(run("aab", 1) == 1);
  CHECK(run("a\xC3\xA9") == 1);
  kind.beyond = true;
  CHECK(run("a\xC3\xA9"
            "a") == 3);
  CHECK(kind.run("\xC3\xA9", 9).bytes == 2);
  CHECK(run("a\xC3") == 1);     // a part of a character
  CHECK(run("\xC0\x80") == 0);  // no character
}

TEST_CASE("plain in JSON is what needs no escape") {
  const auto kind = fd::CharacterKind::plain_in_json();
  CHECK(kind.run("ab \x7F/\xE4\xB8\xAD", 9).characters == 6);
  for (const char* text : {"\"", "\\", "\n", "\x1F"}) CHECK(kind.run(text, 9).characters == 0);
}
