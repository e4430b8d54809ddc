#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/tile_product.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// One of the matrices that multiply the same input.
struct ProductPart {
  Weights w = {};
  const float* bias = nullptr;  // [w.n_out] or null
  float* y = nullptr;           // written [n_rows, w.n_out]
};

inline constexpr int kMostParts = 3;  // queries, keys, values
/// Values of a row that blocks of a product make for themselves: a longer one takes longer to make than a
/// kernel takes to start.
inline constexpr int kMostMade = 4096;

/// y = scale * (x W^T + bias), with a soft-cap over it, or y = (y + that) * output_scale.
/// With kMakesRow there is one row, and each block makes it for itself, which spares a kernel before it. The
/// bits are the same.
/// @see TileProduct for what is added up in which order
template <WeightFormat F, int kTiles, int kColumns, bool kMakesRow = false>
struct Product {
  static constexpr const char* kName = "product";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kRows = kColumns * Operand::kRows;  // of a block
  static constexpr bool kLoadsAhead = true;                // weights

  static_assert(!kMakesRow || (kColumns == 1 && kThreads == RowMaker::kThreads));

  struct Args {
    Operand x = {};                      // with kMakesRow, only its sizes
    RowSource from = {};                 // of which it is made
    ProductPart parts[kMostParts] = {};  // those behind the last have no outputs
    bool add = false;
    float scale = 1.0f;
    float softcap = 0.0f;  // 0: none
    float output_scale = 1.0f;
  };

  static int shared(const Args& a) noexcept {
    const int parts = Operand::parts_in(a.x.n_in);
    const int row = kMakesRow ? shared_bytes<float>(kWarps) + shared_bytes<Words>(parts * 4) +
                                    shared_bytes<float>(parts / 2)
                              : 0;
    return row + shared_bytes<float>(kWarps * Tiles::kSums) +
           shared_bytes<Words>(kWarps * Tiles::kRingWords);
  }
  static Grid grid(const Args& a) noexcept {
    int blocks = 0;
    for (const ProductPart& part : a.parts) blocks += blocks_of(part.w);
    return {blocks, parts_of(a.x.n_rows, kRows)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const sums = t.template shared<float>(kWarps * Tiles::kSums);
    Words* const rings = t.template shared<Words>(kWarps * Tiles::kRingWords);
    ProductPart part = {};
    const int block = find(a, t.block_x(), part);
    const int split = split_of(part.w.n_out, part.w.n_in);
    const int group = warp_of(t) / split;  // of warps that share tiles
    const int first_tile = (block * (kWarps / split) + group) * kTiles;
    const int first_row = t.block_y() * kRows;
    const auto rows = LaneRows<kColumns>::of(
        t, [&](int i) { return first_row + i < a.x.n_rows ? first_row + i : -1; });
    Operand x = a.x;
    [[maybe_unused]] RowMaker::To row = {};
    [[maybe_unused]] float* of_warps = nullptr;
    if constexpr (kMakesRow) {
      const int parts = Operand::parts_in(x.n_in);
      of_warps = t.template shared<float>(kWarps);
      row = {t.template shared<Words>(parts * Tiles::kPartWords), Tiles::kPartWords,
             t.template shared<float>(parts / 2)};
      x.parts = row.parts;
      x.sums = row.sums;
    }
    typename Tiles::Totals total = {};
    Tiles::add_up(t, x, rows, part.w, first_tile, warp_of(t) % split, split,
                  rings + warp_of(t) * Tiles::kRingWords, total, [&] {
                    if constexpr (kMakesRow) {
                      RowMaker::make(t, a.from, 0, 0, a.from.fours(), of_warps, row);
                      t.sync();
                    } else {
                      t.wait_for_kernels();
                    }
                  });

    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        t.sync();  // nobody reads what was here any more
        Tiles::store_sums(t, total[tile][column], sums + warp_of(t) * Tiles::kSums);
        t.sync();
        finish(t, a, part, sums + group * split * Tiles::kSums, split,
               first_row + column * Operand::kRows, (first_tile + tile) * kTileRows);
      }
    }
  }

 private:
  using Tiles = TileProduct<F, kTiles, kColumns, kMakesRow>;

  FOREDRAFT_HOST_DEVICE static int blocks_of(const Weights& w) {
    return w.n_out == 0 ? 0 : parts_of(w.n_tiles(), kWarps / split_of(w.n_out, w.n_in) * kTiles);
  }

  /// The part that a block of the launch belongs to, and which of its blocks it is.
  FOREDRAFT_DEVICE static int find(const Args& a, int block, ProductPart& part) {
    int found = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kMostParts; ++i) {
      const int blocks = blocks_of(a.parts[i].w);
      if (block >= 0 && block < blocks) {
        part = a.parts[i];
        found = block;
      }
      block -= blocks;
    }
    return found;
  }

  /// Some thread of the warps that share a tile for each row and output.
  /// @param sums  of the first of them
  template <typename T>
  FOREDRAFT_DEVICE static void finish(T& t, const Args& a, const ProductPart& part,
                                      const float* sums, int split, int first_row,
                                      int first_output) {
    const int threads = split * kWarp;
    for (int i = t.thread() % threads; i < Tiles::kSums; i += threads) {
      const int row = first_row + i / kTileRows;
      const int output = first_output + i % kTileRows;
      if (row >= a.x.n_rows || output >= part.w.n_out) continue;
      float value = Tiles::add_warps(t, sums, split, i);
      if (part.bias != nullptr) value = t.add(value, t.load(part.bias + output));
      value = capped(t, t.mul(value, a.scale), a.softcap);
      float* const to = part.y + idx(row) * idx(part.w.n_out) + output;
      t.store(to, a.add ? t.mul(t.add(t.load(to), value), a.output_scale) : value);
    }
  }
};

}  // namespace foredraft::inline v0::cuda
