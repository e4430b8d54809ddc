#pragma once

#include <cstddef>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace foredraft::inline v0 {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;
inline constexpr std::size_t kLine = 64;  // of the caches, and a vector

struct FreePages {
  std::align_val_t alignment{kLine};
  void operator()(std::byte* memory) const noexcept { ::operator delete(memory, alignment); }
};
using Pages = std::unique_ptr<std::byte, FreePages>;

/// Memory that nobody has touched yet: the system gives it page by page, near the thread that writes
/// to a page first.
///
/// What is read over and over from one end to the other is read faster from huge pages. A small page
/// has an address translation of its own, which in a virtual machine is looked up twice.
/// @param huge  in pages of kHugePage where the system has them and the memory fills one; aligned to
///   them then
/// @return aligned to kLine; null where there is no room
inline Pages take_pages(std::size_t bytes, bool huge) noexcept {
  huge = huge && bytes >= kHugePage && bytes <= PTRDIFF_MAX - kHugePage;
  if (huge) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const std::align_val_t alignment{huge ? kHugePage : kLine};
  void* memory = ::operator new(bytes, alignment, std::nothrow);
#if defined(__linux__)
  // A hint: where it is refused, nothing but speed is lost.
  if (huge && memory != nullptr) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return {static_cast<std::byte*>(memory), {alignment}};
}

}  // namespace foredraft::inline v0
