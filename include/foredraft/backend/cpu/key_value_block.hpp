#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0::cpu {

/// Keys and values of up to 32 positions of one head, converted to float once for all queries that
/// meet them. It holds the blocks that attention does not use as they are stored: those whose keys
/// are rows (the last positions, staged nodes) and, where in_place() says so, whole ones.
///
/// Keys are transposed, so that one vector holds the same dimension of 16 positions: scores then
/// need no sum across lanes, and masking is by lanes.
template <class Arch, typename T>
struct KeyValueBlock {
  using V = Vec16<Arch>;
  using S = Simd<Arch>;
  using F = typename S::F;
  static constexpr int kPositions = kKeyBlock;
  static constexpr int kLanes = S::kLanes;

  /// 16 elements, as they are stored or converted.
  template <typename E>
  [[gnu::always_inline]] static V load16(const E* p) {
    if constexpr (std::is_same_v<E, float>) {
      return V::load(p);
    } else {
      return V::load_half(reinterpret_cast<const std::uint16_t*>(p));
    }
  }

  float* keys = nullptr;    // [d_head, kPositions]
  float* values = nullptr;  // [kPositions, d], d = d_head padded to a multiple of 16

  /// Fetch a whole block of committed positions, whose keys are stored as they are wanted.
  /// @shape k [d_head, kPositions], v [kPositions, d_head]
  void load_whole(const T* k, const T* v, int d_head, int d) noexcept {
    for (int i = 0; i < d_head * kPositions; i += 16) load16(k + i).store(keys + i);
    for (int p = 0; p < kPositions; ++p) load_values(v + p * d_head, d_head, values + p * d, d);
  }

  /// Fetch the n positions stored at `rows`. Keys of positions n and up become 0.
  /// @shape k, v [storage rows, d_head]
  void load(const T* k, const T* v, int d_head, int d, const std::int32_t* rows, int n) noexcept {
    for (int p = 0; p < kPositions; p += kLanes) load_keys(k, d_head, rows + p, p, n - p);
    for (int p = 0; p < n; ++p) {
      const T* row = v + idx(rows[p]) * idx(d_head);
      load_values(row, d_head, values + p * d, d);
    }
  }

 private:
  [[gnu::always_inline]] static void load_values(const T* row, int d_head, float* to, int d) {
    int i = 0;
    for (; i + 16 <= d_head; i += 16) load16(row + i).store(to + i);
    for (; i < d; ++i) to[i] = i < d_head ? value_of(row[i]) : 0.0f;
  }

  [[gnu::always_inline]] static F load_part(const T* p) {
    if constexpr (std::is_same_v<T, float>) {
      return S::load_float(p);
    } else {
      return S::load_half(p);
    }
  }
  [[gnu::always_inline]] static float value_of(const T& x) {
    if constexpr (std::is_same_v<T, float>) {
      return x;
    } else {
      const std::uint16_t padded[kLanes] = {x.bits};
      return S::load_half(padded)[0];
    }
  }

  /// kLanes positions from `first` on, of which n are there.
  void load_keys(const T* k, int d_head, const std::int32_t* rows, int first, int n) noexcept {
    const T* from[kLanes];
    // An absent position repeats some row that may be read, and is then set to 0.
    for (int p = 0; p < kLanes; ++p) {
      from[p] = p < n ? k + idx(rows[p]) * idx(d_head) : k;
    }
    const bool whole = n >= kLanes;
    int i = 0;
    for (; i + kLanes <= d_head; i += kLanes) {
      F row[kLanes];
      if (whole) {
        unroll<kLanes>([&](auto p)
                           __attribute__((always_inline)) { row[p] = load_part(from[p] + i); });
      } else {
        for (int p = 0; p < kLanes; ++p) row[p] = p < n ? load_part(from[p] + i) : S::zero_float();
      }
      transpose(row);
      unroll<kLanes>([&](auto p) __attribute__((always_inline)) {
        S::store(keys + (i + p) * kPositions + first, row[p]);
      });
    }
    for (; i < d_head; ++i) {
      for (int p = 0; p < kLanes; ++p) {
        keys[i * kPositions + first + p] = p < n ? value_of(from[p][i]) : 0.0f;
      }
    }
  }

  /// Rows become columns: at distance 1, 2, 4, .. the off-diagonal squares of each pair of rows
  /// change places.
  [[gnu::always_inline]] static void transpose(F (&row)[kLanes]) {
    transpose_at<1>(row);
    transpose_at<2>(row);
    if constexpr (kLanes >= 8) transpose_at<4>(row);
    if constexpr (kLanes >= 16) transpose_at<8>(row);
  }

  template <int distance>
  [[gnu::always_inline]] static void transpose_at(F (&row)[kLanes]) {
    unroll<kLanes>([&](auto p) __attribute__((always_inline)) {
      constexpr int kRow = decltype(p)::value;
      if constexpr ((kRow & distance) == 0) {
        const F a = row[kRow];
        const F b = row[kRow + distance];
        row[kRow] = exchange<distance, false>(a, b, std::make_integer_sequence<int, kLanes>{});
        row[kRow + distance] =
            exchange<distance, true>(a, b, std::make_integer_sequence<int, kLanes>{});
      }
    });
  }

  /// Lanes of b are numbered from kLanes on.
  template <int distance, bool second, int... lane>
  [[gnu::always_inline]] static F exchange(F a, F b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(
        a, b,
        (second ? ((lane & distance) == 0 ? lane + distance : lane + kLanes)
                : ((lane & distance) == 0 ? lane : lane - distance + kLanes))...);
  }
};

/// The same for a quantized cache: keys as two panels of 16 positions of a matrix in Q8_0, values
/// as rows. Whole blocks are used as they are stored.
template <class Arch>
struct KeyValueBlock<Arch, q8_0> {
  static constexpr int kPositions = kKeyBlock;

  q8_0* keys = nullptr;    // a whole block, see key_blocks.hpp
  q8_0* values = nullptr;  // [kPositions, row_elements(d_head)]

  /// Fetch the n positions stored at `rows`. Keys of positions n and up become 0.
  /// @shape k, v [storage rows, row_elements(d_head)]
  void load(const q8_0* k, const q8_0* v, int d_head, int, const std::int32_t* rows,
            int n) noexcept {
    const auto row = idx(row_elements<q8_0>(d_head));
    q8_0* const gathered = values;  // keys, until they are in order
    copy_rows(k, rows, n, row, gathered);
    __builtin_memset(static_cast<void*>(gathered + idx(n) * row), 0,
                     idx(kPositions - n) * row * sizeof(q8_0));
    rows_to_key_block(gathered, d_head, keys);
    copy_rows(v, rows, n, row, values);
  }

 private:
  static void copy_rows(const q8_0* from, const std::int32_t* rows, int n, std::size_t row,
                        q8_0* to) noexcept {
    for (int p = 0; p < n; ++p) {
      __builtin_memcpy(static_cast<void*>(to + idx(p) * row), from + idx(rows[p]) * row,
                       row * sizeof(q8_0));
    }
  }
};

}  // namespace foredraft::inline v0::cpu
