#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fragments.hpp>
#include <foredraft/backend/cuda/operand.hpp>

namespace foredraft::inline v0::cuda {

/// Warps that share the tiles of a matrix by its columns, by its shape alone: so a sum is divided in
/// one way, whatever the number of rows. Enough warps to keep a device loading, and no step too few
/// for one of them.
FOREDRAFT_HOST_DEVICE constexpr int split_of(int n_out, int n_in) noexcept {
  constexpr int kWarpsOfDevice = 1024;
  const int parts = parts_of(n_in, kTileColumns);
  int split = 1;
  while (split < 8 && parts_of(n_out, kTileRows) * split < kWarpsOfDevice && parts >= 8 * split) {
    split *= 2;
  }
  return split;
}

/// One of the matrices that multiply the same input.
struct ProductPart {
  Weights w = {};
  const float* bias = nullptr;  // [w.n_out] or null
  float* y = nullptr;           // written [n_rows, w.n_out]
};

inline constexpr int kMostParts = 3;  // queries, keys, values

/// y = scale * (x W^T + bias), with a soft-cap over it, or y += that. A warp computes kTiles tiles of
/// outputs for kColumns times 8 rows: it loads each weight once for all of these rows, and each row
/// once for all of these tiles.
///
/// The sum of one (row, output): each of split_of() warps adds up the steps s, s + split, ... in that
/// order, a group of columns after the other, and in a group what mma() adds; then the warps are added
/// up. Neither kTiles nor kColumns is in it.
template <WeightFormat F, int kTiles, int kColumns>
struct Product {
  static constexpr const char* kName = "product";
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kRows = kColumns * Operand::kRows;  // of a block

  struct Args {
    Operand x = {};
    ProductPart parts[kMostParts] = {};  // those behind the last have no outputs
    bool add = false;
    float scale = 1.0f;
    float softcap = 0.0f;  // 0: none
  };

  static int shared() noexcept { return shared_bytes<float>(kWarps * kSums); }
  static Grid grid(const Args& a) noexcept {
    int blocks = 0;
    for (const ProductPart& part : a.parts) blocks += blocks_of(part.w);
    return {blocks, parts_of(a.x.n_rows, kRows)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const sums = t.template shared<float>(kWarps * kSums);
    ProductPart part = {};
    const int block = find(a, t.block_x(), part);
    const int split = split_of(part.w.n_out, part.w.n_in);
    const int group = warp_of(t) / split;  // of warps that share tiles
    const int first_tile = (block * (kWarps / split) + group) * kTiles;
    float total[kTiles][kColumns][4] = {};
    add_up(t, a.x, part.w, first_tile, warp_of(t) % split, split, total);

    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        t.sync();  // nobody reads what was here any more
        store_sums(t, total[tile][column], sums + warp_of(t) * kSums);
        t.sync();
        const int first_row = t.block_y() * kRows + column * Operand::kRows;
        finish(t, a, part, sums + group * split * kSums, split, first_row,
               (first_tile + tile) * kTileRows);
      }
    }
  }

 private:
  static constexpr int kSums = kTileRows * Operand::kRows;  // of one mma()
  /// Steps that are on their way at once: 2 KB of a warp, half of that beside many sums.
  static constexpr int kAhead = (kColumns == 8 ? 2 : 4) / (kTiles * kShape<F>.loads);

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

  /// What one warp adds up: steps `slice`, `slice` + `split`, ... Several are on their way at once.
  template <typename T>
  FOREDRAFT_DEVICE static void add_up(T& t, const Operand& x, const Weights& w, int first_tile,
                                      int slice, int split, float (&total)[kTiles][kColumns][4]) {
    const int n_steps = w.n_steps();
    const int n_tiles = w.n_tiles();
    int tiles[kTiles];  // those behind the last are computed as the last, and not stored
    FOREDRAFT_UNROLL
    for (int i = 0; i < kTiles; ++i)
      tiles[i] = first_tile + i < n_tiles ? first_tile + i : n_tiles - 1;
    for (int first = slice; first < n_steps; first += split * kAhead) {
      Step<F> steps[kAhead][kTiles];
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * split >= n_steps) break;
        FOREDRAFT_UNROLL
        for (int j = 0; j < kTiles; ++j) {
          steps[i][j] =
              load_step<F>(t, w,
                           static_cast<std::size_t>(tiles[j]) * static_cast<std::size_t>(n_steps) +
                               static_cast<std::size_t>(first + i * split));
        }
      }
      FOREDRAFT_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * split >= n_steps) break;
        add_step(t, x, w, tiles, first + i * split, steps[i], total);
      }
    }
  }

  template <typename T>
  FOREDRAFT_DEVICE static void add_step(T& t, const Operand& x, const Weights& w,
                                        const int (&tiles)[kTiles], int step,
                                        const Step<F> (&steps)[kTiles],
                                        float (&total)[kTiles][kColumns][4]) {
    constexpr FormatShape kOf = kShape<F>;
    constexpr int kParts = kOf.columns / kTileColumns;
    if constexpr (kOf.group == 0) {
      FOREDRAFT_UNROLL
      for (int part = 0; part < kParts; ++part) {
        add_part(t, x, step * kParts + part, steps, part, total);
      }
    } else {
      constexpr int kPartsOfGroup = kOf.group / kTileColumns;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kParts / kPartsOfGroup; ++i) {
        // Sums of codes, then of what they stand for.
        float codes[kTiles][kColumns][4] = {};
        FOREDRAFT_UNROLL
        for (int part = 0; part < kPartsOfGroup; ++part) {
          add_part(t, x, step * kParts + i * kPartsOfGroup + part, steps, i * kPartsOfGroup + part,
                   codes);
        }
        scale_up(t, x, w, tiles, step * (kParts / kPartsOfGroup) + i, codes, total);
      }
    }
  }

  /// 16 columns: `part_of_row` of the row, `part` of the step. Small numbers first.
  template <typename T>
  FOREDRAFT_DEVICE static void add_part(T& t, const Operand& x, int part_of_row,
                                        const Step<F> (&steps)[kTiles], int part,
                                        float (&to)[kTiles][kColumns][4]) {
    Words rows[kColumns];
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      rows[column] = load_rows(t, x, t.block_y() * kColumns + column, part_of_row);
    }
    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const Planes<F> planes = planes_of<F>(t, steps[tile], part);
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        FOREDRAFT_UNROLL
        for (int plane = kShape<F>.planes - 1; plane >= 0; --plane) {
          t.mma(to[tile][column], planes.of[plane], rows[column].v[2], rows[column].v[3]);
          t.mma(to[tile][column], planes.of[plane], rows[column].v[0], rows[column].v[1]);
        }
      }
    }
  }

  /// A lane's part of eight rows. Rows behind the last one are zeros, and not stored.
  template <typename T>
  FOREDRAFT_DEVICE static Words load_rows(T& t, const Operand& x, int eight, int part) {
    if (eight * Operand::kRows + lane_of(t) / 4 >= x.n_rows) return {};
    const auto n_parts = static_cast<std::size_t>(Operand::parts_in(x.n_in));
    const std::size_t at =
        static_cast<std::size_t>(eight) * n_parts + static_cast<std::size_t>(part);
    return t.load(x.parts + at * kWarp + lane_of(t));
  }

  template <typename T>
  FOREDRAFT_DEVICE static void scale_up(T& t, const Operand& x, const Weights& w,
                                        const int (&tiles)[kTiles], int group,
                                        const float (&codes)[kTiles][kColumns][4],
                                        float (&total)[kTiles][kColumns][4]) {
    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const GroupScale of = load_scale<F>(t, w, tiles[tile], group, lane_of(t) / 4);
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        float(&to)[4] = total[tile][column];
        FOREDRAFT_UNROLL
        for (int i = 0; i < 4; ++i) to[i] = t.fma(of.scale[i / 2], codes[tile][column][i], to[i]);
        if constexpr (kShape<F>.biased) {
          const int row = (t.block_y() * kColumns + column) * Operand::kRows + lane_of(t) % 4 * 2;
          FOREDRAFT_UNROLL
          for (int i = 0; i < 4; ++i) {
            to[i] = t.fma(of.bias[i / 2], sum_of(t, x, row + i % 2, group), to[i]);
          }
        }
      }
    }
  }

  template <typename T>
  FOREDRAFT_DEVICE static float sum_of(T& t, const Operand& x, int row, int group) {
    if (row >= x.n_rows) return 0.0f;
    return t.load(x.sums +
                  static_cast<std::size_t>(row) *
                      static_cast<std::size_t>(Operand::parts_in(x.n_in) / 2) +
                  group);
  }

  /// What a lane has of an mma()'s sums, row after row of its eight.
  template <typename T>
  FOREDRAFT_DEVICE static void store_sums(T& t, const float (&sum)[4], float* to) {
    const int g = lane_of(t) / 4;
    const int row = lane_of(t) % 4 * 2;
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) t.store(to + (row + i % 2) * kTileRows + g + i / 2 * 8, sum[i]);
  }

  /// Add up the warps that share a tile; some thread of them for each row and output.
  /// @param sums  of the first of them
  template <typename T>
  FOREDRAFT_DEVICE static void finish(T& t, const Args& a, const ProductPart& part,
                                      const float* sums, int split, int first_row,
                                      int first_output) {
    const int threads = split * kWarp;
    for (int i = t.thread() % threads; i < kSums; i += threads) {
      const int row = first_row + i / kTileRows;
      const int output = first_output + i % kTileRows;
      if (row >= a.x.n_rows || output >= part.w.n_out) continue;
      float value = t.load(sums + i);
      for (int warp = 1; warp < split; ++warp)
        value = t.add(value, t.load(sums + warp * kSums + i));
      if (part.bias != nullptr) value = t.add(value, t.load(part.bias + output));
      value = capped(t, t.mul(value, a.scale), a.softcap);
      float* const to =
          part.y + static_cast<std::size_t>(row) * static_cast<std::size_t>(part.w.n_out) + output;
      t.store(to, a.add ? t.add(t.load(to), value) : value);
    }
  }
};

}  // namespace foredraft::inline v0::cuda
