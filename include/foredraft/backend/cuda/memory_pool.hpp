#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>

namespace foredraft::inline v0::cuda {

/// Memory that is kept when it is given back, for the next who asks for as much: a device takes long
/// to allocate, and waits for everything before it frees.
///
/// Sizes are rounded up to one of eight steps between two powers of two, at least 512 bytes: so less
/// than an eighth is wasted, and buffers that grow find what others left.
/// @tparam Source  has allocate(bytes), null where there is no more, and release(place) noexcept.
///   What it releases may still be in use by what was asked of the device before.
template <typename Source>
class MemoryPool {
 public:
  explicit MemoryPool(Source source = {}) : source_(std::move(source)) {}
  MemoryPool(MemoryPool&&) = delete;
  ~MemoryPool() { trim(); }

  /// What is taken for a request. @cost O(1)
  static std::size_t rounded(std::size_t bytes) noexcept {
    constexpr std::size_t kLeast = 512;
    if (bytes <= kLeast) return kLeast;
    const std::size_t step = std::max(kLeast, std::bit_floor(bytes - 1) / 8);
    return (bytes + step - 1) / step * step;
  }

  /// @errors kOutOfMemory where the source has no more even after trim()
  std::byte* allocate(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    std::vector<std::byte*>& kept = kept_[size];
    if (!kept.empty()) {
      std::byte* const place = kept.back();
      kept.pop_back();
      kept_bytes_ -= size;
      return place;
    }
    // One place more in the list, so that whoever gives it back needs none.
    ++handed_out_[size];
    kept.reserve(handed_out_[size]);
    std::byte* place = source_.allocate(size);
    if (place == nullptr && kept_bytes_ > 0) {
      trim();
      place = source_.allocate(size);
    }
    if (place != nullptr) return place;
    --handed_out_[size];
    throw Error(ErrorCode::kOutOfMemory,
                "no memory of the device for " + std::to_string(bytes) + " bytes", "more of it",
                "use a smaller context or a smaller model, or end what else uses the device");
  }

  /// @param bytes  what was asked for
  void release(std::byte* place, std::size_t bytes) noexcept {
    const std::size_t size = rounded(bytes);
    kept_.find(size)->second.push_back(place);
    kept_bytes_ += size;
  }

  /// Give back what nobody uses.
  void trim() noexcept {
    for (auto& [size, places] : kept_) {
      for (std::byte* const place : places) source_.release(place);
      handed_out_.find(size)->second -= places.size();
      places.clear();
    }
    kept_bytes_ = 0;
  }

  std::size_t kept_bytes() const noexcept { return kept_bytes_; }

 private:
  Source source_;
  std::map<std::size_t, std::vector<std::byte*>> kept_;  // by size
  std::map<std::size_t, std::size_t> handed_out_;        // by size: in use or kept
  std::size_t kept_bytes_ = 0;
};

}  // namespace foredraft::inline v0::cuda
