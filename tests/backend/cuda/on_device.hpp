#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#ifdef __CUDACC__
#include <foredraft/backend/cuda/gpu_device.cuh>
#else
#include <foredraft/backend/cuda/host_device.hpp>
#endif

/// What tests of kernels run on: the device that the host plays, or, where nvcc compiles the same tests
/// (tests/cuda), a GPU.
namespace on_device {

namespace fd = foredraft;
#ifdef __CUDACC__
using Device = fd::cuda::GpuDevice;
#else
using Device = fd::cuda::HostDevice;
#endif

/// Kernels that were started; the host alone counts them.
class Launches {
 public:
#ifdef __CUDACC__
  bool are(std::size_t) const { return true; }
#else
  bool are(std::size_t n) const { return Device::current().launches() - before_ == n; }

 private:
  std::size_t before_ = Device::current().launches();
#endif
};

template <typename T>
class Array {
 public:
  /// Room that nobody has written.
  explicit Array(std::size_t n) : memory_(n) {}
  Array(std::vector<T> values) : memory_(values.size()) {  // NOLINT(google-explicit-constructor)
    Device::current().upload(reinterpret_cast<std::byte*>(data()),
                             reinterpret_cast<const std::byte*>(values.data()),
                             values.size() * sizeof(T));
  }
  T* data() const { return memory_.data(); }
  std::vector<T> read() const {
    std::vector<T> values(memory_.size());
    Device::current().download(reinterpret_cast<std::byte*>(values.data()),
                               reinterpret_cast<const std::byte*>(data()),
                               values.size() * sizeof(T));
    return values;
  }

 private:
  fd::cuda::DeviceMemory<Device, T> memory_;
};

/// To its end, so that what goes wrong is thrown here.
template <typename K>
void launch(const fd::cuda::Grid& grid, int shared, const typename K::Args& args) {
  Device::current().launch<K>(grid, shared, args);
  Device::current().finish();
}

}  // namespace on_device
