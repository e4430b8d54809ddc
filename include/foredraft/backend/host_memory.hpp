#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace foredraft::inline v0 {

/// Memory of a pass, for backends that compute in the host's memory. Kept from pass to pass.
template <typename T>
class HostBuffer {
 public:
  /// Room for n elements at least; what they hold is not defined.
  T* reserve(std::size_t n) {
    if (memory_.size() < n) memory_.resize(n);
    return memory_.data();
  }
  /// Room that holds `values`.
  const T* write(std::span<const T> values) {
    std::copy(values.begin(), values.end(), reserve(values.size()));
    return memory_.data();
  }

 private:
  std::vector<T> memory_;
};

/// What a backend in the host's memory names its memory.
struct HostMemory {
  using Vector = std::vector<float>;
  template <typename T>
  using Buffer = HostBuffer<T>;
};

}  // namespace foredraft::inline v0
