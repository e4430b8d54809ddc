#include <foredraft/backend/cuda/launch_list.hpp>

#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Small {
  static constexpr const char* kName = "small";
  static constexpr int kThreads = 32;
  struct Args {
    int x;
  };
};
struct Large {
  static constexpr const char* kName = "large";
  static constexpr int kThreads = 64;
  struct Args {
    double values[9];
    Words words;
  };
};

const int kOne = 1, kTwo = 2;  // their addresses stand for kernels

LaunchList list(int x, double value, const Grid& first = {3}, const Grid& second = {2, 5}) {
  LaunchList list;
  list.add<Small>(&kOne, first, 0, {x});
  Large::Args args = {};
  args.values[8] = value;
  args.words.v[3] = 7;
  list.add<Large>(&kTwo, second, 64, args);
  list.add<Small>(&kOne, {}, 16, {x + 1});
  return list;
}

}  // namespace

TEST_CASE("launches are what was asked for, in that order") {
  const LaunchList asked = list(5, 2.5);
  REQUIRE(asked.size() == 3);
  CHECK(!asked.empty());
  CHECK(asked[0].kernel == &kOne);
  CHECK(std::string(asked[1].name) == "large");
  CHECK(asked[1].grid == Grid{2, 5, 1});
  CHECK(asked[1].threads == 64);
  CHECK(asked[1].shared == 64);
  CHECK(static_cast<const Small::Args*>(asked.args(0))->x == 5);
  CHECK(static_cast<const Small::Args*>(asked.args(2))->x == 6);
  const auto* const large = static_cast<const Large::Args*>(asked.args(1));
  CHECK(reinterpret_cast<std::uintptr_t>(large) % alignof(Large::Args) == 0);
  CHECK(large->values[8] == 2.5);
  CHECK(large->words.v[3] == 7);

  LaunchList emptied = asked;
  emptied.clear();
  CHECK(emptied.empty());
  CHECK(asked.size() == 3);
}

TEST_CASE("lists resemble each other with the same kernels and as many blocks of the first") {
  const LaunchList asked = list(1, 1);
  CHECK(asked.resembles(list(2, 2)));
  CHECK(asked.resembles(list(1, 1, {3}, {2, 6})));
  CHECK(!asked.resembles(list(1, 1, {4})));
  LaunchList longer = list(1, 1);
  longer.add<Small>(&kOne, {}, 0, {1});
  CHECK(!asked.resembles(longer));
  LaunchList other;
  other.add<Small>(&kOne, {3}, 0, {1});
  other.add<Large>(&kOne, {2, 5}, 64, {});
  other.add<Small>(&kOne, {}, 16, {2});
  CHECK(!asked.resembles(other));
  CHECK(LaunchList{}.resembles(LaunchList{}));
  CHECK(!LaunchList{}.resembles(asked));
}

TEST_CASE("a launch is the same to the last argument, or is taken over") {
  LaunchList asked = list(1, 1);
  const LaunchList other = list(1, 3, {3}, {2, 6});
  CHECK(asked.same(0, other));
  CHECK(!asked.same(1, other));
  CHECK(asked.same(2, other));
  CHECK(!asked.same(1, list(1, 1, {3}, {2, 6})));  // its grid
  CHECK(!asked.same(2, list(2, 1)));               // the last of all arguments
  asked.take(other, 1);
  for (int i = 0; i < 3; ++i) CHECK(asked.same(i, other));
  CHECK(asked[1].grid == Grid{2, 6});
  CHECK(static_cast<const Large::Args*>(asked.args(1))->values[8] == 3);
}
