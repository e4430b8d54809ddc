#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace foredraft::inline v0::cpu {

/// Memory for matrices that are read over and over, from one end to the other: slabs of huge pages,
/// cut into pieces.
///
/// A matrix by itself would have what is left of its last two megabytes, or all of it, in small
/// pages, each with an address translation of its own. A slab lives as long as one of its pieces.
class WeightMemory {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kSlab = 32 * kHugePage;
  static constexpr std::size_t kAlignment = 64;  // a vector, and a line of the caches

  struct Piece {
    std::byte* data = nullptr;
    std::shared_ptr<const void> keeper;
  };

  /// @param slab  bytes to ask the system for at a time; larger pieces have a slab for themselves
  explicit WeightMemory(std::size_t slab = kSlab) : slab_bytes_(slab) {}
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;

  /// Memory that nobody has touched yet: the thread that writes a page first gets it near itself.
  /// Threads may ask at the same time.
  /// @return data aligned to kAlignment, or null where there is no room
  Piece take(std::size_t bytes) {
    const std::lock_guard<std::mutex> one_at_a_time(mutex_);
    const std::size_t begin = (used_ + kAlignment - 1) / kAlignment * kAlignment;
    if (slab_ == nullptr || begin > size_ || bytes > size_ - begin) {
      std::shared_ptr<std::byte> slab = reserve(std::max(bytes, slab_bytes_));
      if (slab == nullptr) return {};
      if (bytes >= slab_bytes_) return {slab.get(), slab};
      slab_ = std::move(slab);
      size_ = slab_bytes_;
      used_ = bytes;
      return {slab_.get(), slab_};
    }
    used_ = begin + bytes;
    return {slab_.get() + begin, slab_};
  }

 private:
  static std::shared_ptr<std::byte> reserve(std::size_t bytes) {
    const bool huge = bytes >= kHugePage && bytes <= PTRDIFF_MAX - kHugePage;
    const std::align_val_t alignment{huge ? kHugePage : kAlignment};
    if (huge) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = ::operator new(bytes, alignment, std::nothrow);
    if (memory == nullptr) return nullptr;
#if defined(__linux__)
    // A hint: where it is refused, nothing but speed is lost.
    if (huge) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return {static_cast<std::byte*>(memory),
            [alignment](std::byte* p) { ::operator delete(p, alignment); }};
  }

  const std::size_t slab_bytes_;
  std::mutex mutex_;
  std::shared_ptr<std::byte> slab_;  // the last one, and how much of it is in use
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace foredraft::inline v0::cpu
