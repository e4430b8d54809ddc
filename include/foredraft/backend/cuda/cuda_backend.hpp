#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/experts.hpp>
#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/cuda/recurrent.hpp>
#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/cuda/states.hpp>
#include <foredraft/backend/cuda/worker.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/any_ref.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// How a CudaBackend uses its device.
struct CudaOptions {
  /// Passes of backends with different streams may run at once, where threads ask for them: a target and
  /// a draft model, for instance, of two sequences.
  int stream = 0;
  /// Memory that attention takes for what rows sum up: a block of a prompt behind many positions goes in
  /// several steps. One row is always there, however much it takes. @units bytes
  std::size_t attention_bytes = cuda::kAttentionBytes;
};

/// A backend whose kernels run on a device: weights, activations, keys and values are in its memory,
/// and tokens and scores travel. `Cuda` (cuda.cuh) runs them on a GPU; over HostDevice the host
/// executes the same kernels, for tests.
///
/// Weights are the file's values, sums and functions are float, and what is multiplied by weights is
/// rounded to 17 bits (Operand). A row's bits do not depend on the rows beside it. They are not those
/// of Cpu, and those of a GPU are not those of the host: exp, tanh and the order of a tensor core's
/// sums are each side's own.
///
/// It works on the device that is current when it is made, in a stream of it. Caches of its models,
/// which are there as well, are what Model::make_cache() makes, or any cache over cuda::Rows.
template <cuda::Device D>
class CudaBackend {
 public:
  using Worker = cuda::Worker<D>;
  using Matrix = cuda::DeviceMatrix<D>;
  using Vector = cuda::DeviceVector<D>;
  template <typename S>
  using Rows = cuda::Rows<D, S>;
  using States = cuda::Replay<D>;
  template <typename T>
  using Buffer = cuda::DeviceBuffer<D, T>;

  /// @errors kDevice where there is no device; kInvalidOption for a stream below 0
  explicit CudaBackend(const CudaOptions& options = {}) : device_(stream_of(options)) {
    scratch_.attention_bytes = options.attention_bytes;
  }
  CudaBackend(CudaBackend&&) = delete;

  /// @errors kShapeMismatch, kOutOfMemory
  Matrix pack(const TensorView& weights) const {
    const auto here = scope();
    return Matrix(weights);
  }
  /// @errors kShapeMismatch, kOutOfMemory
  Vector vector(const TensorView& weights) const {
    const auto here = scope();
    return Vector(dequantized_vector(weights));
  }

  /// While it lives, memory of this thread is that of this backend.
  [[nodiscard]] cuda::Chosen<D> scope() const noexcept { return cuda::Chosen<D>(device_); }
  /// Of CacheShape: where caches of its models have to be.
  AnyRef place() const noexcept { return AnyRef(device_); }

  /// @errors kOutOfMemory; kDevice where a kernel failed: what the pass was to hand out is not there
  template <typename Body>
  void run(const PassShape& shape, Body&& body) {
    const std::lock_guard lock(mutex_);
    const auto here = scope();
    scratch_.reserve(shape);
    Worker worker(device_, scratch_);
    body(worker);
    if (worker.error()) device_.note(worker.error());
    device_.finish();
  }

 private:
  static D& stream_of(const CudaOptions& options) {
    if (options.stream < 0) {
      throw Error(ErrorCode::kInvalidOption, "stream " + std::to_string(options.stream),
                  "0 or more", "");
    }
    return D::stream(options.stream);
  }

  D& device_;
  std::mutex mutex_;
  cuda::Scratch<D> scratch_;
};

}  // namespace foredraft::inline v0
