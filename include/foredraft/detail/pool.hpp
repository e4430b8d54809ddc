#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace foredraft::inline v0::detail {

/// Objects that are dear to make, each lent to one caller at a time. Any number of threads may
/// borrow: there are as many objects as were ever lent at once.
template <typename T>
class Pool {
 public:
  /// Gives its object back at the end of its life.
  class Loan {
   public:
    Loan(Pool& pool, std::unique_ptr<T> object) noexcept
        : pool_(pool), object_(std::move(object)) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() {
      const std::lock_guard<std::mutex> lock(pool_.state_->mutex);
      pool_.state_->idle.push_back(std::move(object_));  // borrow() made room
    }

    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<T> object_;
  };

  /// An idle object, or make().
  template <typename Make>
  Loan borrow(Make&& make) {
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (!state_->idle.empty()) {
        auto object = std::move(state_->idle.back());
        state_->idle.pop_back();
        return Loan(*this, std::move(object));
      }
    }
    auto object = std::make_unique<T>(make());
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      state_->idle.reserve(state_->made + 1);
      ++state_->made;
    }
    return Loan(*this, std::move(object));
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> idle;
    std::size_t made = 0;
  };
  // Behind a pointer, because whoever has a pool may be moved, and a mutex may not.
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace foredraft::inline v0::detail
