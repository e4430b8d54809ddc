#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Items that are found by their keys, fixed once it is made.
///
/// The items of a bucket are sorted by key. As a rule there are one or two of them; where a file
/// chose keys that all fall into one bucket, a search is a bisection. So no file makes a search
/// slower than O(log n) comparisons, whatever the hash.
template <typename Item>
class BucketIndex {
 public:
  BucketIndex() = default;

  /// Of items with equal keys the first is kept.
  /// @param hash  hash(item), of the item's key @param less  less(item, item), by key
  /// @cost n hashes, O(n log n) comparisons at worst
  template <typename Hash, typename Less>
  BucketIndex(const std::vector<Item>& items, Hash hash, Less less)
      : begins_(std::bit_ceil(items.size() + 1) + 1, 0) {
    std::vector<std::uint32_t> bucket;  // of each item
    bucket.reserve(items.size());
    for (const Item& item : items) {
      bucket.push_back(bucket_of(hash(item)));
      ++begins_[bucket.back() + 1];
    }
    for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    items_.resize(items.size());
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < items.size(); ++i) items_[next[bucket[i]]++] = items[i];

    const auto same = [&less](const Item& a, const Item& b) { return !less(a, b); };  // if sorted
    auto to = items_.begin();
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
      const auto begin = items_.begin() + begins_[i];
      auto end = items_.begin() + begins_[i + 1];
      if (end - begin > 1) {
        sort(begin, end, less);
        end = std::unique(begin, end, same);
      }
      begins_[i] = static_cast<std::uint32_t>(to - items_.begin());
      to = to == begin ? end : std::move(begin, end, to);
    }
    begins_.back() = static_cast<std::uint32_t>(to - items_.begin());
    items_.erase(to, items_.end());
  }

  /// The item of a key, or null.
  /// @param compare  compare(item) is below, equal to or above 0 as the item's key is to the wanted
  /// @cost O(1) comparisons, O(log n) where a file made keys collide
  template <typename Compare>
  const Item* find(std::size_t hash, Compare compare) const {
    if (items_.empty()) return nullptr;
    const std::uint32_t bucket = bucket_of(hash);
    std::uint32_t low = begins_[bucket];
    std::uint32_t high = begins_[bucket + 1];
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      const auto order = compare(items_[middle]);
      if (order == 0) return &items_[middle];
      if (order < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return nullptr;
  }

  std::size_t size() const noexcept { return items_.size(); }

 private:
  /// Equal items stay in their order. Most buckets have two or three; those that a file filled are
  /// sorted by their places, too.
  template <typename At, typename Less>
  static void sort(At begin, At end, Less& less) {
    if (end - begin <= 16) {
      for (At at = begin + 1; at < end; ++at) {
        std::rotate(std::upper_bound(begin, at, *at, less), at, at + 1);
      }
      return;
    }
    std::vector<std::ptrdiff_t> places(idx(end - begin));
    std::iota(places.begin(), places.end(), std::ptrdiff_t{0});
    std::sort(places.begin(), places.end(), [&](std::ptrdiff_t a, std::ptrdiff_t b) {
      if (less(begin[a], begin[b])) return true;
      return !less(begin[b], begin[a]) && a < b;
    });
    std::vector<Item> sorted;
    sorted.reserve(places.size());
    for (const std::ptrdiff_t place : places) sorted.push_back(begin[place]);
    std::copy(sorted.begin(), sorted.end(), begin);
  }

  std::uint32_t bucket_of(std::size_t hash) const noexcept {
    return static_cast<std::uint32_t>(hash & (begins_.size() - 2));  // a power of two of them
  }

  std::vector<std::uint32_t> begins_;  // [buckets + 1] first item of each
  std::vector<Item> items_;
};

}  // namespace foredraft::inline v0
