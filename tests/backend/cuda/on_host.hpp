#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/host_device.hpp>

/// Memory of the device that the host plays, for tests of single kernels.
namespace on_host {

namespace fd = foredraft;
using Device = fd::cuda::HostDevice;

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

template <typename K>
void launch(const fd::cuda::Grid& grid, int shared, const typename K::Args& args) {
  Device::current().launch<K>(grid, shared, args);
}

}  // namespace on_host
