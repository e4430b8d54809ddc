#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Committed rows as a RowStorage copies them.
template <typename E>
struct RowCopy {
  int n = 0;
  std::vector<E> k;  // [n_layers, n_kv_heads, n rows]
  std::vector<E> v;  // the same, in a format of its own

  static void parts(auto& self, auto& archive) {
    archive(self.n);
    archive(self.k);
    archive(self.v);
  }
};

/// Rows of a snapshot, copies one behind the other, which snapshots have in common.
template <typename E>
using SharedRows = std::vector<std::shared_ptr<const RowCopy<E>>>;

/// Which of a cache's rows were copied already, so that the next snapshot shares these copies: as long
/// as some snapshot has them, and the rows are those that were copied.
template <typename E>
class RowCopies {
 public:
  /// Rows of a copy that is shared; the rest behind the last of them is copied each time.
  static constexpr int kRows = 64;

  /// The copies that there still are.
  SharedRows<E> held() const {
    SharedRows<E> rows;
    for (const auto& copy : copies_) {
      auto held = copy.lock();
      if (held == nullptr) break;
      rows.push_back(std::move(held));
    }
    return rows;
  }

  /// How many of `rows` are copies of what the cache holds.
  std::size_t common(const SharedRows<E>& rows) const noexcept {
    const auto same = [](const auto& copy, const auto& row) { return copy.lock() == row; };
    return idx(std::mismatch(copies_.begin(), copies_.end(), rows.begin(), rows.end(), same).first -
               copies_.begin());
  }

  void reserve(std::size_t n) { copies_.reserve(n); }
  /// The cache holds these rows now; those in whole copies at their beginning are remembered.
  /// @cost no allocation within what was reserved
  void hold(const SharedRows<E>& rows) {
    copies_.clear();
    for (const auto& copy : rows) {
      if (copy->n != kRows) break;
      copies_.push_back(copy);
    }
  }

  /// Rows from `n` on are no longer what they were.
  void truncate(int n) noexcept {
    copies_.resize(std::min(copies_.size(), idx(std::max(n, 0) / kRows)));
  }

 private:
  std::vector<std::weak_ptr<const RowCopy<E>>> copies_;  // of kRows rows each
};

}  // namespace foredraft::inline v0
