#include <foredraft/io/name_index.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Item {
  std::string_view name;
  int value;
};

}  // namespace

TEST_CASE("items are found by name, in any order") {
  const std::vector<Item> items = {{"pear", 1}, {"apple", 2}, {"", 3}, {"pea", 4}};
  const auto order = fd::index_by_name(items, &Item::name, "fruits");
  for (const Item& item : items)
    CHECK(fd::find_by_name(items, order, &Item::name, item.name) == &item);
  for (const char* other : {"appl", "apples", "zebra", "peas"}) {
    CHECK(fd::find_by_name(items, order, &Item::name, other) == nullptr);
  }
  const std::vector<Item> none;
  CHECK(fd::find_by_name(none, fd::index_by_name(none, &Item::name, "fruits"), &Item::name, "") ==
        nullptr);
}

TEST_CASE("two items of one name are refused") {
  const std::vector<Item> items = {{"pear", 1}, {"apple", 2}, {"pear", 3}};
  try {
    fd::index_by_name(items, &Item::name, "fruits");
    FAIL("accepted");
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kCorruptFile);
    CHECK(e.found() == "two fruits called \"pear\"");
  }
}

TEST_CASE("many names cost no quadratic search") {
  std::vector<std::string> names;
  for (int i = 0; i < 200'000; ++i) names.push_back("tokenizer.key." + std::to_string(i));
  std::vector<Item> items;
  for (const std::string& name : names) items.push_back({name, 0});
  const auto order = fd::index_by_name(items, &Item::name, "keys");
  CHECK(fd::find_by_name(items, order, &Item::name, "tokenizer.key.77777") == &items[77777]);
}
