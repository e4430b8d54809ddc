#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/core/error.hpp>
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
  Weights view() const noexcept { return {chunks_.data(), scales_.data(), n_out_, n_in_, format_}; }
  WeightFormat format() const noexcept { return format_; }
  int n_out() const noexcept { return n_out_; }
  int n_in() const noexcept { return n_in_; }

 private:
  DeviceMatrix(const TensorView& weights, const WeightBytes& packed)
      : format_(format_for(weights.type)),
        n_out_(counted(weights.n_out)),
        n_in_(counted(weights.n_in)),
        chunks_(packed.chunks.size()) {
    D& device = D::current();
    device.upload(chunks_.data(), packed.chunks.data(), packed.chunks.size());
    if (packed.scales.empty()) return;
    const std::span scales(packed.scales);
    scales_ = DeviceMemory<D, std::uint16_t>(scales.size());
    device.upload(reinterpret_cast<std::byte*>(scales_.data()), std::as_bytes(scales).data(),
                  scales.size_bytes());
  }

  static int counted(std::size_t n) {
    if (n <= std::size_t{std::numeric_limits<int>::max()}) return static_cast<int>(n);
    throw Error(ErrorCode::kShapeMismatch, "a dimension of " + std::to_string(n), "below 2^31", "");
  }

  WeightFormat format_ = WeightFormat::kF32;
  int n_out_ = 0;
  int n_in_ = 0;
  DeviceMemory<D, std::byte> chunks_ = {};
  DeviceMemory<D, std::uint16_t> scales_ = {};
};

}  // namespace foredraft::inline v0::cuda
