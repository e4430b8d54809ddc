#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <foredraft/core/pages.hpp>
#include <foredraft/core/tensor.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace foredraft::inline v0 {

/// Give pages of a mapped file back to the system: they no longer count as memory of this process.
/// Whoever touches them again reads the same bytes, from the system's copy of the file or from the
/// disk.
/// @param mapping  all of a read-only mapping; empty: memory of another kind, which is left alone
/// @param bytes    the part of it that has been read
/// @cost a call of the system; unmapping these pages costs less later
inline void drop_pages(std::span<const std::byte> mapping,
                       std::span<const std::byte> bytes) noexcept {
#if defined(__linux__)
  // Where a page is touched, the system maps those around it that it has, up to a huge page. They
  // have to go, too. What nobody has touched yet is not there, so a wide circle costs nothing.
  const auto address = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); };
  const std::uintptr_t first = address(mapping.data());
  const std::uintptr_t begin = std::max(first, address(bytes.data()) / kHugePage * kHugePage);
  const std::uintptr_t end =
      std::min(first + mapping.size(),
               (address(bytes.data()) + bytes.size() + kHugePage - 1) / kHugePage * kHugePage);
  // A hint: where it is refused, nothing but memory is lost.
  if (begin < end) {
    (void)madvise(const_cast<std::byte*>(mapping.data()) + (begin - first), end - begin,
                  MADV_DONTNEED);
  }
#else
  (void)mapping;
  (void)bytes;
#endif
}

/// Drops the pages of a mapped file behind its reader, so that about a step of it is in memory at
/// once. What a reader leaves of its last step stays until it is dropped with something near it, or
/// unmapped.
class DropBehind {
 public:
  /// Calls must be rare beside reading and repacking, and what is kept small beside a model.
  static constexpr std::size_t kStep = std::size_t{4} << 20;

  /// `bytes`, a part of tensor.data, have been read. The next ones should follow or lie near: what
  /// is between them is dropped with them.
  void read(const TensorView& tensor, std::span<const std::byte> bytes) noexcept {
    if (tensor.mapping.empty()) return;
    if (read_ == 0) begin_ = end_ = bytes.data();
    begin_ = std::min(begin_, bytes.data());
    end_ = std::max(end_, bytes.data() + bytes.size());
    read_ += bytes.size();
    if (read_ < kStep) return;
    drop_pages(tensor.mapping, {begin_, end_});
    read_ = 0;
  }
  void read(const TensorView& tensor) noexcept { read(tensor, tensor.data); }

 private:
  const std::byte* begin_ = nullptr;  // of what has been read since pages were dropped
  const std::byte* end_ = nullptr;
  std::size_t read_ = 0;
};

}  // namespace foredraft::inline v0
