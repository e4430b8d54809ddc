#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <foredraft/backend/cuda/checked_memory.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/host_grid.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0::cuda {

/// A device that the host plays: kernels are executed at once, and checked (see HostGrid). For tests
/// on machines without a GPU; nobody would want to decode with it.
class HostDevice {
 public:
  static HostDevice& current() {
    static HostDevice& only = *new HostDevice;  // outlives whatever holds memory of it
    return only;
  }

  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    try {
      if (allocations_left_ == 0) throw std::bad_alloc();
      --allocations_left_;
      return memory_.allocate(bytes);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes",
                  "more of it", "");
    }
  }
  void release(std::byte* data, std::size_t) noexcept {
    const std::lock_guard lock(mutex_);
    memory_.release(data);
  }

  /// @errors kDevice for a place that is not of this device
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) return;
    CheckedPiece& piece = piece_of(to, bytes);
    std::memcpy(to, from, bytes);
    piece.written_by_host(static_cast<std::size_t>(to - piece.data()), bytes);
  }
  void download(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) return;
    (void)piece_of(from, bytes);
    std::memcpy(to, from, bytes);
  }

  template <typename K>
  void launch(const Grid& grid, int shared, const typename K::Args& args) {
    const std::lock_guard lock(mutex_);
    grid_.run<K>(grid, shared, args);
    ++launches_;
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    if (noted_) std::rethrow_exception(std::exchange(noted_, nullptr));
  }
  void note(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!noted_) noted_ = std::move(error);
  }

  /// After n more allocations there is no memory, for tests; a negative n: there always is.
  void run_out_after(int n) noexcept {
    const std::lock_guard lock(mutex_);
    allocations_left_ = n;
  }
  /// Kernels so far, and pieces of memory that somebody holds: for tests.
  std::size_t launches() const noexcept { return launches_; }
  std::size_t pieces() const noexcept { return memory_.pieces(); }

 private:
  HostDevice() = default;

  CheckedPiece& piece_of(const std::byte* data, std::size_t bytes) {
    if (CheckedPiece* const piece = memory_.find(data, bytes)) return *piece;
    throw Error(ErrorCode::kDevice, "a copy of " + std::to_string(bytes) + " bytes",
                "all of them in one piece of the device's memory", "");
  }

  std::mutex mutex_;
  CheckedMemory memory_;
  HostGrid grid_{memory_};
  std::exception_ptr noted_;
  std::size_t launches_ = 0;
  std::int64_t allocations_left_ = -1;
};
static_assert(Device<HostDevice>);

}  // namespace foredraft::inline v0::cuda
