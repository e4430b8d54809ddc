#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

#include <foredraft/core/index.hpp>

/// Code of kernels. A compiler that knows no GPU reads it like other functions.
#ifdef __CUDACC__
#define FOREDRAFT_DEVICE __device__
#define FOREDRAFT_UNROLL _Pragma("unroll")
#define FOREDRAFT_ROLLED _Pragma("unroll 1")
#else
#define FOREDRAFT_DEVICE
#define FOREDRAFT_UNROLL
#define FOREDRAFT_ROLLED
#endif

namespace foredraft::inline v0::cuda {

/// 16 bytes, loaded at once.
struct alignas(16) Words {
  std::uint32_t v[4];
};

/// The vocabulary in which kernels are written. A kernel is a struct
///
///     struct Kernel {
///       static constexpr const char* kName = "...";   // for reports
///       static constexpr int kThreads = 128;          // of a block, whole warps
///       struct Args { ... };                          // plain data, at most 4 KB
///       template <typename T> FOREDRAFT_DEVICE static void run(T& t, const Args& a);
///     };
///
/// and `t` is the thread that runs it. There are two kinds of threads: GpuThread (gpu_device.cuh) is a
/// thread of a GPU, each operation one instruction or a few; HostThread (host_grid.hpp) is one of a
/// grid that the host executes, and checks what it does. So a kernel is tested on a machine without
/// a GPU, line by line the same source.
///
/// Rules for kernels, which HostThread holds them to:
///  1. memory is read and written by load() and store() alone;
///  2. every thread of a block reaches the same barriers, and every thread of a warp the same
///     shuffles: nobody has left before;
///  3. what one thread writes another one reads behind a barrier only, or in a later kernel.
///
/// A kernel may begin while those before it still run. It has waited for them (wait_for_kernels) when
/// run() is entered, unless it says
///
///       static constexpr bool kLoadsAhead = true;
///
/// and then every thread waits itself, whatever else it does: a kernel waits for the one before it
/// alone, so only its end says that all before have ended. Until it has waited it may read what no
/// kernel writes, such as weights, and write nothing but shared memory.
///
/// copy_async() copies 4, 8 or 16 bytes into shared memory, and the thread goes on meanwhile;
/// copy_async_once() 16 bytes that no other warp will want. commit_copies() makes those that came since
/// the last one a group; wait_copies(n) waits until at most n groups are on their way. The thread itself
/// may read them then, others behind a barrier.
///
/// Sums that decide bits are written with fma(), mul() and add(), which round where they stand: a
/// compiler may otherwise fuse in one kernel what it keeps apart in another, and the result of a row
/// would depend on how many rows its kernel was made for. A sum over a warp has one order as well:
/// the upper half of the lanes is added to the lower half, and so on until one is left.
///
/// mma() is a tensor core's product for a warp: D += A B, with A [16, 16] and B [16, 8] in bf16 and D
/// [16, 8] in float. Of these, lane l = 4 g + t has
///
///     a.v[0]: A[g][2t, 2t+1]          b0: B[2t, 2t+1][g]      d[0], d[1]: D[g][2t, 2t+1]
///     a.v[1]: A[g+8][2t, 2t+1]        b1: B[2t+8, 2t+9][g]    d[2], d[3]: D[g+8][2t, 2t+1]
///     a.v[2]: A[g][2t+8, 2t+9]
///     a.v[3]: A[g+8][2t+8, 2t+9]      of two in a word, the first is its low half
///
/// Products are exact. Their sum is the hardware's own, and the same for all of D: a Hopper cuts terms off 25
/// binary places behind the first digit of the greatest one, and so does the host.
/// mma_half() is the same with A and B in f16.
/// @source mma.m16n8k16 of the PTX ISA
template <typename T>
concept KernelThread =
    requires(T& t, const float* from, float* to, float (&four)[4], const Words& words,
             Words* words_to, float x, double d, std::uint16_t half, std::uint32_t bits, int n) {
      { t.thread() } -> std::same_as<int>;   // in its block
      { t.block_x() } -> std::same_as<int>;  // of the grid
      { t.block_y() } -> std::same_as<int>;  //
      { t.block_z() } -> std::same_as<int>;  //
      {
        t.template shared<float>(n)
      } -> std::same_as<float*>;                       // next n elements of the block's own
      { t.load(from) } -> std::same_as<float>;         // any plain type, where it is aligned
      t.store(to, x);                                  //
      t.copy_async(to, from);                          // see above
      t.copy_async_once(words_to, &words);             //
      t.commit_copies();                               //
      t.template wait_copies<1>();                     //
      t.wait_for_kernels();                            //
      t.sync();                                        // all threads of the block
      { t.shuffle_xor(x, n) } -> std::same_as<float>;  // of lane ^ n, in all lanes of a warp
      { t.shuffle(x, n) } -> std::same_as<float>;      // of lane n
      { t.warp_sum(x) } -> std::same_as<float>;   // of all lanes, in each of them; halves folded
      { t.warp_sum(d) } -> std::same_as<double>;  //
      { t.warp_max(x) } -> std::same_as<float>;   // likewise
      { t.and_or(bits, bits, bits) } -> std::same_as<std::uint32_t>;  // (x & y) | z
      { t.halves(bits, bits, n) } -> std::same_as<std::uint32_t>;     // lower (n = 0) or upper ones
      { t.ballot(true) } -> std::same_as<std::uint32_t>;              // bit i: what lane i said
      { t.atomic_add(&n, n) } -> std::same_as<int>;                   // returns what was there
      { t.fma(x, x, x) } -> std::same_as<float>;                      // x * y + z, rounded once
      { t.mul(x, x) } -> std::same_as<float>;                         // rounded, and never fused
      { t.add(x, x) } -> std::same_as<float>;                         // likewise
      { t.max(x, x) } -> std::same_as<float>;                 // the number where the other is NaN
      { t.sqrt(x) } -> std::same_as<float>;                   // correctly rounded
      { t.divide(x, x) } -> std::same_as<float>;              // correctly rounded
      { t.exp(x) } -> std::same_as<float>;                    // each side's own
      { t.exp(d) } -> std::same_as<double>;                   //
      { t.tanh(x) } -> std::same_as<float>;                   //
      { t.log1p(x) } -> std::same_as<float>;                  // log(1 + x)
      { t.half_to_float(half) } -> std::same_as<float>;       // binary16, exact
      { t.float_to_half(x) } -> std::same_as<std::uint16_t>;  // to nearest even
      t.mma(four, words, bits, bits);                         // see above
      t.mma_half(four, words, bits, bits);                    //
      { t.bf16_pair(x, x) } -> std::same_as<std::uint32_t>;   // to nearest even; the first one low
      { t.half_pair(x, x) } -> std::same_as<std::uint32_t>;   // likewise
      { t.add_bf16(bits, bits) } -> std::same_as<std::uint32_t>;  // of pairs, likewise
    };

/// A kernel that waits for the kernels before it by itself.
template <typename K>
concept LoadsAhead = requires { requires K::kLoadsAhead; };

inline constexpr int kWarp = 32;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Shared memory that a block of any GPU can have, if it is asked for: that of compute 8.6. @units bytes
inline constexpr int kMostShared = 99 << 10;

/// Blocks of a grid.
struct Grid {
  int x = 1;
  int y = 1;  // at most 65535
  int z = 1;  // likewise

  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Shared memory that a kernel takes by shared<T>(n), each piece in whole units of 16 bytes.
template <typename T>
FOREDRAFT_HOST_DEVICE constexpr int shared_bytes(int n) {
  return (n * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
}

/// The least number of parts of `size` that hold n.
FOREDRAFT_HOST_DEVICE constexpr int parts_of(int n, int size) { return (n + size - 1) / size; }

/// Four floats that are loaded at once; 16-byte aligned.
struct alignas(16) Four {
  float v[4];
};

FOREDRAFT_HOST_DEVICE inline float float_of_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
/// The two of a pair of bf16.
FOREDRAFT_HOST_DEVICE inline float low_of(std::uint32_t pair) { return float_of_bits(pair << 16); }
FOREDRAFT_HOST_DEVICE inline float high_of(std::uint32_t pair) {
  return float_of_bits(pair & 0xffff0000u);
}

struct alignas(8) Two {
  float v[2];
};

template <typename T>
FOREDRAFT_DEVICE int lane_of(T& t) {
  return t.thread() % kWarp;
}
template <typename T>
FOREDRAFT_DEVICE int warp_of(T& t) {
  return t.thread() / kWarp;
}

/// Elements d .. d + 3 of a row of n, zeros behind its end. At once where rows are whole fours.
template <typename T>
FOREDRAFT_DEVICE Four load_elements(T& t, const float* row, int d, int n) {
  if (n % 4 == 0 && d < n) return t.load(reinterpret_cast<const Four*>(row + d));
  Four four = {};
  FOREDRAFT_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (d + i < n) four.v[i] = t.load(row + d + i);
  }
  return four;
}
/// A score or logit whose magnitude stays below `cap`; 0: as it is.
template <typename T>
FOREDRAFT_DEVICE float capped(T& t, float value, float cap) {
  return cap == 0.0f ? value : t.mul(cap, t.tanh(t.divide(value, cap)));
}

}  // namespace foredraft::inline v0::cuda
