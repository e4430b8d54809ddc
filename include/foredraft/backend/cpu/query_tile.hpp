#pragma once

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Queries that pass over the keys and values of a head together, few enough for the second level
/// cache, and what attention keeps of each of them: where its parts meet.
struct QueryTile {
  static constexpr int kQueries = 32;
  static constexpr int kPositions = kKeyBlock;  // of a block

  int d_head = 0;
  int d = 0;                  // d_head, padded to whole vectors
  float* q = nullptr;         // [kQueries, d], times scale
  Activations codes{};        // [kQueries, d_head], where keys are quantized
  float* scores = nullptr;    // [kQueries, kPositions] of the block at hand; later its weights
  float* greatest = nullptr;  // [kQueries] greatest score so far
  float* lanes = nullptr;     // [kQueries, 16] sums of weights
  float* sum_v = nullptr;     // [kQueries, d] sums of weights times values

  [[gnu::always_inline]] static constexpr int padded(int d_head) noexcept {
    return (d_head + 15) / 16 * 16;
  }
};

/// Queries that share registers, with two accumulators of 16 lanes each: half the 32 registers of
/// AVX-512, or of the 16 of others. Enough of them hide the latency of an fma.
template <class Arch>
inline constexpr int kQueriesAtOnce = Simd<Arch>::kLanes == 16  ? 8
                                      : Simd<Arch>::kLanes == 8 ? 2
                                                                : 1;

/// f(Index<n>) for n in 1 .. kQueriesAtOnce
template <class Arch, typename F>
[[gnu::always_inline]] inline void with_query_count(int n, F&& f) {
  unroll<kQueriesAtOnce<Arch>>([&](auto i) __attribute__((always_inline)) {
    if (n == i + 1) f(Index<i + 1>{});
  });
}

/// Whether a whole block is used as it is stored. Where queries share registers, converting elements
/// as they are loaded costs less than a copy that all groups of queries read.
/// @param padded  a head ends within a vector
template <class Arch>
[[gnu::always_inline]] inline bool used_as_stored(RowFormat format, bool padded, int n_queries) {
  if (format == RowFormat::kQ8_0) return true;
  return !padded && (format == RowFormat::kF32 || kQueriesAtOnce<Arch> > 1 || n_queries == 1);
}

/// 64 bytes into the second-level cache: two blocks of halves with heads of 128 fill 32 KB, and what
/// is fetched would drive out of the first level what is in use.
[[gnu::always_inline]] inline void fetch_line(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace foredraft::inline v0::cpu
