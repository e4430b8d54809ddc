#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

// An operator new of the program's own, in all its forms: it counts, and fails when it is told to.
// For one file of a program, because there can be only one.

/// What became of memory since the program began, on all threads.
namespace memory {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

inline std::atomic<std::int64_t> allocations{0};
inline std::atomic<std::int64_t> frees{0};
inline std::atomic<std::int64_t> before_failure{kNever};  // allocations that still succeed
inline std::atomic<bool> once{true};                      // one fails, or all from then on

/// Blocks in use.
inline std::int64_t live() { return allocations - frees; }

/// While it lives, the allocation behind the next `n` fails; with `all`, those behind that, too.
class Failure {
 public:
  explicit Failure(std::int64_t n, bool all = false) {
    once = !all;
    before_failure = n;
  }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  ~Failure() { before_failure = kNever; }
};

inline bool fails() noexcept {
  if (before_failure == kNever || before_failure-- > 0) return false;
  before_failure = once ? kNever : 0;
  return true;
}

/// Null where it fails.
inline void* take(std::size_t size, std::align_val_t alignment = std::align_val_t{1}) noexcept {
  if (fails()) return nullptr;
  const auto least = std::max(static_cast<std::size_t>(alignment), alignof(std::max_align_t));
  void* data = nullptr;
  if (::posix_memalign(&data, least, std::max(size, std::size_t{1})) != 0) return nullptr;
  ++allocations;
  return data;
}
inline void* take_or_throw(std::size_t size, std::align_val_t alignment = std::align_val_t{1}) {
  if (void* const data = take(size, alignment)) return data;
  throw std::bad_alloc();
}
inline void give_back(void* data) noexcept {
  frees += data != nullptr;
  std::free(data);
}

}  // namespace memory

using Align = std::align_val_t;
using NoThrow = const std::nothrow_t&;

void* operator new(std::size_t n) { return memory::take_or_throw(n); }
void* operator new[](std::size_t n) { return memory::take_or_throw(n); }
void* operator new(std::size_t n, NoThrow) noexcept { return memory::take(n); }
void* operator new[](std::size_t n, NoThrow) noexcept { return memory::take(n); }
void* operator new(std::size_t n, Align a) { return memory::take_or_throw(n, a); }
void* operator new[](std::size_t n, Align a) { return memory::take_or_throw(n, a); }
void* operator new(std::size_t n, Align a, NoThrow) noexcept { return memory::take(n, a); }
void* operator new[](std::size_t n, Align a, NoThrow) noexcept { return memory::take(n, a); }

void operator delete(void* data) noexcept { memory::give_back(data); }
void operator delete[](void* data) noexcept { memory::give_back(data); }
void operator delete(void* data, std::size_t) noexcept { memory::give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { memory::give_back(data); }
void operator delete(void* data, NoThrow) noexcept { memory::give_back(data); }
void operator delete[](void* data, NoThrow) noexcept { memory::give_back(data); }
void operator delete(void* data, Align) noexcept { memory::give_back(data); }
void operator delete[](void* data, Align) noexcept { memory::give_back(data); }
void operator delete(void* data, std::size_t, Align) noexcept { memory::give_back(data); }
void operator delete[](void* data, std::size_t, Align) noexcept { memory::give_back(data); }
void operator delete(void* data, Align, NoThrow) noexcept { memory::give_back(data); }
void operator delete[](void* data, Align, NoThrow) noexcept { memory::give_back(data); }
