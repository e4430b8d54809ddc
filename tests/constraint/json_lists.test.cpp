#include <foredraft/constraint/json_lists.hpp>

#include <optional>
#include <string>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

TEST_CASE("as many items as asked for, the first in their order") {
  for (int min = 0; min <= 4; ++min) {
    for (int max = min; max <= 5; ++max) {
      fd::Grammar g;
      fd::JsonGrammar json(g);
      fd::JsonLists lists(g, json);
      g.set_root(g.rule("r", lists.items({g.text("a"), g.text("b")}, g.text("c"), min, max)));
      Texts texts(g);
      CAPTURE(min, max);
      const std::string all[] = {"", "a", "a,b", "a, b,c", "a,b,c,c", "a,b,c,c,c", "a,b,c,c,c,c"};
      for (int n = 0; n < 7; ++n) CHECK(texts.accepts(all[n]) == (min <= n && n <= max));
      CHECK_FALSE(texts.begins("b"));
      CHECK_FALSE(texts.begins("a,c"));
    }
  }
}

TEST_CASE("members in their order, those that need not be there left out or not, then others") {
  fd::Grammar g;
  fd::JsonGrammar json(g);
  fd::JsonLists lists(g, json);
  g.set_root(g.rule(
      "r", lists.members(
               {{"a", g.text("a"), false}, {"b", g.text("b"), true}, {"c", g.text("c"), false}},
               g.text("x"))));
  Texts texts(g);
  for (const char* text : {"b", "a,b", "b,c", "a,b,c", "b,x", "a,b,c,x,x"}) {
    CHECK(texts.accepts(text));
  }
  for (const char* text : {"", "a", "c", "a,c", "x", "b,a", ",b", "b,"}) {
    CHECK_FALSE(texts.accepts(text));
  }
}
