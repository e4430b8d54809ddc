#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/gpu_check.cuh>
#include <foredraft/backend/cuda/gpu_launches.cuh>
#include <foredraft/backend/cuda/launch_graphs.hpp>
#include <foredraft/backend/cuda/launch_list.hpp>
#include <foredraft/backend/cuda/memory_pool.hpp>

namespace foredraft::inline v0::cuda {

/// A GPU and a stream of it. What is asked of it goes to that stream, so it happens in that order. Kernels
/// are written down first, and go there together, ahead of the next copy or finish(): see LaunchGraphs.
class GpuDevice {
 public:
  /// @errors kDevice where there is no GPU
  static GpuDevice& current() {
    GpuDevice* const chosen = Chosen<GpuDevice>::innermost();
    return chosen != nullptr ? *chosen : stream(0);
  }
  /// Stream n of the GPU that is current in this thread (cudaSetDevice). @errors as current()
  static GpuDevice& stream(int n) {
    static std::mutex mutex;
    // Never destroyed: memory may be given back while the program ends.
    static auto& devices = *new std::map<std::pair<int, int>, std::unique_ptr<GpuDevice>>;
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "asking for the current GPU");
    const std::lock_guard lock(mutex);
    std::unique_ptr<GpuDevice>& device = devices[{ordinal, n}];
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
    const std::lock_guard lock(mutex_);
    const Use use(ordinal_);
    start_kernels();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the GPU");
  }
  void download(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    const Use use(ordinal_);
    {
      const std::lock_guard lock(mutex_);
      start_kernels();
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
            "a copy from the GPU");
    }
    check(cudaStreamSynchronize(stream_), "a kernel, or a copy from the GPU,");
  }

  template <typename K>
  void launch(const Grid& grid, int shared, const typename K::Args& args) {
    const std::lock_guard lock(mutex_);
    const auto* const kernel = reinterpret_cast<const void*>(&run_kernel<K>);
    if (shared > kSharedUnasked && asked_for_shared_.insert(kernel).second) {
      const Use use(ordinal_);
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared),
            K::kName);
    }
    asked_.add<K>(kernel, grid, shared, args);
  }

  void finish() {
    const Use use(ordinal_);
    {
      const std::lock_guard lock(mutex_);
      start_kernels_noting();
    }
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
  /// Graphs that are kept: none where they cannot be made and kernels are started one by one.
  int graphs() {
    const std::lock_guard lock(mutex_);
    return graphs_.kept();
  }

 private:
  // Bytes of a block. More than the first has to be asked for: always the same, because all streams of a
  // GPU share what was asked for last.
  static constexpr int kSharedUnasked = 48 << 10;

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
    GpuDevice* device;

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
    void release(std::byte* place) const noexcept {
      device->start_kernels_noting();
      (void)cudaFree(place);
    }
  };

  explicit GpuDevice(int ordinal)
      : ordinal_(ordinal),
        stream_(new_stream(ordinal)),
        graphs_(GpuLaunches(stream_, kernels_wait(ordinal))) {}

  static cudaStream_t new_stream(int ordinal) {
    const Use use(ordinal);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }
  /// Whether kernels were compiled for waiting, which is not to say that they were for this GPU.
  static bool kernels_wait(int ordinal) {
    const Use use(ordinal);
    cudaFuncAttributes of_any{};
    check(cudaFuncGetAttributes(&of_any, run_kernel<detail::EmptyKernel>), "asking for a kernel");
    return of_any.ptxVersion >= 90;
  }

  void start_kernels() { graphs_.run(asked_); }
  void start_kernels_noting() noexcept {
    try {
      start_kernels();
    } catch (...) {
      if (!noted_) noted_ = std::current_exception();
    }
  }

  int ordinal_;
  cudaStream_t stream_;
  std::mutex mutex_;
  LaunchList asked_;                        // and not started
  std::set<const void*> asked_for_shared_;  // kernels
  LaunchGraphs<GpuLaunches> graphs_;
  MemoryPool<Source> pool_{Source{this}};
  std::exception_ptr noted_;
};
static_assert(Device<GpuDevice>);

}  // namespace foredraft::inline v0::cuda
