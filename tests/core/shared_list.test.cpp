#include <foredraft/core/shared_list.hpp>

#include <type_traits>

#include "support/catch.hpp"

namespace fd = foredraft;

using List = fd::SharedList<int>;
static_assert(std::is_nothrow_copy_constructible_v<List> &&
              std::is_nothrow_copy_assignable_v<List>);

TEST_CASE("a shared list holds its items in order") {
  const List list{3, 1, 2};
  CHECK(list.size() == 3);
  CHECK(list[0] == 3);
  CHECK(std::vector<int>(list.begin(), list.end()) == std::vector<int>{3, 1, 2});
  CHECK(List{}.empty());
  CHECK(List{}.items().empty());
  CHECK(List(std::vector<int>{}).empty());
  CHECK_FALSE(list.empty());
}

TEST_CASE("copies share the items, and lists are compared by them") {
  const List list{1, 2};
  const List copy = list;
  CHECK(copy.items().data() == list.items().data());
  CHECK(copy == list);
  CHECK(List{1, 2} == list);
  CHECK_FALSE(List{1, 2, 3} == list);
  CHECK_FALSE(List{2, 1} == list);
  CHECK_FALSE(List{} == list);
  CHECK(List{} == List(std::vector<int>{}));
}
