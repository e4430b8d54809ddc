#include <foredraft/io/string_table.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

fd::StringTable table_of(const std::vector<std::string>& texts) {
  fd::StringTable table;
  for (const auto& text : texts) table.push_back(text);
  return table;
}

}  // namespace

TEST_CASE("a table keeps strings, empty ones and zero bytes too") {
  const fd::StringTable table = table_of({"a", "", std::string("x\0y", 3), "b"});
  REQUIRE(table.size() == 4);
  CHECK(table[0] == "a");
  CHECK(table[1].empty());
  CHECK(table[2] == std::string("x\0y", 3));
  CHECK(table[3] == "b");
}

TEST_CASE("an index finds each string, and of equal ones the last in order") {
  std::vector<std::string> texts;
  std::vector<fd::TokenId> order;
  for (int i = 0; i < 1000; ++i) {
    texts.push_back(std::to_string(i % 900));
    order.push_back(i);
  }
  const fd::StringTable table = table_of(texts);
  const fd::StringIndex index(table, order);
  for (int i = 0; i < 900; ++i) {
    CHECK(index.find(table, std::to_string(i)) == (i < 100 ? 900 + i : i));
  }
  CHECK(!index.find(table, "900"));
  CHECK(!index.find(table, ""));
}

TEST_CASE("an index follows copies and moves of its table") {
  fd::StringTable table = table_of({"a", "b"});
  const std::vector<fd::TokenId> order = {0, 1};
  const fd::StringIndex index(table, order);
  const fd::StringTable copy = table;
  const fd::StringTable moved = std::move(table);
  CHECK(index.find(copy, "b") == 1);
  CHECK(index.find(moved, "b") == 1);
}

TEST_CASE("an empty index finds nothing") {
  const fd::StringTable table;
  CHECK(!fd::StringIndex().find(table, "a"));
  CHECK(!fd::StringIndex(table, {}).find(table, "a"));
}
