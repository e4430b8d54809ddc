#include <foredraft/constraint/other_names.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

TEST_CASE("other names are all but those that are taken, those with escapes left out") {
  fd::Grammar g;
  g.set_root(g.rule("name", fd::OtherNames::write(g, {"ab", "a", "x\xC3\xA9", "say \"a\""})));
  Texts texts(g);
  for (const char* name : {"", "b", "abc", "aa", "x", "x\xC3\xA8", "x\xC3\xA9y", "say "}) {
    CHECK(texts.accepts(name));
  }
  for (const char* name : {"ab", "a", "x\xC3\xA9"}) CHECK_FALSE(texts.accepts(name));
  CHECK_FALSE(texts.begins("say \""));
  CHECK_FALSE(texts.begins("\\"));
}
