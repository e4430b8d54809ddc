#pragma once

#include <exception>
#include <mutex>
#include <utility>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/experts.hpp>
#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/cuda/recurrent.hpp>
#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/cuda/states.hpp>
#include <foredraft/backend/cuda/worker.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// A backend whose kernels run on a device: weights, activations, keys and values are in its memory,
/// and tokens and scores travel. `Cuda` (cuda.cuh) runs them on a GPU; over HostDevice the host
/// executes the same kernels, for tests.
///
/// Weights are the file's values, sums and functions are float, and what is multiplied by weights is
/// rounded to 17 bits (Operand). A row's bits do not depend on the rows beside it. They are not those
/// of Cpu, and those of a GPU are not those of the host: exp, tanh and the order of a tensor core's
/// sums are each side's own.
///
/// It works on the device that is current when it is made. Caches of its models are
/// `LinearCache<cuda::Rows<D, f16>>`, a RotatingCache, or where layers are recurrent
/// `HybridCache<cuda::Rows<D, f16>, cuda::Replay<D>>`, made while the same device is current.
template <cuda::Device D>
class CudaBackend {
 public:
  using Worker = cuda::Worker<D>;
  using Matrix = cuda::DeviceMatrix<D>;
  using Vector = cuda::DeviceVector<D>;
  template <typename T>
  using Buffer = cuda::DeviceBuffer<D, T>;

  /// @errors kDevice where there is no device
  CudaBackend() : device_(D::current()) {}
  CudaBackend(CudaBackend&&) = delete;

  /// @errors kShapeMismatch, kOutOfMemory
  Matrix pack(const TensorView& weights) const { return Matrix(weights); }
  /// @errors kShapeMismatch, kOutOfMemory
  Vector vector(const TensorView& weights) const { return Vector(dequantized_vector(weights)); }

  /// @errors kOutOfMemory; kDevice where a kernel failed: what the pass was to hand out is not there
  template <typename Body>
  void run(const PassShape& shape, Body&& body) {
    const std::lock_guard lock(mutex_);
    scratch_.reserve(shape);
    Worker worker(device_, scratch_);
    body(worker);
    if (worker.error()) device_.note(worker.error());
    device_.finish();
  }

 private:
  D& device_;
  std::mutex mutex_;
  cuda::Scratch<D> scratch_;
};

}  // namespace foredraft::inline v0
