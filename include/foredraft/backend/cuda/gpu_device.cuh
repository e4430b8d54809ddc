#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/gpu_thread.cuh>
#include <foredraft/backend/cuda/memory_pool.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0::cuda {

/// A kernel as the GPU starts it. Arguments stay where the driver puts them: a part that is chosen at
/// run time would otherwise be copied to every thread's own memory.
template <typename K>
__global__ void __launch_bounds__(K::kThreads, 1)
    run_kernel(const __grid_constant__ typename K::Args args) {
  GpuThread thread;
  K::run(thread, args);
}

/// Throws what a call of the CUDA runtime returned, with what it was for.
/// @errors kOutOfMemory, kDevice
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would report it again
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
    throw Error(ErrorCode::kDevice,
                error == cudaErrorNoDevice ? "no NVIDIA GPU" : "no NVIDIA driver, or one too old",
                "a GPU, and a driver for CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                    std::to_string(CUDART_VERSION % 1000 / 10),
                "use the backend Cpu");
  }
  throw Error(error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
              std::string(what) + " failed: " + cudaGetErrorString(error), "a call that succeeds",
              "");
}

/// A GPU. What is asked of it goes to one stream, so it happens in that order.
class GpuDevice {
 public:
  /// The GPU that is current in this thread (cudaSetDevice). @errors kDevice where there is none
  static GpuDevice& current() {
    static std::mutex mutex;
    // Never destroyed: memory may be given back while the program ends.
    static auto& devices = *new std::map<int, std::unique_ptr<GpuDevice>>;
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "asking for the current GPU");
    const std::lock_guard lock(mutex);
    std::unique_ptr<GpuDevice>& device = devices[ordinal];
    if (!device) device.reset(new GpuDevice(ordinal));
    return *device;
  }

  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const Use use(ordinal_);
    return pool_.allocate(bytes);
  }
  void release(std::byte* data, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    pool_.release(data, bytes);
  }

  /// The host's memory may be changed as soon as this returns.
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    const Use use(ordinal_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the GPU");
  }
  void download(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    const Use use(ordinal_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a copy from the GPU");
    check(cudaStreamSynchronize(stream_), "a kernel, or a copy from the GPU,");
  }

  template <typename K>
  void launch(const Grid& grid, int shared, const typename K::Args& args) {
    static_assert(std::is_trivially_copyable_v<typename K::Args> &&
                  sizeof(typename K::Args) <= 4096);
    const Use use(ordinal_);
    const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                      static_cast<unsigned>(grid.z));
    run_kernel<K><<<blocks, K::kThreads, static_cast<std::size_t>(shared), stream_>>>(args);
    check(cudaGetLastError(), K::kName);
  }

  void finish() {
    const Use use(ordinal_);
    const cudaError_t error = cudaStreamSynchronize(stream_);
    std::exception_ptr noted;
    {
      const std::lock_guard lock(mutex_);
      noted = std::exchange(noted_, nullptr);
    }
    if (noted) std::rethrow_exception(noted);
    check(error, "a kernel");
  }
  void note(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!noted_) noted_ = std::move(error);
  }

  int ordinal() const noexcept { return ordinal_; }

 private:
  /// Makes a GPU current as long as it lives. Errors show in the call that it is made for.
  class Use {
   public:
    explicit Use(int ordinal) noexcept {
      (void)cudaGetDevice(&before_);
      if (before_ != ordinal) (void)cudaSetDevice(ordinal);
    }
    ~Use() { (void)cudaSetDevice(before_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    int before_ = 0;
  };

  struct Source {
    std::byte* allocate(std::size_t bytes) const {
      void* place = nullptr;
      const cudaError_t error = cudaMalloc(&place, bytes);
      if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return nullptr;
      }
      check(error, "an allocation on the GPU");
      return static_cast<std::byte*>(place);
    }
    /// Waits for all that was asked of the GPU, so nothing uses the memory any more.
    void release(std::byte* place) const noexcept { (void)cudaFree(place); }
  };

  explicit GpuDevice(int ordinal) : ordinal_(ordinal) {
    const Use use(ordinal);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  MemoryPool<Source> pool_;
  std::exception_ptr noted_;
};
static_assert(Device<GpuDevice>);

}  // namespace foredraft::inline v0::cuda
