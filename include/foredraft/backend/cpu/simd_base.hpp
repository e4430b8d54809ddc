#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <foredraft/backend/cpu/isa.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

// Everything here is always inlined or a member of a template on Arch, and uses nothing of the
// standard library at run time: no function of a kernel unit may leak into units that are compiled
// for older machines.

/// A constant index, so that loops over registers and bit positions are unrolled at every
/// optimisation level. Not std::integral_constant, whose conversion is a function that an
/// unoptimised unit exports.
template <int i>
struct Index {
  static constexpr int value = i;
  [[gnu::always_inline]] constexpr operator int() const noexcept { return i; }
};

/// f(Index<0>), f(Index<1>), ... f(Index<n - 1>), in this order.
template <int n, typename F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (f(Index<i>{}), ...);
  }(std::make_integer_sequence<int, n>{});
}

/// The vector operations that kernels are written in. A specialisation has
///  - I, F: vectors of kLanes int32 or float; an I also holds 4 * kLanes bytes or 2 * kLanes int16;
///  - kLanes: 16, 8 or 4; the 16 rows of a panel are 16 / kLanes vectors;
///  - dot(acc, w, a): acc + sum of 4 products per lane; w unsigned <= 127, a signed;
///  - dot_offset128(...): the same for w up to 255, as sum of w * a or of (w - 128) * a:
///    start_offset128 knows which;
///  - four_codes<k>(p), only where it is better than a broadcast: the four activation codes at
///    p + k in a form that the dot products take; it may read the 16 codes around them;
///  - dot_pairs(acc, w, a): acc + sum of 2 products of int16 per lane;
///  - kSumsInt16: has dot_int16(w, a), sums of 2 products as int16, and add_int16. Cheaper than dot
///    where several sums fit an int16: dot_pairs then widens and scales them at once. For that, of
///    int32 that fit an int16, low_half(v) with 0 in the other half and both_halves(v) with the
///    same in it;
///  - merge_high<s, mask>: codes | (plane shifted right by s bits, left by -s) & mask, for bytes;
///    the codes have zeros under the mask.
///
/// Integer operations are exact in all of them; fma rounds once wherever the instruction set has
/// it.
template <class Arch>
struct Simd;

/// How far ahead of their use weights are fetched, in bytes: from memory into the second-level cache,
/// and from there into the first.
struct FetchDistance {
  std::size_t second_level;
  std::size_t first_level;
};

/// One row and several want different distances: on a Zen 4, one row took 5 % longer at 8 and 4 KB,
/// four rows 3 to 6 % longer at 8 and 4 KB and 10 % at 5 and 3.
inline constexpr FetchDistance kOneRowAhead{5 * 1024, 3 * 1024};
inline constexpr FetchDistance kRowsAhead{12 * 1024, 4 * 1024};

/// Keeps the compiler from turning a chain of integer additions into a tree: exact as well, but all
/// terms of a tree are alive at once, and the accumulators of a tile no longer fit the registers.
template <typename V>
[[gnu::always_inline]] inline void in_this_order([[maybe_unused]] V& v) {
#if defined(__SSE2__)
  __asm__("" : "+v"(v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(v));
#endif
}

/// Fetch what lies that far behind p. Any address is fine, mapped or not.
///
/// In two steps because a line on its way into the first level occupies one of its few buffers
/// until memory answers: on a Granite Rapids, decoding with models of 0.5 and 1.5 billion weights
/// took 12 to 15 % longer when all levels were filled at once.
[[gnu::always_inline]] inline void fetch_ahead(const std::byte* p, FetchDistance ahead) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  __builtin_prefetch(reinterpret_cast<const void*>(at + ahead.second_level), 0, 2);
  __builtin_prefetch(reinterpret_cast<const void*>(at + ahead.first_level), 0, 3);
}

/// The same for one of n_parts equal parts of a block of weights; called with every part as the work
/// on the block goes on.
///
/// So lines come in the order of their addresses and evenly over time, whatever they hold. Fetched
/// where codes and scales are used, a block's planes are several streams in turns, and Q6_K, which
/// has most of them, reads well below the memory's speed; fetched all at once, further below it.
template <std::size_t block_bytes, int n_parts>
[[gnu::always_inline]] inline void fetch_part_ahead(const std::byte* block, int part,
                                                    FetchDistance ahead) {
  static_assert(block_bytes % n_parts == 0);
  constexpr std::size_t kPart = block_bytes / n_parts;
  unroll<static_cast<int>((kPart + 63) / 64)>([&](auto line) __attribute__((always_inline)) {
    fetch_ahead(block + idx(part) * kPart + 64 * line, ahead);
  });
}

}  // namespace foredraft::inline v0::cpu
