#include <foredraft/drafter/pair_table.hpp>

#include <map>
#include <random>
#include <utility>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a table of pairs holds what a map holds, whatever is added, changed and erased") {
  std::mt19937 random(1);
  for (const int range : {3, 40, 4000}) {
    fd::PairTable table;
    std::map<std::pair<int, int>, int> truth;
    const auto number = [&] {
      return static_cast<int>(random() % static_cast<unsigned>(range)) - range / 2;
    };
    int wrong = 0;
    for (int i = 0; i < 40000; ++i) {
      const std::pair pair{number(), number() / 7};
      if (random() % 2 == 0) {
        table.set(pair.first, pair.second, i);
        truth[pair] = i;
      } else {
        table.erase(pair.first, pair.second);
        truth.erase(pair);
      }
      const std::pair other{number(), number() / 7};
      const auto found = truth.find(other);
      wrong += table.find(other.first, other.second) !=
               (found == truth.end() ? fd::PairTable::kNone : found->second);
    }
    CHECK(wrong == 0);
    CHECK(table.size() == truth.size());
    for (const auto& [pair, value] : truth) CHECK(table.find(pair.first, pair.second) == value);
    table.clear();
    CHECK(table.size() == 0);
    CHECK(table.find(0, 0) == fd::PairTable::kNone);
  }
}

TEST_CASE("a table takes 36 bytes a pair at most") {
  fd::PairTable table;
  CHECK(table.bytes() == 0);
  table.erase(1, 1);
  for (int i = 0; i < 100000; ++i) {
    table.set(i, i * 5, i);
    if (i >= 16) CHECK(table.bytes() <= 36 * table.size());
  }
}
