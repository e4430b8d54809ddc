#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cpu/element_loads.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/query_tile.hpp>
#include <foredraft/backend/cpu/value_codes.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Values of a block of 32 positions as floats, where they are not used as they are stored: blocks that
/// are worth converting once for many queries, and those of a tree's nodes.
/// @shape to [kKeyBlock, d], d = d_head padded to a multiple of 16
template <class Arch, typename T>
struct ValueBlock {
  using Loads = ElementLoads<Arch>;

  /// @shape v [kKeyBlock, d_head]
  static void load_whole(const T* v, int d_head, int d, float* to) noexcept {
    for (int p = 0; p < kKeyBlock; ++p) load_row(v + p * d_head, d_head, d, to + p * d);
  }

  /// Fetch the n positions stored at `rows`; the others stay.
  /// @shape v [storage rows, d_head]
  static void load(const T* v, int d_head, int d, const std::int32_t* rows, int n,
                   float* to) noexcept {
    for (int p = 0; p < n; ++p) load_row(v + idx(rows[p]) * idx(d_head), d_head, d, to + p * d);
  }

 private:
  [[gnu::always_inline]] static void load_row(const T* row, int d_head, int d, float* to) {
    int i = 0;
    for (; i + 16 <= d_head; i += 16) Loads::load16(row + i).store(to + i);
    for (; i < d; ++i) to[i] = i < d_head ? Loads::value_of(row[i]) : 0.0f;
  }
};

/// Values in q8_0 stay rows.
template <class Arch>
struct ValueBlock<Arch, q8_0> {
  /// @shape v [storage rows, row_elements(d_head)], to [kKeyBlock, row_elements(d_head)]
  static void load(const q8_0* v, int d_head, const std::int32_t* rows, int n, q8_0* to) noexcept {
    const auto row = idx(row_elements<q8_0>(d_head));
    for (int p = 0; p < n; ++p) {
      __builtin_memcpy(static_cast<void*>(to + idx(p) * row), v + idx(rows[p]) * row,
                       row * sizeof(q8_0));
    }
  }
};

/// The part of attention that knows how values are stored: it takes up a block of 32 positions, and
/// then adds weighted values to the sums of any queries, a chain of fma in the order of positions.
/// Of values in q8_0, weights are multiplied with the scales, and then with the codes; where a query
/// sees a whole block, as integers.
template <class Arch>
class AttentionValues {
 public:
  using V = Vec16<Arch>;
  static constexpr int kBlock = QueryTile::kPositions;
  static constexpr int kFloats = kBlock;  ///< of workspace, for each dimension of a head
  static constexpr int kRowFloats = 16;   ///< of these, those of a block's rows in q8_0
  static_assert(kBlock * sizeof(q8_0) <= kRowFloats * sizeof(float) * q8_0::kValues);
  static_assert(kRowFloats + ValueCodes<Arch>::kFloats <= kFloats);

  /// @param v  of the head, [storage rows, d_head]
  /// @shape workspace [kFloats, d]
  AttentionValues(RowFormat format, const std::byte* v, int d_head, int d,
                  float* workspace) noexcept
      : format_(format),
        d_head_(d_head),
        d_(d),
        row_bytes_(row_bytes(format, d_head)),
        v_(v),
        workspace_(workspace),
        codes_(d_head, workspace + kRowFloats * d_head) {}

  /// Take up a block as it is stored.
  /// @param place  of its first row
  void take(std::int32_t place, int n_queries) noexcept {
    at_hand_ = v_ + idx(place) * row_bytes_;
    codes_at_hand_ = false;
    if (used_as_stored<Arch>(format_, d_ != d_head_, n_queries)) return;
    with_element(format_, [&]<typename T>(Element<T>) {
      if constexpr (!std::is_same_v<T, q8_0>) {
        ValueBlock<Arch, T>::load_whole(reinterpret_cast<const T*>(at_hand_), d_head_, d_,
                                        workspace_);
      }
    });
    at_hand_ = nullptr;
  }

  /// Take up the n positions that lie in `rows`.
  /// @shape rows [n]
  void gather(const std::int32_t* rows, int n) noexcept {
    codes_at_hand_ = false;
    with_element(format_, [&]<typename T>(Element<T>) {
      const T* const v = reinterpret_cast<const T*>(v_);
      if constexpr (std::is_same_v<T, q8_0>) {
        ValueBlock<Arch, T>::load(v, d_head_, rows, n, reinterpret_cast<q8_0*>(workspace_));
      } else {
        ValueBlock<Arch, T>::load(v, d_head_, d_, rows, n, workspace_);
      }
    });
    at_hand_ = nullptr;
  }

  /// sum_v += weights * values for the `count` queries from i on, at most kQueriesAtOnce, of positions
  /// from .. n - 1.
  /// @param next  place of the block to be fetched meanwhile; -1: none
  void add(const QueryTile& tile, int i, int count, int from, int n, std::int32_t next) noexcept {
    with_element(format_, [&]<typename T>(Element<T>) {
      const auto* const ahead =
          next < 0 ? nullptr : reinterpret_cast<const T*>(v_ + idx(next) * row_bytes_);
      with_query_count<Arch>(count, [&](auto q) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<T, q8_0>) {
          const auto* const at = reinterpret_cast<const q8_0*>(
              at_hand_ != nullptr ? at_hand_ : reinterpret_cast<const std::byte*>(workspace_));
          if (from > 0 || n < kBlock) return add_codes<q>(at, tile, i, from, n, ahead);
          if (!codes_at_hand_) codes_.take(at);
          codes_at_hand_ = true;
          codes_.template add<q>(tile, i, ahead);
        } else if (at_hand_ != nullptr) {
          add_floats<q>(reinterpret_cast<const T*>(at_hand_), tile, i, from, n, ahead);
        } else {
          add_floats<q, float>(workspace_, tile, i, from, n, ahead);
        }
      });
    });
  }

 private:
  /// @shape values [kBlock, d]
  template <int Q, typename E, typename T>
  static void add_floats(const E* values, const QueryTile& tile, int i, int from, int n,
                         const T* next) noexcept {
    int d = 0;
    values += from * tile.d;
    for (; d + 32 <= tile.d; d += 32)
      next = add_columns<Q, 2>(values + d, tile, i, from, n, d, next);
    if (d < tile.d) add_columns<Q, 1>(values + d, tile, i, from, n, d, next);
  }

  /// @param values  of position `from`
  /// @return what of the next block is to be fetched then: lines follow each other as they lie
  template <int Q, int C, typename E, typename T>
  [[gnu::always_inline]] static const T* add_columns(const E* values, const QueryTile& tile, int i,
                                                     int from, int n, int d,
                                                     const T* next) noexcept {
    V sums[Q][C];
    float* sum_v = tile.sum_v + i * tile.d + d;
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<C>([&](auto c) __attribute__((always_inline)) {
        sums[q][c] = V::load(sum_v + q * tile.d + c * 16);
      });
    });
    const float* weights = tile.scores + i * kBlock;
    for (int p = from; p < n; ++p, values += tile.d) {
      if (next != nullptr) {
        fetch_line(next);
        if constexpr (sizeof(T) == 4) fetch_line(next + 16);
        next += 32;
      }
      V column[C];
      unroll<C>([&](auto c) __attribute__((always_inline)) {
        column[c] = ElementLoads<Arch>::load16(values + c * 16);
      });
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V weight = V::broadcast(weights[q * kBlock + p]);
        unroll<C>([&](auto c) __attribute__((always_inline)) {
          sums[q][c] = fma(weight, column[c], sums[q][c]);
        });
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<C>([&](auto c) __attribute__((always_inline)) {
        sums[q][c].store(sum_v + q * tile.d + c * 16);
      });
    });
    return next;
  }

  /// @shape values [kBlock, row_elements(d_head)]
  template <int Q>
  static void add_codes(const q8_0* values, const QueryTile& tile, int i, int from, int n,
                        const q8_0* next) noexcept {
    values += from * row_elements<q8_0>(tile.d_head);
    for (int d = 0; d < tile.d; d += q8_0::kValues, ++values)
      next = add_code_columns<Q>(values, tile, i, from, n, d, next);
  }

  /// The 32 columns of one element of each row. Weights take the scale, so that codes need none.
  /// @param values  of position `from`
  template <int Q>
  [[gnu::always_inline]] static const q8_0* add_code_columns(const q8_0* values,
                                                             const QueryTile& tile, int i, int from,
                                                             int n, int d,
                                                             const q8_0* next) noexcept {
    const int row = row_elements<q8_0>(tile.d_head);
    std::uint16_t scales[kBlock] = {};
    for (int p = from; p < n; ++p) scales[p] = values[(p - from) * row].scale.bits;
    const V scale[2] = {V::load_half(scales), V::load_half(scales + 16)};
    V sums[Q][2];
    float weights[Q][kBlock];
    float* sum_v = tile.sum_v + i * tile.d + d;
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const float* unscaled = tile.scores + (i + q) * kBlock + 16 * half;
        (V::load(unscaled) * scale[half]).store(weights[q] + 16 * half);
        sums[q][half] = V::load(sum_v + q * tile.d + 16 * half);
      });
    });
    for (int p = from; p < n; ++p, values += row) {
      if (next != nullptr) {
        fetch_line(next);
        ++next;  // with all elements of a row, the whole block
      }
      const V low = V::load_bytes(values->codes);
      const V high = V::load_bytes(values->codes + 16);
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V weight = V::broadcast(weights[q][p]);
        sums[q][0] = fma(weight, low, sums[q][0]);
        sums[q][1] = fma(weight, high, sums[q][1]);
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      sums[q][0].store(sum_v + q * tile.d);
      sums[q][1].store(sum_v + q * tile.d + 16);
    });
    return next;
  }

  const RowFormat format_;
  const int d_head_;
  const int d_;
  const std::size_t row_bytes_;
  const std::byte* const v_;
  float* const workspace_;
  const std::byte* at_hand_ = nullptr;  // the block as it is stored; null: it is in workspace_
  ValueCodes<Arch> codes_;              // of values in q8_0, behind their rows
  bool codes_at_hand_ = false;          // those of the block at hand
};

}  // namespace foredraft::inline v0::cpu
