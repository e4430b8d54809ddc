#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>

namespace foredraft::inline v0 {

/// A reference to an object whose type those in between need not know; it may refer to nothing.
class AnyRef {
 public:
  AnyRef() = default;
  template <typename T>
    requires(!std::is_const_v<T> && !std::same_as<T, AnyRef>)
  explicit AnyRef(T& object) noexcept : object_(std::addressof(object)), type_(&typeid(T)) {}

  /// Null where it refers to nothing, or to an object that was handed over as another type.
  template <typename T>
  T* get() const noexcept {
    return type_ != nullptr && *type_ == typeid(T) ? static_cast<T*>(object_) : nullptr;
  }

 private:
  void* object_ = nullptr;
  const std::type_info* type_ = nullptr;
};

}  // namespace foredraft::inline v0
