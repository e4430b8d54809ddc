#include <foredraft/io/bucket_index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Item {
  std::uint64_t key = 0;
  int value = 0;
};

/// An index with a hash of its own, which counts comparisons.
struct Counting {
  std::size_t comparisons = 0;
  std::size_t (*hash)(std::uint64_t);
  fd::BucketIndex<Item> index;

  Counting(const std::vector<Item>& items, std::size_t (*hash_of)(std::uint64_t))
      : hash(hash_of),
        index(
            items, [&](const Item& item) { return hash(item.key); },
            [&](const Item& a, const Item& b) { return ++comparisons, a.key < b.key; }) {}

  const Item* find(std::uint64_t key) {
    return index.find(hash(key), [&](const Item& item) {
      ++comparisons;
      return item.key < key ? -1 : item.key > key ? 1 : 0;
    });
  }
};

std::size_t itself(std::uint64_t key) { return key; }
std::size_t one_for_all(std::uint64_t) { return 42; }

}  // namespace

TEST_CASE("every item is found by its key, and no other key") {
  std::mt19937 random(1);
  for (const std::size_t n : {0u, 1u, 2u, 3u, 64u, 65u, 1000u}) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < n; ++i) items.push_back({2 * i, static_cast<int>(i)});
    std::shuffle(items.begin(), items.end(), random);
    for (const auto hash : {itself, one_for_all}) {
      Counting index(items, hash);
      CHECK(index.index.size() == n);
      for (const Item& item : items) {
        const Item* const found = index.find(item.key);
        REQUIRE(found != nullptr);
        CHECK(found->value == item.value);
        CHECK(index.find(item.key + 1) == nullptr);
      }
    }
  }
  CHECK(fd::BucketIndex<int>().find(0, [](int) { return 0; }) == nullptr);
}

TEST_CASE("of items with equal keys the first is kept") {
  std::vector<Item> items;
  for (int i = 0; i < 300; ++i) items.push_back({static_cast<std::uint64_t>(i % 100), i});
  for (const auto hash : {itself, one_for_all}) {
    Counting index(items, hash);
    CHECK(index.index.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(index.find(static_cast<std::uint64_t>(i))->value == i);
  }
}

TEST_CASE("keys that collide cost a logarithm, to sort in and to find") {
  constexpr std::size_t kItems = 1 << 16;
  std::mt19937_64 random(2);
  std::vector<Item> items;
  for (std::size_t i = 0; i < kItems; ++i) items.push_back({random(), static_cast<int>(i)});
  Counting index(items, one_for_all);
  CHECK(index.comparisons < 4 * kItems * std::bit_width(kItems));
  index.comparisons = 0;
  for (const Item& item : items) index.find(item.key);
  CHECK(index.comparisons <= kItems * std::bit_width(kItems));
}
