#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/backend/cpu/quantize_row.hpp>
#include <foredraft/backend/cpu/simd.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// What happens to the products y[m][n].
struct Epilogue {
  enum class Kind : std::uint8_t {
    kStore,       ///< out = y
    kAddBias,     ///< out = y + bias[n]
    kAccumulate,  ///< out = out + y
  };
  Kind kind = Kind::kStore;
  const float* bias = nullptr;  // [n_out], kAddBias only
};

/// Hand over the products of one panel; the last one may be partly padding. One function for all
/// tiles: it costs next to nothing beside a panel, and compiling it into each would cost much.
template <class Arch>
[[gnu::noinline]] void finish_panel(const float (*y)[kPanelRows], int n_rows, int panel, int n_out,
                                    float* out, std::size_t ld_out,
                                    const Epilogue& epilogue) noexcept {
  using S = Simd<Arch>;
  const int first = panel * kPanelRows;
  const int n_valid = n_out - first < kPanelRows ? n_out - first : kPanelRows;
  for (int m = 0; m < n_rows; ++m) {
    float* row = out + idx(m) * ld_out + first;
    // Added in both branches alike: one float addition.
    const float* addend = nullptr;
    if (epilogue.kind == Epilogue::Kind::kAddBias) addend = epilogue.bias + first;
    if (epilogue.kind == Epilogue::Kind::kAccumulate) addend = row;
    if (n_valid < kPanelRows) {
      for (int n = 0; n < n_valid; ++n) row[n] = addend == nullptr ? y[m][n] : y[m][n] + addend[n];
      continue;
    }
    for (int n = 0; n < kPanelRows; n += S::kLanes) {
      auto sum = S::load_float(y[m] + n);
      if (addend != nullptr) sum = S::add(sum, S::load_float(addend + n));
      S::store(row + n, sum);
    }
  }
}

/// The tiles of the matrix product, M rows by one panel.
///
/// One arithmetic for every M: a row's products are summed as integers within a sub-block (exact,
/// so in any order) and as floats block after block in the order of k, each (row, output) in an
/// accumulator of its own. So a row's result does not depend on the rows beside it, on the tile it
/// falls into or on how panels are divided among threads.
template <class Arch, TensorType type, int M>
struct Tile {
  using S = Simd<Arch>;
  using I = typename S::I;
  using F = typename S::F;

  static constexpr PanelLayout kLayout = panel_layout(type);
  static constexpr ActivationFormat kFormat = activation_format(type);
  static constexpr std::size_t kRowStride = activation_code_bytes(kFormat);
  static constexpr int kParts =
      kPanelRows / S::kLanes;  // vectors that make up the 16 rows of a panel
  static constexpr int kVectorBytes = 4 * S::kLanes;
  static constexpr int kSubBlocks = kLayout.block_k / kLayout.sub_k;
  static constexpr int kFloatSums = activation_format(type) == ActivationFormat::kF32 ? 2 : 1;
  static constexpr FetchDistance kAhead = M == 1 ? kOneRowAhead : kRowsAhead;

  /// Sums of two products, code * activation with |activation| <= 127, that fit an int16.
  static constexpr int kDotsInInt16 =
      32767 / (2 * 127 * ((1 << (4 + kLayout.high_bits)) - 1));  // 8, 4, 2 for 4, 5, 6 bits

  /// Accumulators: [part][row][one of kFloatSums]
  using Sums = F[kParts][M][kFloatSums];

  /// Codes times codes over one sub-block: acc[m] += w[16 rows, sub_k] * a[m, sub_k].
  /// @param low, high  the sub-block's planes, at this part's rows
  /// @param a  codes of row 0 at the sub-block's first k
  /// @param factor  kSumsInt16 only: what products are multiplied with, in both halves of each lane
  [[gnu::always_inline]] static void dot_codes(
      I (&acc)[M], const std::byte* low, const std::byte* high, const std::byte* a,
      [[maybe_unused]] I factor = S::broadcast(std::int32_t{0x00010001})) {
    const auto codes_at = [a](int m, auto k) __attribute__((always_inline)) {
      const std::byte* row = a + idx(m) * kRowStride;
      if constexpr (requires { S::template four_codes<k.value>(row); }) {
        return S::template four_codes<k.value>(row);
      } else {
        std::int32_t four;
        __builtin_memcpy(&four, row + k, sizeof four);
        return S::broadcast(four);
      }
    };
    I plane{};
    if constexpr (kLayout.high_bits != 0) plane = S::load(high);
    constexpr int kUnitsPerVector = 8 / kLayout.low_bits;
    constexpr int kVectors = kLayout.sub_k / 4 / kUnitsPerVector;
    [[maybe_unused]] I sums[M];  // of int16, until they are full
    unroll<kVectors>([&](auto v) __attribute__((always_inline)) {
      constexpr int kV = decltype(v)::value;
      const I codes = S::load(low + kV * kUnitBytes);
      if constexpr (kLayout.low_bits == 8) {
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          acc[m] = S::dot_offset128(acc[m], codes, codes_at(m, Index<4 * kV>{}));
        });
      } else {
        I even = S::low_nibbles(codes);
        I odd = S::high_nibbles(codes);
        if constexpr (kLayout.high_bits != 0) {
          constexpr int kMask = ((1 << kLayout.high_bits) - 1) << 4;
          even = S::template merge_high<2 * kV * kLayout.high_bits - 4, kMask>(even, plane);
          odd = S::template merge_high<(2 * kV + 1) * kLayout.high_bits - 4, kMask>(odd, plane);
        }
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          const auto even_a = codes_at(m, Index<8 * kV>{});
          const auto odd_a = codes_at(m, Index<8 * kV + 4>{});
          if constexpr (S::kSumsInt16) {
            constexpr int kFull = kDotsInInt16 / 2;  // vectors of two dots
            const I even_sums = S::dot_int16(even, even_a);
            sums[m] = kV % kFull == 0 ? even_sums : S::add_int16(sums[m], even_sums);
            sums[m] = S::add_int16(sums[m], S::dot_int16(odd, odd_a));
            if (kV % kFull == kFull - 1 || kV == kVectors - 1)
              acc[m] = S::dot_pairs(acc[m], sums[m], factor);
          } else {
            acc[m] = S::dot(S::dot(acc[m], even, even_a), odd, odd_a);
          }
        });
      }
    });
  }

  /// v times the offset that codes have, a power of two.
  [[gnu::always_inline]] static I times_offset(I v) {
    return S::template shift_left<__builtin_ctz(kLayout.offset)>(v);
  }

  /// -offset * sum of the activations' codes, which makes codes times codes a product of values.
  [[gnu::always_inline]] static I start(std::int32_t negated_sum) {
    if constexpr (kLayout.offset == 0) {
      return S::zero();
    } else if constexpr (kLayout.offset == 128) {
      return S::start_offset128(negated_sum);
    } else {
      return times_offset(S::broadcast(negated_sum));
    }
  }

  using Block = Activations::Block;  // from row 0 of the tile on

  /// 64 k of the formats with one d (and m) for each 32.
  [[gnu::always_inline]] static void add_block_per_32(const std::byte* w, const Block& a, int part,
                                                      F (&sums)[M][kFloatSums]) {
    const std::byte* low = w + kLayout.low + part * kVectorBytes;
    const std::byte* high = w + kLayout.high + part * kVectorBytes;
    const std::byte* d = w + kLayout.d + 2 * part * S::kLanes;
    for (int s = 0; s < kSubBlocks; ++s) {
      fetch_part_ahead<kLayout.bytes, kParts * kSubBlocks>(w, part * kSubBlocks + s, kAhead);
      I acc[M];
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        acc[m] = start(a.per_32(m).negated_sums[s]);
      });
      dot_codes(acc, low, high, a.codes + s * kLayout.sub_k);
      const F scale = S::load_half(d);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        const F both = S::multiply(scale, S::broadcast(a.per_32(m).scales[s]));
        sums[m][0] = S::fma(S::to_float(acc[m]), both, sums[m][0]);
      });
      if constexpr (has_min(type)) {
        const F min = S::load_half(d + (kLayout.m - kLayout.d));
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          sums[m][0] = S::fma(min, S::broadcast(a.per_32(m).scaled_sums[s]), sums[m][0]);
        });
      }
      low += kLayout.sub_k * kPanelRows * kLayout.low_bits / 8;
      high += kUnitBytes;
      d += 2 * kPanelRows;
    }
  }

  [[gnu::always_inline]] static I sub_block_scale(const std::byte* scales) {
    if constexpr (type == TensorType::kQ6_K) return S::widen_s8(scales);
    return S::widen_u8(scales);
  }

  /// The scales of a K-quant's block, and its minima.
  [[gnu::always_inline]] static void add_scaled(const std::byte* w, const Block& a, int part,
                                                const I (&total)[M], F (&sums)[M][kFloatSums]) {
    if constexpr (!has_min(type)) {
      const F d = S::load_float(reinterpret_cast<const float*>(w + kLayout.d) + part * S::kLanes);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        const F y = S::multiply(d, S::to_float(total[m]));
        sums[m][0] = S::fma(y, S::broadcast(a.per_256(m).scale), sums[m][0]);
      });
    } else {
      const F d = S::load_half(w + kLayout.d + 2 * part * S::kLanes);
      const F min = S::load_half(w + kLayout.m + 2 * part * S::kLanes);
      I mins[4];
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        mins[j] = S::widen_u8_pairs(w + kLayout.mins + 2 * (j * kPanelRows + part * S::kLanes));
      });
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        const ScalesPer256& row = a.per_256(m);
        I total_min = S::zero();
        unroll<4>([&](auto j) __attribute__((always_inline)) {
          std::int32_t two_sums;
          __builtin_memcpy(&two_sums, row.sums + 2 * j, sizeof two_sums);
          total_min = S::dot_pairs(total_min, mins[j], S::broadcast(two_sums));
        });
        F y = S::multiply(d, S::to_float(total[m]));
        y = S::fnma(min, S::to_float(total_min), y);
        sums[m][0] = S::fma(y, S::broadcast(row.scale), sums[m][0]);
      });
    }
  }

  /// 256 k of the K-quants: sub-blocks are scaled and summed as integers (at most 2^28), then once
  /// as floats.
  [[gnu::always_inline]] static void add_block_per_256(const std::byte* w, const Block& a, int part,
                                                       F (&sums)[M][kFloatSums]) {
    I total[M];
    unroll<M>([&](auto m) __attribute__((always_inline)) { total[m] = S::zero(); });
    const std::byte* low = w + kLayout.low + part * kVectorBytes;
    const std::byte* high = w + kLayout.high + part * kVectorBytes;
    const std::byte* scales = w + kLayout.scales + part * S::kLanes;
    for (int s = 0; s < kSubBlocks; ++s) {
      fetch_part_ahead<kLayout.bytes, kParts * kSubBlocks>(w, part * kSubBlocks + s, kAhead);
      const std::byte* codes = a.codes + s * kLayout.sub_k;
      if constexpr (S::kSumsInt16) {
        const I scale = sub_block_scale(scales);
        if constexpr (kLayout.offset != 0) {
          // A sum of codes fits the lower half of its int32, and so does a scale times the offset.
          const I offset_scale = S::low_half(times_offset(scale));
          unroll<M>([&](auto m) __attribute__((always_inline)) {
            const I negated_sum = S::broadcast(a.per_256(m).negated_sums[s]);
            total[m] = S::dot_pairs(total[m], negated_sum, offset_scale);
          });
        }
        dot_codes(total, low, high, codes, S::both_halves(scale));
      } else {
        I acc[M];
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          acc[m] = start(kLayout.offset == 0 ? 0 : a.per_256(m).negated_sums[s]);
        });
        dot_codes(acc, low, high, codes);
        const I scale = sub_block_scale(scales);
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          total[m] = S::add(total[m], S::multiply(acc[m], scale));
        });
      }
      low += kLayout.sub_k * kPanelRows * kLayout.low_bits / 8;
      high += kUnitBytes;
      scales += kPanelRows;
    }
    add_scaled(w, a, part, total, sums);
  }

  /// 16 k of the float formats. Even and odd k have sums of their own, which halves the chain of
  /// dependent additions.
  [[gnu::always_inline]] static void add_block_float(const std::byte* w, const Block& a, int part,
                                                     F (&sums)[M][kFloatSums]) {
    constexpr int kValueBytes = kLayout.low_bits / 8;
    const std::byte* values = w + part * S::kLanes * kValueBytes;
    const std::byte* row = a.codes;
    for (int k = 0; k < kLayout.block_k; k += 2) {
      unroll<2>([&](auto odd) __attribute__((always_inline)) {
        // Two k are one or two lines.
        if (part == 0 && (odd == 0 || kValueBytes == 4)) fetch_ahead(values, kAhead);
        F weights;
        if constexpr (type == TensorType::kF32)
          weights = S::load_float(reinterpret_cast<const float*>(values));
        if constexpr (type == TensorType::kF16) weights = S::load_half(values);
        if constexpr (type == TensorType::kBF16) weights = S::load_bfloat16(values);
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          float x;
          __builtin_memcpy(&x, row + idx(m) * kRowStride, sizeof x);
          sums[m][odd] = S::fma(weights, S::broadcast(x), sums[m][odd]);
        });
        values += kPanelRows * kValueBytes;
        row += sizeof(float);
      });
    }
  }

  [[gnu::always_inline]] static void add_block(const std::byte* w, const Block& a, Sums& sums) {
    const auto add = [&](int part) __attribute__((always_inline)) {
      if constexpr (scaled_per_32(type)) add_block_per_32(w, a, part, sums[part]);
      if constexpr (scaled_per_256(type)) add_block_per_256(w, a, part, sums[part]);
      if constexpr (kFormat == ActivationFormat::kF32) add_block_float(w, a, part, sums[part]);
    };
    // One vector: a constant index, so that the sums stay in registers. Several would not fit there
    // anyway.
    if constexpr (kParts == 1) {
      add(0);
    } else {
      for (int part = 0; part < kParts; ++part) add(part);
    }
  }

  /// The rows first .. first + M - 1, all of one group, by the panels panel_begin .. panel_end - 1.
  [[gnu::noinline]] static void run(const PackedPanels& w, const Activations& a, int first,
                                    int panel_begin, int panel_end, float* out, std::size_t ld_out,
                                    const Epilogue& epilogue) noexcept {
    const Block begin = a.block(first, 0);
    out += idx(first) * ld_out;
    const std::byte* block = w.data + idx(panel_begin) * w.panel_bytes;
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      Sums sums;
      unroll<kParts>([&](auto part) __attribute__((always_inline)) {
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          unroll<kFloatSums>(
              [&](auto i) __attribute__((always_inline)) { sums[part][m][i] = S::zero_float(); });
        });
      });
      Block rows = begin;
      for (int b = 0; b < w.n_blocks; ++b) {
        add_block(block, rows, sums);
        block += kLayout.bytes;
        rows.advance();
      }
      alignas(64) float y[M][kPanelRows];
      unroll<kParts>([&](auto part) __attribute__((always_inline)) {
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          F sum = sums[part][m][0];
          if constexpr (kFloatSums == 2) sum = S::add(sum, sums[part][m][1]);
          S::store(y[m] + part * S::kLanes, sum);
        });
      });
      finish_panel<Arch>(y, M, panel, w.n_out, out, ld_out, epilogue);
    }
  }
};

/// Panels that several tiles walk over one after another: a run that stays in the second-level cache
/// (at least 256 KB on machines of the last ten years), each tile with its activations in the first.
/// @return at least 1, at most n_panels (which is not 0)
[[gnu::always_inline]] inline int panels_in_cache(const PackedPanels& w, int n_panels) noexcept {
  constexpr std::size_t kCachedBytes = 128 * 1024;
  const std::size_t fitting = kCachedBytes / (w.panel_bytes == 0 ? 1 : w.panel_bytes);
  if (fitting < 1) return 1;
  return fitting < idx(n_panels) ? static_cast<int>(fitting) : n_panels;
}

/// All tiles of one format.
template <class Arch, TensorType type>
struct Matmul {
  static void run(const PackedPanels& w, const Activations& a, int panel_begin, int panel_end,
                  float* out, std::size_t ld_out, const Epilogue& epilogue) noexcept {
    int run_length = panel_end - panel_begin;
    if (a.n_rows > kTileRows) run_length = panels_in_cache(w, run_length);
    for (int begin = panel_begin; begin < panel_end; begin += run_length) {
      const int end = panel_end - begin < run_length ? panel_end : begin + run_length;
      for (int first = 0; first < a.n_rows; first += kTileRows) {
        const int rows = a.n_rows - first < kTileRows ? a.n_rows - first : kTileRows;
        unroll<kTileRows>([&](auto i) __attribute__((always_inline)) {
          if (rows != i + 1) return;
          Tile<Arch, type, i + 1>::run(w, a, first, begin, end, out, ld_out, epilogue);
        });
      }
    }
  }
};

/// y[m][n] = sum over k of w[n][k] * a[m][k], for all rows m and the outputs of the given panels.
///
/// A row's bits depend on that row alone: not on n_rows, not on how panels are divided.
/// @shape out [a.n_rows, ld_out], written at 16 * panel_begin <= n < min(16 * panel_end, w.n_out)
/// @cost a.n_rows * n_in * 16 a panel; the panels are read from memory once; no allocation
template <class Arch>
void matmul(const PackedPanels& w, const Activations& a, int panel_begin, int panel_end, float* out,
            std::size_t ld_out, Epilogue epilogue = {}) noexcept {
  with_type(w.type, [&]<TensorType type>() __attribute__((always_inline)) {
    Matmul<Arch, type>::run(w, a, panel_begin, panel_end, out, ld_out, epilogue);
  });
}

}  // namespace foredraft::inline v0::cpu
