#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cuda {

namespace detail {
/// A kernel that does nothing, for the concept to name.
struct EmptyKernel {
  static constexpr const char* kName = "empty";
  static constexpr int kThreads = kWarp;
  struct Args {};
  template <typename T>
  FOREDRAFT_DEVICE static void run(T&, const Args&) {}
};
}  // namespace detail

/// Something that has memory of its own and runs kernels over it.
///
/// A type `D` satisfies Device when, besides the syntax below:
///  1. current() is the device that this thread works with: the one that was Chosen last, stream(0)
///     where none is. It lives as long as the program, so memory may be given back whenever;
///  2. allocate(n) is room for n bytes that begins at a multiple of 256, or throws kOutOfMemory and
///     leaves everything usable. Only kernels, upload() and download() look into it;
///  3. what is asked of a device happens in that order: kernels, copies, and the reuse of what was
///     released. Nothing but download() and finish() waits for it;
///  4. launch<K>() asks for a kernel (see device_ops.hpp). It may start later, together with others, but
///     ahead of the next copy, which throws kDevice or kOutOfMemory where it cannot, whoever asked for
///     it; then none of those others may be counted on;
///  5. finish() waits for all of it and throws what has gone wrong since it was called last: in a
///     kernel, or an error that somebody noted who could not throw.
///  6. stream(n), n >= 0, is a device for each n over the same hardware: its order, its memory that is
///     given back and its errors are its own, and it waits for no other.
/// Calls from several threads follow each other.
/// @see HostDevice, GpuDevice
template <typename D>
concept Device = requires(D& device, std::byte* at, const std::byte* from, std::size_t n,
                          const detail::EmptyKernel::Args& args) {
  { D::current() } -> std::same_as<D&>;
  { D::stream(0) } -> std::same_as<D&>;
  { device.allocate(n) } -> std::same_as<std::byte*>;
  { device.release(at, n) } noexcept;
  device.upload(at, from, n);
  device.download(at, from, n);
  device.template launch<detail::EmptyKernel>(Grid{}, 0, args);
  device.finish();
  { device.note(std::current_exception()) } noexcept;
};

/// The device that its thread works with, as long as it lives.
template <typename D>
class Chosen {
 public:
  explicit Chosen(D& device) noexcept : before_(std::exchange(innermost(), &device)) {}
  Chosen(Chosen&&) = delete;
  ~Chosen() { innermost() = before_; }

  /// Null where none was chosen.
  static D*& innermost() noexcept {
    thread_local D* device = nullptr;
    return device;
  }

 private:
  D* before_;
};

/// Where the rows of a cache belong: to the device of the model whose shape it is, or else the current.
template <Device D>
D& device_of(const CacheShape& shape) {
  D* const device = shape.place.get<D>();
  return device != nullptr ? *device : D::current();
}

/// A pointer into a device's memory, which the host does not follow. It can be null, copied, made
/// const, and handed to a kernel.
template <typename T>
class DevicePointer {
 public:
  DevicePointer(std::nullptr_t = nullptr) noexcept {}  // NOLINT(google-explicit-constructor)
  explicit DevicePointer(T* place) noexcept : place_(place) {}
  template <typename U>
    requires(!std::is_const_v<U> && std::same_as<const U, T>)
  DevicePointer(DevicePointer<U> other) noexcept  // NOLINT(google-explicit-constructor)
      : place_(other.raw()) {}
  explicit operator bool() const noexcept { return place_ != nullptr; }
  DevicePointer operator+(std::ptrdiff_t n) const noexcept { return DevicePointer(place_ + n); }
  /// For arguments of kernels.
  T* raw() const noexcept { return place_; }

 private:
  T* place_ = nullptr;
};

/// Memory of a device that belongs to somebody: n elements, given back with their owner.
template <Device D, typename T>
class DeviceMemory {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceMemory() noexcept = default;
  /// Room for n elements of the current device. @errors kOutOfMemory
  explicit DeviceMemory(std::size_t n) : device_(&D::current()), size_(n) {
    data_ = device_->allocate(n * sizeof(T));
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->release(data_, size_ * sizeof(T));
  }

  T* data() const noexcept { return reinterpret_cast<T*>(data_); }
  std::size_t size() const noexcept { return size_; }

  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

 private:
  D* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory of a pass: see Backend. What it held is lost when it grows.
template <Device D, typename T>
class DeviceBuffer {
 public:
  /// @errors kOutOfMemory, and then the room is what it was
  DevicePointer<T> reserve(std::size_t n) {
    if (memory_.size() < n || memory_.data() == nullptr) memory_ = DeviceMemory<D, T>(n);
    return DevicePointer<T>(memory_.data());
  }
  DevicePointer<const T> write(std::span<const T> values) {
    const DevicePointer<T> to = reserve(values.size());
    D::current().upload(reinterpret_cast<std::byte*>(to.raw()),
                        reinterpret_cast<const std::byte*>(values.data()), values.size_bytes());
    return to;
  }

 private:
  DeviceMemory<D, T> memory_;
};

/// A vector of floats in a device's memory.
template <Device D>
class DeviceVector {
 public:
  DeviceVector() noexcept = default;
  /// @errors kOutOfMemory
  explicit DeviceVector(std::span<const float> values) : memory_(values.size()) {
    D::current().upload(reinterpret_cast<std::byte*>(memory_.data()),
                        reinterpret_cast<const std::byte*>(values.data()), values.size_bytes());
  }
  DevicePointer<const float> data() const noexcept {
    return DevicePointer<const float>(memory_.data());
  }
  bool empty() const noexcept { return memory_.size() == 0; }

 private:
  DeviceMemory<D, float> memory_;
};

}  // namespace foredraft::inline v0::cuda
