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

/// Blocks of up to 32 positions of one head, in the form in which attention computes with them: for
/// those that it does not use as they are stored. These are blocks whose keys are rows (the last
/// positions, staged nodes) and whole ones that are worth converting once for many queries.

/// Elements of floats and halves, as float.
template <class Arch>
struct ElementLoads {
  using V = Vec16<Arch>;
  using S = Simd<Arch>;
  using F = typename S::F;
  static constexpr int kLanes = S::kLanes;

  template <typename E>
  [[gnu::always_inline]] static V load16(const E* p) {
    if constexpr (std::is_same_v<E, float>) {
      return V::load(p);
    } else {
      return V::load_half(reinterpret_cast<const std::uint16_t*>(p));
    }
  }
  template <typename E>
  [[gnu::always_inline]] static F load_part(const E* p) {
    if constexpr (std::is_same_v<E, float>) {
      return S::load_float(p);
    } else {
      return S::load_half(p);
    }
  }
  template <typename E>
  [[gnu::always_inline]] static float value_of(const E& x) {
    if constexpr (std::is_same_v<E, float>) {
      return x;
    } else {
      const std::uint16_t padded[kLanes] = {x.bits};
      return S::load_half(padded)[0];
    }
  }
};

/// Keys as floats, transposed, so that one vector holds the same dimension of 16 positions: scores
/// then need no sum across lanes, and masking is by lanes.
/// @shape to [d_head, kKeyBlock]
template <class Arch, typename T>
struct KeyBlock {
  using Loads = ElementLoads<Arch>;
  using S = typename Loads::S;
  using F = typename Loads::F;
  static constexpr int kLanes = S::kLanes;

  /// Fetch a whole block of committed positions, which is stored as it is wanted.
  /// @shape k [d_head, kKeyBlock]
  static void load_whole(const T* k, int d_head, float* to) noexcept {
    for (int i = 0; i < d_head * kKeyBlock; i += 16) Loads::load16(k + i).store(to + i);
  }

  /// Fetch the n positions stored at `rows`. Positions n and up become 0.
  /// @shape k [storage rows, d_head]
  static void load(const T* k, int d_head, const std::int32_t* rows, int n, float* to) noexcept {
    for (int p = 0; p < kKeyBlock; p += kLanes) load_positions(k, d_head, rows + p, p, n - p, to);
  }

 private:
  /// kLanes positions from `first` on, of which n are there.
  static void load_positions(const T* k, int d_head, const std::int32_t* rows, int first, int n,
                             float* to) noexcept {
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
        unroll<kLanes>(
            [&](auto p) __attribute__((always_inline)) { row[p] = Loads::load_part(from[p] + i); });
      } else {
        for (int p = 0; p < kLanes; ++p)
          row[p] = p < n ? Loads::load_part(from[p] + i) : S::zero_float();
      }
      transpose(row);
      unroll<kLanes>([&](auto p) __attribute__((always_inline)) {
        S::store(to + (i + p) * kKeyBlock + first, row[p]);
      });
    }
    for (; i < d_head; ++i) {
      for (int p = 0; p < kLanes; ++p) {
        to[i * kKeyBlock + first + p] = p < n ? Loads::value_of(from[p][i]) : 0.0f;
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

  template <int distance, bool second, int... lane>
  [[gnu::always_inline]] static F exchange(F a, F b, std::integer_sequence<int, lane...>) {
#ifdef __CUDACC__  // nvcc cannot read the other, and compiles what others run
    F exchanged;
    const auto from = [&](int i) { return i < kLanes ? a[i] : b[i - kLanes]; };
    ((exchanged[lane] = from(source<distance, second>(lane))), ...);
    return exchanged;
#else
    return __builtin_shufflevector(a, b, source<distance, second>(lane)...);
#endif
  }
  /// Where a lane comes from; those of b are numbered from kLanes on.
  template <int distance, bool second>
  static constexpr int source(int lane) {
    const bool of_a = (lane & distance) == 0;
    if (second) return of_a ? lane + distance : lane + kLanes;
    return of_a ? lane : lane - distance + kLanes;
  }
};

/// Values as floats.
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

/// Rows in q8_0 as they are stored, in another place.
template <class Arch>
struct QuantizedRows {
  /// @shape from [storage rows, row], to [n, row]
  static void copy(const q8_0* from, const std::int32_t* rows, int n, std::size_t row,
                   q8_0* to) noexcept {
    for (int p = 0; p < n; ++p) {
      __builtin_memcpy(static_cast<void*>(to + idx(p) * row), from + idx(rows[p]) * row,
                       row * sizeof(q8_0));
    }
  }
};

/// Keys in q8_0: two panels of 16 positions of a matrix in Q8_0, see key_blocks.hpp. Whole blocks
/// are used as they are stored.
template <class Arch>
struct KeyBlock<Arch, q8_0> {
  /// @shape k [storage rows, row_elements(d_head)], to [2 * kKeyBlock, row_elements(d_head)]: the
  /// block, and behind it room for its rows
  static void load(const q8_0* k, int d_head, const std::int32_t* rows, int n, q8_0* to) noexcept {
    const auto row = idx(row_elements<q8_0>(d_head));
    q8_0* const gathered = to + idx(kKeyBlock) * row;
    QuantizedRows<Arch>::copy(k, rows, n, row, gathered);
    __builtin_memset(static_cast<void*>(gathered + idx(n) * row), 0,
                     idx(kKeyBlock - n) * row * sizeof(q8_0));
    rows_to_key_block(gathered, d_head, to);
  }
};

/// Values in q8_0 stay rows.
template <class Arch>
struct ValueBlock<Arch, q8_0> {
  /// @shape v [storage rows, row_elements(d_head)], to [kKeyBlock, row_elements(d_head)]
  static void load(const q8_0* v, int d_head, const std::int32_t* rows, int n, q8_0* to) noexcept {
    QuantizedRows<Arch>::copy(v, rows, n, idx(row_elements<q8_0>(d_head)), to);
  }
};

}  // namespace foredraft::inline v0::cpu
