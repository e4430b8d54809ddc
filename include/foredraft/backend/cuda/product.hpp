#pragma once

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/tile_product.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// One of the matrices that multiply the same input, with what is worked out once for all blocks.
struct ProductPart {
  Weights w = {};
  const float* bias = nullptr;  // [w.n_out] or null
  float* y = nullptr;           // written [n_rows, w.n_out]
  int n_tiles = 0;
  int split_bits = 0;

  ProductPart() = default;
  ProductPart(const Weights& of, const float* add, float* to)
      : w(of),
        bias(add),
        y(to),
        n_tiles(of.n_tiles()),
        split_bits(split_bits_of(of.n_out, of.n_in)) {}
};

inline constexpr int kMostParts = 3;  // queries, keys, values
/// y = scale * (x W^T + bias), with a soft-cap over it, or y = (y + that) * output_scale.
/// @see TileProduct for what is added up in which order
template <WeightFormat F, int kTiles, int kColumns, bool kOneRow = false>
struct Product {
  static constexpr const char* kName = "product";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kRows = kColumns * Operand::kRows;  // of a block
  static constexpr bool kLoadsAhead = true;                // weights

  struct Args {
    Operand x = {};
    ProductPart parts[kMostParts] = {};  // those behind the last have no outputs
    bool add = false;
    float scale = 1.0f;
    float softcap = 0.0f;  // 0: none
    float output_scale = 1.0f;
  };

  static int shared() noexcept {
    return shared_bytes<float>(kWarps * Tiles::kSums) +
           shared_bytes<Words>(kWarps * Tiles::kRingWords);
  }
  static Grid grid(const Args& a) noexcept {
    int blocks = 0;
    for (const ProductPart& part : a.parts) blocks += blocks_of(part);
    return {blocks, parts_of(a.x.n_rows, kRows)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const sums = t.template shared<float>(kWarps * Tiles::kSums);
    Words* const rings = t.template shared<Words>(kWarps * Tiles::kRingWords);
    int block = t.block_x();
    const ProductPart& part = a.parts[part_of(a, block)];
    const int split = 1 << part.split_bits;
    const int group = warp_of(t) >> part.split_bits;  // of warps that share tiles
    const int first_tile = (block * (kWarps >> part.split_bits) + group) * kTiles;
    const int first_row = t.block_y() * kRows;
    const auto rows = LaneRows<kColumns>::of(
        t, [&](int i) { return first_row + i < a.x.n_rows ? first_row + i : -1; });
    float* const of_group = sums + group * split * Tiles::kSums;
    float before = 0;  // of the thread's first output, where sums are added
    typename Tiles::Totals total = {};
    Tiles::add_up(t, a.x, rows, part.w, first_tile, warp_of(t) & (split - 1), part.split_bits,
                  rings + warp_of(t) * Tiles::kRingWords, total, [&] {
                    t.wait_for_kernels();
                    if (kTiles * kColumns == 1 && a.add) {  // memory answers late
                      float* const from = output_of(a, part, t.thread() & (split * kWarp - 1),
                                                    first_row, first_tile * kTileRows);
                      if (from != nullptr) before = t.load(from);
                    }
                  });

    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        t.sync();  // nobody reads what was here any more
        Tiles::store_sums(t, total[tile][column], sums + warp_of(t) * Tiles::kSums);
        t.sync();
        finish(t, a, part, of_group, split, first_row + column * Operand::kRows,
               (first_tile + tile) * kTileRows, before);
      }
    }
  }

 private:
  using Tiles = TileProduct<F, kTiles, kColumns, kOneRow>;

  FOREDRAFT_HOST_DEVICE static int blocks_of(const ProductPart& part) {
    const int tiles = (kWarps >> part.split_bits) * kTiles;  // of a block: a power of two
    return (part.n_tiles + tiles - 1) / tiles;
  }

  /// The part that a block of the launch belongs to. @param block  becomes its number among the part's
  FOREDRAFT_DEVICE static int part_of(const Args& a, int& block) {
    int i = 0;
    while (i + 1 < kMostParts && block >= blocks_of(a.parts[i])) block -= blocks_of(a.parts[i++]);
    return i;
  }

  /// Some thread of the warps that share a tile has each row and output: `i` of kSums, or none.
  FOREDRAFT_DEVICE static float* output_of(const Args& a, const ProductPart& part, int i,
                                           int first_row, int first_output) {
    const int row = first_row + i / kTileRows;
    const int output = first_output + i % kTileRows;
    const bool there = i < Tiles::kSums && row < a.x.n_rows && output < part.w.n_out;
    return there ? part.y + idx(row) * idx(part.w.n_out) + output : nullptr;
  }

  /// @param sums    of the first warp
  /// @param before  what was at the thread's first output
  template <typename T>
  FOREDRAFT_DEVICE static void finish(T& t, const Args& a, const ProductPart& part,
                                      const float* sums, int split, int first_row, int first_output,
                                      float before) {
    const int threads = split * kWarp;
    FOREDRAFT_ROLLED
    for (int i = t.thread() & (threads - 1); i < Tiles::kSums; i += threads) {
      float* const to = output_of(a, part, i, first_row, first_output);
      if (to == nullptr) continue;
      float value = Tiles::add_warps(t, sums, split, i);
      if (part.bias != nullptr) {
        value = t.add(value, t.load(part.bias + first_output + i % kTileRows));
      }
      value = capped(t, t.mul(value, a.scale), a.softcap);
      if (a.add) {
        const bool first = kTiles * kColumns == 1 && i < threads;
        value = t.mul(t.add(first ? before : t.load(to), value), a.output_scale);
      }
      t.store(to, value);
    }
  }
};

}  // namespace foredraft::inline v0::cuda
