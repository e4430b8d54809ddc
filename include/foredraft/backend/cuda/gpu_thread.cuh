#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include <foredraft/backend/cuda/device_ops.hpp>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "kernels need tensor cores that multiply bf16: compile for compute capability 8.0 or later"
#endif

namespace foredraft::inline v0::cuda {

/// A thread of a GPU: see KernelThread. Each operation is one instruction or a few, and nothing is
/// checked here: HostThread runs the same kernels for that.
class GpuThread {
 public:
  __device__ int thread() const { return counted(threadIdx.x); }
  __device__ int block_x() const { return counted(blockIdx.x); }
  __device__ int block_y() const { return counted(blockIdx.y); }
  __device__ int block_z() const { return counted(blockIdx.z); }

  template <typename T>
  __device__ T* shared(int n) {
    extern __shared__ __align__(16) unsigned char foredraft_shared[];
    T* const piece = reinterpret_cast<T*>(foredraft_shared + taken_);
    taken_ += shared_bytes<T>(n);
    return piece;
  }

  template <typename T>
  __device__ T load(const T* from) const {
    return *from;
  }
  template <typename T>
  __device__ void store(T* to, const T& value) const {
    *to = value;
  }

  template <typename T>
  __device__ void copy_async(T* to, const T* from) const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from)), "n"(sizeof(T))
                 : "memory");
  }
  /// Past the multiprocessor's own cache.
  __device__ void copy_async_once(Words* to, const Words* from) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
  }
  __device__ void commit_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kPending>
  __device__ void wait_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  }
  /// Nothing for a kernel that begins behind the end of the one before it, as all do before compute 9.0.
  __device__ void wait_for_kernels() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  /// The next kernel may begin, as soon as all blocks of this one have.
  __device__ void let_next_begin() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  }

  __device__ int atomic_add(int* to, int value) const { return atomicAdd(to, value); }

  __device__ void sync() const { __syncthreads(); }
  template <typename V>
  __device__ V shuffle_xor(V value, int mask) const {
    return __shfl_xor_sync(kAll, value, mask);
  }
  template <typename V>
  __device__ V shuffle(V value, int lane) const {
    return __shfl_sync(kAll, value, lane);
  }
  template <typename V>
  __device__ V warp_sum(V value) const {
    for (int mask = kWarp / 2; mask > 0; mask /= 2) value = add(value, shuffle_xor(value, mask));
    return value;
  }
  __device__ float warp_max(float value) const {
    for (int mask = kWarp / 2; mask > 0; mask /= 2) value = max(value, shuffle_xor(value, mask));
    return value;
  }
  __device__ std::uint32_t ballot(bool vote) const { return __ballot_sync(kAll, vote); }

  // Rounded where they stand: the compiler never fuses these.
  __device__ float fma(float a, float b, float c) const { return __fmaf_rn(a, b, c); }
  __device__ float mul(float a, float b) const { return __fmul_rn(a, b); }
  __device__ float add(float a, float b) const { return __fadd_rn(a, b); }
  __device__ double add(double a, double b) const { return __dadd_rn(a, b); }
  __device__ float max(float a, float b) const { return fmaxf(a, b); }
  __device__ float sqrt(float a) const { return __fsqrt_rn(a); }
  __device__ float divide(float a, float b) const { return __fdiv_rn(a, b); }
  __device__ float exp(float a) const { return expf(a); }
  __device__ double exp(double a) const { return ::exp(a); }
  __device__ float tanh(float a) const { return tanhf(a); }
  __device__ float log1p(float a) const { return log1pf(a); }
  __device__ float half_to_float(std::uint16_t bits) const {
    return __half2float(__ushort_as_half(bits));
  }
  __device__ std::uint16_t float_to_half(float value) const {
    return __half_as_ushort(__float2half_rn(value));
  }

  __device__ void mma(float (&d)[4], const Words& a, std::uint32_t b0, std::uint32_t b1) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1));
  }
  __device__ void mma_half(float (&d)[4], const Words& a, std::uint32_t b0,
                           std::uint32_t b1) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1));
  }
  __device__ std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    std::uint32_t result;  // the compiler makes two instructions of two constants
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
  }
  __device__ std::uint32_t halves(std::uint32_t low, std::uint32_t high, int upper) const {
    return __byte_perm(low, high, upper == 0 ? 0x5410 : 0x7632);
  }
  __device__ std::uint32_t bf16_pair(float low, float high) const {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  __device__ std::uint32_t half_pair(float low, float high) const {
    std::uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  __device__ std::uint32_t add_bf16(std::uint32_t a, std::uint32_t b) const {
    constexpr std::uint32_t kOnes = 0x3f803f80u;  // there is no addition before compute 9.0
    std::uint32_t sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(kOnes), "r"(b));
    return sum;
  }

 private:
  /// As an int of which the compiler knows that it is not negative: parts of it are shifts then.
  __device__ static int counted(unsigned n) {
    const auto count = static_cast<int>(n);
    __builtin_assume(count >= 0);
    return count;
  }

  static constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp
  int taken_ = 0;                                // bytes of shared memory
};

}  // namespace foredraft::inline v0::cuda
