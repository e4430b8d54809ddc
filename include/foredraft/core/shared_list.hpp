#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace foredraft::inline v0 {

/// A list that never changes, for options: they are copied every round, and copies share it.
/// @cost a copy allocates nothing
template <typename T>
class SharedList {
 public:
  SharedList() noexcept = default;
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}
  SharedList(std::vector<T> items)  // NOLINT(google-explicit-constructor): a vector is a list
      : items_(items.empty() ? nullptr : std::make_shared<const std::vector<T>>(std::move(items))) {
  }

  std::span<const T> items() const noexcept {
    return items_ ? std::span<const T>(*items_) : std::span<const T>();
  }
  bool empty() const noexcept { return items_ == nullptr; }
  std::size_t size() const noexcept { return items().size(); }
  const T& operator[](std::size_t i) const noexcept { return (*items_)[i]; }
  auto begin() const noexcept { return items().begin(); }
  auto end() const noexcept { return items().end(); }

  /// Item by item.
  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ || std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;  // null: no items
};

}  // namespace foredraft::inline v0
