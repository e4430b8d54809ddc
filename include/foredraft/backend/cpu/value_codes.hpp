#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/query_tile.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Sixteen bytes of each of four rows, side by side: a0 b0 c0 d0 a1 b1 and so on.
/// @shape to [16, 4]
[[gnu::always_inline]] inline void interleave_four(const std::int8_t* a, const std::int8_t* b,
                                                   const std::int8_t* c, const std::int8_t* d,
                                                   std::int8_t* to) {
  using Bytes [[gnu::vector_size(16)]] = std::int8_t;
  using Pairs [[gnu::vector_size(16)]] = std::int16_t;
  const auto load = [](const std::int8_t* from) __attribute__((always_inline)) {
    Bytes v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  };
  const auto low = [](Bytes x, Bytes y) __attribute__((always_inline)) {
    return reinterpret_cast<Pairs>(
        __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  };
  const auto high = [](Bytes x, Bytes y) __attribute__((always_inline)) {
    return reinterpret_cast<Pairs>(__builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                           28, 13, 29, 14, 30, 15, 31));
  };
  const auto store = [to](int i, Pairs x, Pairs y) __attribute__((always_inline)) {
    const Pairs first = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
    const Pairs second = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
    __builtin_memcpy(to + 32 * i, &first, sizeof first);
    __builtin_memcpy(to + 32 * i + 16, &second, sizeof second);
  };
  const Bytes rows[4] = {load(a), load(b), load(c), load(d)};
  store(0, low(rows[0], rows[1]), low(rows[2], rows[3]));
  store(1, high(rows[0], rows[1]), high(rows[2], rows[3]));
}

/// A whole block of 32 positions of values in q8_0, for queries that see all of it: weighted sums as
/// integer dot products along positions.
///
/// Of a query's weights in the block the greatest is taken out of the sum, and of the scales of each 32
/// dimensions. What is left of a weight times its scale is at most 1, and is rounded to 127ths, as values
/// were when they were stored. Integers are exact, so a sum is one number with every instruction set, and
/// however many queries there are. Whoever sees a part of a block cannot use this: the greatest scale
/// may be that of a row that is not there yet.
template <class Arch>
class ValueCodes {
 public:
  using V = Vec16<Arch>;
  static constexpr int kBlock = QueryTile::kPositions;
  static constexpr int kFloats = 10;  ///< of memory, for each dimension of a head

  /// @shape memory [kFloats, d_head]
  ValueCodes(int d_head, float* memory) noexcept
      : d_head_(d_head),
        scales_(memory),
        steps_(memory + d_head),
        codes_(reinterpret_cast<std::int8_t*>(memory + 2 * d_head)) {}

  /// @shape rows [kBlock, row_elements(d_head)]
  void take(const q8_0* rows) noexcept {
    const int row = d_head_ / q8_0::kValues;
    for (int e = 0; e < row; ++e) {
      std::uint16_t scales[kBlock];
      for (int p = 0; p < kBlock; ++p) scales[p] = rows[p * row + e].scale.bits;
      const V low = V::load_half(scales);
      const V high = V::load_half(scales + 16);
      // One that is NaN must not be passed over.
      const float most = max(low, high).greatest() + 0.0f * (low + high).sum();
      const V to_codes = V::broadcast(most > 0.0f ? kMost / most : 0.0f);
      (low * to_codes).store(scales_ + e * kBlock);
      (high * to_codes).store(scales_ + e * kBlock + 16);
      steps_[e] = most / kMost;
      std::int8_t* to = codes_ + e * kBlock * q8_0::kValues;
      for (int p = 0; p < kBlock; p += 4, to += 4 * q8_0::kValues) {
        const q8_0* const at = rows + p * row + e;
        for (int half = 0; half < q8_0::kValues; half += 16) {
          interleave_four(at->codes + half, at[row].codes + half, at[2 * row].codes + half,
                          at[3 * row].codes + half, to + 4 * half);
        }
      }
    }
  }

  /// sum_v += weights * values for Q queries from i on. @param next  values to be fetched meanwhile
  template <int Q>
  void add(const QueryTile& tile, int i, const q8_0* next) const noexcept {
    float weights[Q][kBlock];
    float most[Q];
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      const float* w = tile.scores + (i + q) * kBlock;
      const V low = V::load(w);
      const V high = V::load(w + 16);
      most[q] = max(low, high).greatest();
      // Weights are parts of the greatest so far: so small ones are nothing, and have no inverse.
      const V to_one = V::broadcast(most[q] > 1e-30f ? 1.0f / most[q] : 0.0f);
      (low * to_one).store(weights[q]);
      (high * to_one).store(weights[q] + 16);
    });
    for (int e = 0; e < d_head_ / q8_0::kValues; ++e)
      next = add_columns<Q>(weights, most, tile, i, e, next);
  }

 private:
  using S = Simd<Arch>;
  using I = typename S::I;
  static constexpr float kMost = 127.0f;

  /// The 32 columns of one element of each row.
  template <int Q>
  [[gnu::always_inline]] const q8_0* add_columns(const float (&weights)[Q][kBlock],
                                                 const float (&most)[Q], const QueryTile& tile,
                                                 int i, int e, const q8_0* next) const noexcept {
    constexpr int kParts = V::kParts;
    const V scale[2] = {V::load(scales_ + e * kBlock), V::load(scales_ + e * kBlock + 16)};
    std::int8_t parts[Q][kBlock];
    I sums[Q][2 * kParts];
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      (V::load(weights[q]) * scale[0]).store_bytes(parts[q]);
      (V::load(weights[q] + 16) * scale[1]).store_bytes(parts[q] + 16);
      unroll<2 * kParts>([&](auto c) __attribute__((always_inline)) { sums[q][c] = S::zero(); });
    });
    const std::int8_t* codes = codes_ + e * kBlock * q8_0::kValues;
    for (int p = 0; p < kBlock; p += 4, codes += 4 * q8_0::kValues) {
      if (next != nullptr) {
        for (int line = 0; line < 3; ++line)
          fetch_line(reinterpret_cast<const std::byte*>(next) + 64 * line);
        next += 4;  // with all elements of a row, the whole block
      }
      I column[2 * kParts];
      unroll<2 * kParts>([&](auto c) __attribute__((always_inline)) {
        column[c] = S::load(codes + c * 4 * S::kLanes);
      });
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        std::int32_t four;
        __builtin_memcpy(&four, parts[q] + p, sizeof four);
        const I of_query = S::broadcast(four);
        unroll<2 * kParts>([&](auto c) __attribute__((always_inline)) {
          sums[q][c] = S::dot(sums[q][c], of_query, column[c]);
        });
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      const V factor = V::broadcast(most[q] * steps_[e]);
      float* const sum_v = tile.sum_v + (i + q) * tile.d + e * q8_0::kValues;
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const V whole = V::of([&](int part) __attribute__((always_inline)) {
          return S::to_float(sums[q][half * kParts + part]);
        });
        fma(factor, whole, V::load(sum_v + 16 * half)).store(sum_v + 16 * half);
      });
    });
    return next;
  }

  const int d_head_;
  float* const scales_;       // [d_head / 32, kBlock], times kMost / the greatest of them
  float* const steps_;        // [d_head / 32] that greatest / kMost
  std::int8_t* const codes_;  // [d_head / 32, kBlock / 4, 32, 4]
};

}  // namespace foredraft::inline v0::cpu
