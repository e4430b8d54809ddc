#pragma once

#include <cstddef>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cuda {

/// A matrix in a device's memory, with exactly the values of the file.
template <Device D>
class DeviceMatrix {
 public:
  /// Where there is none.
  DeviceMatrix() noexcept = default;
  /// @errors kShapeMismatch, kOutOfMemory
  explicit DeviceMatrix(const TensorView& weights) : DeviceMatrix(weights, pack_weights(weights)) {}

  /// For arguments of kernels.
  Weights view() const noexcept {
    return {reinterpret_cast<const Words*>(steps_.data()), scales_.data(), n_out_, n_in_, format_};
  }
  WeightFormat format() const noexcept { return format_; }
  int n_out() const noexcept { return n_out_; }
  int n_in() const noexcept { return n_in_; }

 private:
  DeviceMatrix(const TensorView& weights, const WeightBytes& packed)
      : format_(format_for(weights.type)),
        n_out_(static_cast<int>(weights.n_out)),
        n_in_(static_cast<int>(weights.n_in)),
        steps_(uploaded(packed.steps)),
        scales_(uploaded(packed.scales)) {}

  static DeviceMemory<D, std::byte> uploaded(const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return {};
    DeviceMemory<D, std::byte> memory(bytes.size());
    D::current().upload(memory.data(), bytes.data(), bytes.size());
    return memory;
  }

  WeightFormat format_ = WeightFormat::kF32;
  int n_out_ = 0;
  int n_in_ = 0;
  DeviceMemory<D, std::byte> steps_ = {};
  DeviceMemory<D, std::byte> scales_ = {};
};

}  // namespace foredraft::inline v0::cuda
