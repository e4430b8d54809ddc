#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>

namespace foredraft::inline v0 {

/// Places of the items, sorted by name: duplicates end up side by side, and a search is a
/// bisection. Unlike a hash table it has no bad case that a file could aim for.
/// @errors kCorruptFile where two items share a name
template <typename Item>
std::vector<std::size_t> index_by_name(const std::vector<Item>& items,
                                       std::string_view Item::* name, const std::string& kind) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto name_at = [&](std::size_t i) { return items[i].*name; };
  std::ranges::sort(order, {}, name_at);
  const auto twice = std::ranges::adjacent_find(order, {}, name_at);
  if (twice != order.end()) {
    throw Error(ErrorCode::kCorruptFile, "two " + kind + " called " + in_quotes(name_at(*twice)),
                "one", "readers would disagree on which of them counts");
  }
  return order;
}

/// The item of that name, or null.
template <typename Item>
const Item* find_by_name(const std::vector<Item>& items, const std::vector<std::size_t>& order,
                         std::string_view Item::* name, std::string_view wanted) {
  const auto name_at = [&](std::size_t i) { return items[i].*name; };
  const auto found = std::ranges::lower_bound(order, wanted, {}, name_at);
  return found != order.end() && name_at(*found) == wanted ? &items[*found] : nullptr;
}

}  // namespace foredraft::inline v0
