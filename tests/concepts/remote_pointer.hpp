#pragma once

#include <cstddef>
#include <type_traits>

namespace archetype {

class RemoteWorker;

/// A pointer into remote memory. It can be null, copied and made const, and nothing else.
template <typename T>
class Remote {
 public:
  Remote(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor)
  explicit Remote(T* place) : place_(place) {}
  operator Remote<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return Remote<const T>(place_);
  }

 private:
  friend RemoteWorker;
  T* place_ = nullptr;
};

}  // namespace archetype
