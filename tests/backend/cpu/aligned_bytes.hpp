#pragma once

#include <cstddef>
#include <cstring>
#include <new>

namespace kernels_under_test {

/// Zeros at a multiple of 64 bytes, as views of activations ask for.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, std::align_val_t{64}))) {
    std::memset(data_, 0, size);
  }
  ~AlignedBytes() { ::operator delete(data_, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_;
};

}  // namespace kernels_under_test
