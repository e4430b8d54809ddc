#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <foredraft/core/pages.hpp>

namespace foredraft::inline v0::cpu {

/// Memory for matrices that are read over and over, from one end to the other: slabs of huge pages,
/// cut into pieces.
///
/// A matrix by itself would have what is left of its last two megabytes, or all of it, in small
/// pages, each with an address translation of its own. A slab lives as long as one of its pieces.
class WeightMemory {
 public:
  static constexpr std::size_t kSlab = 32 * kHugePage;

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
  /// @return data aligned to kLine, or null where there is no room
  Piece take(std::size_t bytes) {
    const std::lock_guard<std::mutex> one_at_a_time(mutex_);
    const std::size_t begin = (used_ + kLine - 1) / kLine * kLine;
    if (slab_ == nullptr || begin > size_ || bytes > size_ - begin) {
      std::shared_ptr<std::byte> slab = take_pages(std::max(bytes, slab_bytes_), true);
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
  const std::size_t slab_bytes_;
  std::mutex mutex_;
  std::shared_ptr<std::byte> slab_;  // the last one, and how much of it is in use
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace foredraft::inline v0::cpu
