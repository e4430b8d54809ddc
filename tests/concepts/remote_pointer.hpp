#pragma once

#include <cstddef>
#include <type_traits>

namespace archetype {

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

 protected:
  T* place_ = nullptr;
};

/// One that can also be moved on, to a layer's own part of what it points to.
template <typename T>
class MovingRemote : public Remote<T> {
 public:
  MovingRemote(std::nullptr_t = nullptr) {}                // NOLINT(google-explicit-constructor)
  MovingRemote(Remote<T> pointer) : Remote<T>(pointer) {}  // NOLINT(google-explicit-constructor)
  operator MovingRemote<const T>() const                   // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return Remote<const T>(*this);
  }
  MovingRemote operator+(std::ptrdiff_t n) const { return Remote<T>(this->place_ + n); }
};

}  // namespace archetype
