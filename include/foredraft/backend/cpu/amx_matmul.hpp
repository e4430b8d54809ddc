#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/amx_unit.hpp>
#include <foredraft/backend/cpu/matmul.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/backend/cpu/simd.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// From this many rows on, tile products replace the vectors' dot products: where they were quicker
/// on a Granite Rapids, with weights in the second-level cache. Unpacking to memory, which vectors
/// do without, is the price that few rows do not pay back; formats with a scale for each 32 k also
/// end tile products there.
constexpr int least_amx_rows(TensorType type) noexcept {
  if (scaled_per_32(type)) return 9;
  return type == TensorType::kQ6_K ? 8 : 6;
}

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)

/// The matrix product by int8 tiles, for the formats with int8 activations.
///
/// A row gets the bits that Tile<Arch, type, M> gives it. Integers are exact whatever sums them,
/// and floats are added in the same order by the same operations:
///  - formats with one d for each 32 k: a tile product for 32 k, scaled and added as there;
///  - K-quants: their scale is an integer, so it is multiplied into the codes before, and tile
///    products run through all 256 k. A scaled code takes more than 8 bits. There are two planes of
///    bytes, each with a sum of its own: total = sum[0] + 2^kPlaneShift * sum[1]. For Q4_K and Q5_K
///    they are the code times either 3-bit digit of the scale, for Q6_K the bytes of the product.
///
/// `Tiles` is AmxTiles or what the tests put in its place.
template <class Arch, TensorType type, class Tiles>
struct AmxMatmul {
  using S = Simd<Arch>;
  using I = typename S::I;
  using F = typename S::F;
  static_assert(S::kLanes == kPanelRows);

  static constexpr PanelLayout kLayout = panel_layout(type);
  static constexpr std::size_t kRowStride = activation_code_bytes(activation_format(type));
  static constexpr int kGroupRows = Activations::kGroupRows;  // of a tile register, too
  static constexpr bool kFolded = scaled_per_256(type);
  static constexpr int kStepK = 64;                    // unpacked at a time
  static constexpr int kProductK = kFolded ? 64 : 32;  // of one tile product
  static constexpr int kSteps = kLayout.block_k / kStepK;
  static constexpr int kSubBlocks = kStepK / kLayout.sub_k;  // of a step
  // Bytes of a tile of codes, [k / 4][16 outputs][4]; a step has two: of its planes, or of its two
  // sub-blocks.
  static constexpr int kTileBytes = kProductK / 4 * kUnitBytes;
  static constexpr int kStepBytes = 2 * kTileBytes;
  static constexpr int kPlaneShift = type == TensorType::kQ6_K ? 8 : 3;

  /// Activations of 64 rows, their products and the unpacked codes fit the first-level cache (48 KB
  /// where there is AMX).
  static constexpr int kMaxRows = 64;
  /// Two groups of rows share a load of the codes, with two sums each: 4 tiles of sums, 2 of
  /// activations, 2 of codes.
  static constexpr int kPairRows = 2 * kGroupRows;

  using Products = std::int32_t[2][2][kGroupRows][kPanelRows];  // [group][sum][row][output]

  struct Workspace {
    alignas(64) std::byte codes[kSteps * kStepBytes];
    alignas(64) Products products[2];
    alignas(64) float sums[kMaxRows][kPanelRows];
  };

  [[gnu::always_inline]] static void store(std::byte* to, I v) { _mm512_store_si512(to, v); }

  /// What a K-quant's codes of one sub-block are multiplied with, as int16 pairs for each output.
  struct Multipliers {
    I first, second, offset;
  };

  [[gnu::always_inline]] static Multipliers multipliers(const std::byte* scales) {
    if constexpr (type == TensorType::kQ6_K) {
      const I scale = _mm512_and_si512(S::widen_s8(scales), _mm512_set1_epi32(0xff));
      const I even = _mm512_or_si512(scale, _mm512_slli_epi32(scale, 16));
      const I words = _mm512_srai_epi16(_mm512_slli_epi16(even, 8), 8);
      // Bytes s 0 s 0 and 0 s 0 s: vpmaddubsw then multiplies every other code alone.
      return {even, _mm512_slli_epi16(even, 8), _mm512_slli_epi16(words, 5)};
    } else {
      const I scale = S::widen_u8(scales);
      const I words = _mm512_or_si512(scale, _mm512_slli_epi32(scale, 16));
      const I seven = _mm512_set1_epi16(7);
      return {_mm512_and_si512(words, seven),
              _mm512_and_si512(_mm512_srli_epi16(words, kPlaneShift), seven), S::zero()};
    }
  }

  /// Store one unit of codes, as the tile products want them.
  [[gnu::always_inline]] static void store_unit([[maybe_unused]] const Multipliers& by, I codes,
                                                std::byte* to) {
    if constexpr (!kFolded) {
      // Signed values: 0 .. 31 stay what they are.
      if constexpr (kLayout.offset == 128) {
        codes = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
      } else if constexpr (kLayout.offset != 0) {
        codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(kLayout.offset));
      }
      store(to, codes);
    } else if constexpr (type == TensorType::kQ6_K) {
      // scale * (code - 32) needs 14 bits: a low byte without sign and a high byte with it. 0xea:
      // (first & second) | third.
      const I even = _mm512_sub_epi16(_mm512_maddubs_epi16(codes, by.first), by.offset);
      const I odd = _mm512_sub_epi16(_mm512_maddubs_epi16(codes, by.second), by.offset);
      store(to, _mm512_ternarylogic_epi32(even, _mm512_set1_epi16(0x00ff),
                                          _mm512_slli_epi16(odd, 8), 0xea));
      store(to + kTileBytes, _mm512_ternarylogic_epi32(odd, _mm512_set1_epi16(-0x0100),
                                                       _mm512_srli_epi16(even, 8), 0xea));
    } else {
      // A scale of 6 bits is two digits of 3 bits, and 31 * 7 fits a byte: two codes at a time are
      // multiplied as one int16, without a carry between them.
      store(to, _mm512_mullo_epi16(codes, by.first));
      store(to + kTileBytes, _mm512_mullo_epi16(codes, by.second));
    }
  }

  /// 64 k of a block.
  /// @param codes  [2][kTileBytes]
  [[gnu::noinline]] static void unpack(const std::byte* w, int step, std::byte* codes) noexcept {
    fetch_part_ahead<kLayout.bytes, kSteps>(w, step, kRowsAhead);
    constexpr int kLowBytes = kLayout.sub_k * kPanelRows * kLayout.low_bits / 8;
    const int first = step * kSubBlocks;
    const std::byte* low = w + kLayout.low + first * kLowBytes;
    const std::byte* high = w + kLayout.high + first * kUnitBytes;
    const std::byte* scales = w + kLayout.scales + first * kPanelRows;
    for (int s = 0; s < kSubBlocks; ++s) {
      Multipliers by{};
      if constexpr (kFolded) by = multipliers(scales);
      I plane{};
      if constexpr (kLayout.high_bits != 0) plane = S::load(high);
      constexpr int kUnitsPerVector = 8 / kLayout.low_bits;
      unroll<kLayout.sub_k / 4 / kUnitsPerVector>([&](auto v) __attribute__((always_inline)) {
        constexpr int kV = decltype(v)::value;
        const I both = S::load(low + kV * kUnitBytes);
        std::byte* unit = codes + kV * kUnitsPerVector * kUnitBytes;
        if constexpr (kLayout.low_bits == 8) {
          store_unit(by, both, unit);
        } else {
          I even = S::low_nibbles(both);
          I odd = S::high_nibbles(both);
          if constexpr (kLayout.high_bits != 0) {
            constexpr int kMask = ((1 << kLayout.high_bits) - 1) << 4;
            even = S::template merge_high<2 * kV * kLayout.high_bits - 4, kMask>(even, plane);
            odd = S::template merge_high<(2 * kV + 1) * kLayout.high_bits - 4, kMask>(odd, plane);
          }
          store_unit(by, even, unit);
          store_unit(by, odd, unit + kUnitBytes);
        }
      });
      low += kLowBytes;
      high += kUnitBytes;
      scales += kPanelRows;
      codes += kLayout.sub_k / 4 * kUnitBytes;
    }
  }

  // Tiles 0 .. 3 are sums, [group][sum]; 4 and 5 activations of a group, 6 and 7 codes.

  [[gnu::always_inline]] static void configure(Tiles& tiles, int rows) {
    AmxConfig config;
    for (int group = 0; group < 2; ++group) {
      const int rest = rows - group * kGroupRows;
      const int group_rows = rest < 0 ? 0 : rest < kGroupRows ? rest : kGroupRows;
      config.set(2 * group, group_rows, 4 * kPanelRows);
      config.set(2 * group + 1, group_rows, 4 * kPanelRows);
      config.set(4 + group, group_rows, kProductK);
      config.set(6 + group, kProductK / 4, kUnitBytes);
    }
    tiles.configure(config);
  }

  /// The integer sums of one block, for one or two groups of rows.
  /// @param codes  the block, unpacked
  /// @param next  the block that takes its place there step by step, or null. So nothing is
  ///              unpacked just before its use: a tile that is loaded from fresh stores waits
  template <int groups>
  static void multiply(Tiles& tiles, std::byte* codes, const std::byte* next,
                       const Activations::Block (&a)[2], Products& products) noexcept {
    unroll<2 * groups>(
        [&](auto i) __attribute__((always_inline)) { tiles.template zero<decltype(i)::value>(); });
    for (int step = 0; step < kSteps; ++step, codes += kStepBytes) {
      // A tile of codes serves all groups before the next: to change it takes the multiplier as
      // long as a product of 16 rows.
      unroll<2>([&](auto plane) __attribute__((always_inline)) {
        constexpr int kB = 6 + plane;
        constexpr int kOffset = kFolded ? 0 : plane * kProductK;
        tiles.template load<kB>(codes + plane * kTileBytes, kUnitBytes);
        unroll<groups>([&](auto group) __attribute__((always_inline)) {
          constexpr int kA = 4 + group, kSum = 2 * group + plane;
          if constexpr (plane == 0 || kOffset != 0) {
            tiles.template load<kA>(a[group].codes + step * kStepK + kOffset, kRowStride);
          }
          if constexpr (kFolded && !(type == TensorType::kQ6_K && plane == 1)) {
            tiles.template dot_unsigned<kSum, kA, kB>();
          } else {
            tiles.template dot_signed<kSum, kA, kB>();
          }
        });
      });
      if (next != nullptr) unpack(next, step, codes);
    }
    unroll<2 * groups>([&](auto i) __attribute__((always_inline)) {
      constexpr int kI = decltype(i)::value;
      tiles.template store<kI>(products[kI / 2][kI % 2], 4 * kPanelRows);
    });
  }

  /// What Tile::add_block_per_32 does after its dot products.
  [[gnu::always_inline]] static void combine_per_32(
      const std::byte* w, const Activations::Block& a, int rows,
      const std::int32_t (&products)[2][kGroupRows][kPanelRows], float (*sums)[kPanelRows]) {
    F scale[2], min[2];
    unroll<2>([&](auto s) __attribute__((always_inline)) {
      scale[s] = S::load_half(w + kLayout.d + 2 * s * kPanelRows);
      if constexpr (has_min(type)) min[s] = S::load_half(w + kLayout.m + 2 * s * kPanelRows);
    });
    for (int m = 0; m < rows; ++m) {
      const ScalesPer32& row = a.per_32(m);
      F sum = S::load_float(sums[m]);
      unroll<2>([&](auto s) __attribute__((always_inline)) {
        const F both = S::multiply(scale[s], S::broadcast(row.scales[s]));
        sum = S::fma(S::to_float(S::load(products[s][m])), both, sum);
        if constexpr (has_min(type)) sum = S::fma(min[s], S::broadcast(row.scaled_sums[s]), sum);
      });
      S::store(sums[m], sum);
    }
  }

  /// What Tile::add_block_per_256 does after its sub-blocks.
  [[gnu::always_inline]] static void combine_per_256(
      const std::byte* w, const Activations::Block& a, int rows,
      const std::int32_t (&products)[2][kGroupRows][kPanelRows], float (*sums)[kPanelRows]) {
    F d, min;
    I mins[4];
    if constexpr (has_min(type)) {
      d = S::load_half(w + kLayout.d);
      min = S::load_half(w + kLayout.m);
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        mins[j] = S::widen_u8_pairs(w + kLayout.mins + 2 * j * kPanelRows);
      });
    } else {
      d = S::load_float(reinterpret_cast<const float*>(w + kLayout.d));
    }
    for (int m = 0; m < rows; ++m) {
      const ScalesPer256& row = a.per_256(m);
      const I total = S::add(S::load(products[0][m]),
                             S::template shift_left<kPlaneShift>(S::load(products[1][m])));
      F y = S::multiply(d, S::to_float(total));
      if constexpr (has_min(type)) {
        I total_min = S::zero();
        unroll<4>([&](auto j) __attribute__((always_inline)) {
          std::int32_t two_sums;
          __builtin_memcpy(&two_sums, row.sums + 2 * j, sizeof two_sums);
          total_min = S::dot_pairs(total_min, mins[j], S::broadcast(two_sums));
        });
        y = S::fnma(min, S::to_float(total_min), y);
      }
      S::store(sums[m], S::fma(y, S::broadcast(row.scale), S::load_float(sums[m])));
    }
  }

  /// Add a block's products to the sums of one group of rows.
  /// @param w  the block of the panel
  /// @param a  that of the group
  [[gnu::noinline]] static void combine(const std::byte* w, const Activations::Block& a, int rows,
                                        const std::int32_t (&products)[2][kGroupRows][kPanelRows],
                                        float (*sums)[kPanelRows]) noexcept {
    if constexpr (kFolded) {
      combine_per_256(w, a, rows, products, sums);
    } else {
      combine_per_32(w, a, rows, products, sums);
    }
  }

  /// The rows first .. first + n_rows - 1 by some panels: whole pairs of groups, or one that is not
  /// whole.
  template <int groups>
  static void run_rows(Tiles& tiles, Workspace& workspace, const PackedPanels& w,
                       const Activations& a, int first, int n_rows, int panel_begin, int panel_end,
                       float* out, std::size_t ld_out, const Epilogue& epilogue) noexcept {
    struct Unit {
      const std::byte* block;
      Activations::Block a[2];
      int row;  // from `first`
    };
    configure(tiles, n_rows);
    const std::byte* block = w.data + idx(panel_begin) * w.panel_bytes;
    const std::byte* const end = w.data + idx(panel_end) * w.panel_bytes;
    for (int step = 0; step < kSteps; ++step) {
      unpack(block, step, workspace.codes + step * kStepBytes);
    }
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      __builtin_memset(workspace.sums, 0, idx(n_rows) * sizeof *workspace.sums);
      const auto add = [&](const Unit& unit, const Products& products) {
        unroll<groups>([&](auto group) __attribute__((always_inline)) {
          const int row = unit.row + group * kGroupRows;
          combine(unit.block, unit.a[group], a.group_rows(first + row), products[group],
                  workspace.sums + row);
        });
      };
      // Vectors take up the sums of a unit after the tile products of the next have been issued: to
      // compute and to store them takes its time.
      Unit last{};
      int parity = 0;
      Activations::Block rows[kMaxRows / kGroupRows];  // by group
      for (int row = 0; row < n_rows; row += kGroupRows) {
        rows[row / kGroupRows] = a.block(first + row, 0);
      }
      for (int b = 0; b < w.n_blocks; ++b, block += kLayout.bytes) {
        const std::byte* next = block + kLayout.bytes == end ? nullptr : block + kLayout.bytes;
        for (int row = 0; row < n_rows; row += kPairRows) {
          Unit unit{block, {}, row};
          unroll<groups>([&](auto group) __attribute__((always_inline)) {
            Activations::Block& of_group = rows[row / kGroupRows + group];
            unit.a[group] = of_group;
            of_group.advance();
          });
          multiply<groups>(tiles, workspace.codes, row + kPairRows < n_rows ? nullptr : next,
                           unit.a, workspace.products[parity]);
          parity ^= 1;
          if (last.block != nullptr) add(last, workspace.products[parity]);
          last = unit;
        }
      }
      if (last.block != nullptr) add(last, workspace.products[parity ^ 1]);
      finish_panel<Arch>(workspace.sums, n_rows, panel, w.n_out, out + idx(first) * ld_out, ld_out,
                         epilogue);
    }
  }

  template <typename Few>
  [[gnu::noinline]] static void run(Few few, const PackedPanels& w, const Activations& a,
                                    int panel_begin, int panel_end, float* out, std::size_t ld_out,
                                    const Epilogue& epilogue) noexcept {
    Tiles tiles;
    Workspace workspace;
    const int run_length = a.n_rows > kPairRows ? panels_in_cache(w, panel_end - panel_begin)
                                                : panel_end - panel_begin;
    for (int begin = panel_begin; begin < panel_end; begin += run_length) {
      const int end = panel_end - begin < run_length ? panel_end : begin + run_length;
      for (int first = 0, n_rows = 0; first < a.n_rows; first += n_rows) {
        const int rest = a.n_rows - first;
        n_rows = rest < kPairRows  ? rest
                 : rest < kMaxRows ? rest / kPairRows * kPairRows
                                   : kMaxRows;
        if (n_rows < least_amx_rows(type)) {
          // The last groups of a view are a view too.
          const Activations tail{a.format, n_rows, a.n_in, a.codes(first, 0)};
          few(w, tail, begin, end, out + idx(first) * ld_out, ld_out, epilogue);
        } else if (n_rows <= kGroupRows) {
          run_rows<1>(tiles, workspace, w, a, first, n_rows, begin, end, out, ld_out, epilogue);
        } else {
          run_rows<2>(tiles, workspace, w, a, first, n_rows, begin, end, out, ld_out, epilogue);
        }
      }
    }
    tiles.release();
  }
};

/// matmul<Arch> with tile products where they apply, to the same bits.
/// @param few  matmul<Arch>, which gets the rest: few rows, and float weights
/// @cost of the tile registers' state: it is set up and released within each call
template <class Arch, class Tiles, typename Few>
[[gnu::always_inline]] inline void amx_matmul(Few few, const PackedPanels& w, const Activations& a,
                                              int panel_begin, int panel_end, float* out,
                                              std::size_t ld_out,
                                              const Epilogue& epilogue) noexcept {
  with_type(w.type, [&]<TensorType type>() __attribute__((always_inline)) {
    if constexpr (activation_format(type) != ActivationFormat::kF32) {
      if (a.n_rows >= least_amx_rows(type) && panel_begin < panel_end) {
        AmxMatmul<Arch, type, Tiles>::run(few, w, a, panel_begin, panel_end, out, ld_out, epilogue);
        return;
      }
    }
    few(w, a, panel_begin, panel_end, out, ld_out, epilogue);
  });
}

#endif

}  // namespace foredraft::inline v0::cpu
