#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fragments.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/core/index.hpp>

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

/// Rows of an Operand that a lane works for: eight of a column together, -1 where there is none.
template <int kColumns>
struct LaneRows {
  int factor[kColumns];   // whose factors it loads: row lane / 4
  int sums[kColumns][2];  // whose sums it has: rows 2 (lane % 4) and the next

  /// @param row_of  row_of(i) of rows 0 .. 8 kColumns - 1
  template <typename T, typename F>
  FOREDRAFT_DEVICE static LaneRows of(T& t, F&& row_of) {
    LaneRows rows;
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      const int first = column * Operand::kRows;
      rows.factor[column] = row_of(first + lane_of(t) / 4);
      FOREDRAFT_UNROLL
      for (int i = 0; i < 2; ++i) rows.sums[column][i] = row_of(first + lane_of(t) % 4 * 2 + i);
    }
    return rows;
  }
};

/// What a warp adds up of x W^T: kTiles tiles of 16 outputs for kColumns times 8 rows. It loads each
/// weight once for all of these rows, and each row once for all of these tiles.
///
/// Weights come through a ring of shared memory: while a warp multiplies one step, the next ones are on
/// their way. A lane copies what it will read itself, so nobody waits for others. No kernel writes
/// weights, so the first of them are asked for before the kernels that make the rows have ended.
///
/// The sum of one (row, output): each of split_of() warps adds up the steps s, s + split, ... in that
/// order, a group of columns after the other, and in a group what mma() adds; then the warps are added
/// up (add_warps). Neither kTiles nor kColumns is in it.
template <WeightFormat F, int kTiles, int kColumns>
struct TileProduct {
  static constexpr int kSums = kTileRows * Operand::kRows;  // of one mma()
  using Totals = float[kTiles][kColumns][4];
  static constexpr int kRingWords = 8 * kWarp;  // of a warp
  static constexpr int kStepWords = kShape<F>.loads * kWarp;
  static constexpr int kStageWords = kTiles * kStepWords;  // a step of all tiles
  static constexpr int kStages =
      kRingWords / kStageWords;  // in the ring; one of them is multiplied
  static_assert(kStages >= 2);
  static constexpr int kBytesAhead = (kStages - 1) * kStageWords * static_cast<int>(sizeof(Words));

  /// Steps `slice`, `slice` + `split`, ... of the tiles from `first_tile` on. Waits for the kernels
  /// before. @param ring  of the warp alone, kRingWords of shared memory
  template <typename T>
  FOREDRAFT_DEVICE static void add_up(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                      const Weights& w, int first_tile, int slice, int split,
                                      Words* ring, Totals& total) {
    const int n_steps = w.n_steps();
    int tiles[kTiles];  // those behind the last are computed as the last, and not stored
    FOREDRAFT_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      tiles[i] = first_tile + i < w.n_tiles() ? first_tile + i : w.n_tiles() - 1;
    }
    FOREDRAFT_UNROLL
    for (int i = 0; i < kStages - 1; ++i) {
      request(t, w, tiles, slice + i * split, ring + i * kStageWords);
    }
    Scales scales = load_scales(t, w, tiles, slice);
    t.wait_for_kernels();
    int stage = 0;
    for (int step = slice; step < n_steps; step += split) {
      t.template wait_copies<kStages - 2>();
      Step<F> steps[kTiles];
      FOREDRAFT_UNROLL
      for (int i = 0; i < kTiles; ++i) {
        steps[i] = load_step<F>(t, ring + stage * kStageWords + i * kStepWords);
      }
      // Into the place of the step before, which has been multiplied.
      const int free = (stage == 0 ? kStages : stage) - 1;
      request(t, w, tiles, step + (kStages - 1) * split, ring + free * kStageWords);
      const Scales next = load_scales(t, w, tiles, step + split);
      add_step(t, x, rows, step, steps, scales, total);
      scales = next;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
  }

  /// What a lane has of one mma()'s sums, row after row of its eight. @shape to [kSums]
  template <typename T>
  FOREDRAFT_DEVICE static void store_sums(T& t, const float (&sum)[4], float* to) {
    const int g = lane_of(t) / 4;
    const int row = lane_of(t) % 4 * 2;
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) t.store(to + (row + i % 2) * kTileRows + g + i / 2 * 8, sum[i]);
  }

  /// Sum i of the warps that share a tile. @param sums  of the first of them
  template <typename T>
  FOREDRAFT_DEVICE static float add_warps(T& t, const float* sums, int split, int i) {
    float value = t.load(sums + i);
    for (int warp = 1; warp < split; ++warp) value = t.add(value, t.load(sums + warp * kSums + i));
    return value;
  }

 private:
  static constexpr int kGroups =  // of a step
      kShape<F>.group == 0 ? 0 : kShape<F>.columns / kShape<F>.group;

  /// Of one step, for a lane's rows of each tile.
  struct Scales {
    GroupScale of[kTiles][kGroups == 0 ? 1 : kGroups];
  };

  /// Have a step of all tiles copied; a group of copies also where there is no such step.
  template <typename T>
  FOREDRAFT_DEVICE static void request(T& t, const Weights& w, const int (&tiles)[kTiles], int step,
                                       Words* to) {
    if (step < w.n_steps()) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kTiles; ++i) {
        const auto at = idx(tiles[i]) * idx(w.n_steps()) + idx(step);
        FOREDRAFT_UNROLL
        for (int word = 0; word < kStepWords; word += kWarp) {
          const int lane = word + lane_of(t);
          t.copy_async(to + i * kStepWords + lane, w.steps + at * kStepWords + lane);
        }
      }
    }
    t.commit_copies();
  }

  template <typename T>
  FOREDRAFT_DEVICE static Scales load_scales(T& t, const Weights& w, const int (&tiles)[kTiles],
                                             int step) {
    Scales scales = {};
    if constexpr (kGroups > 0) {
      if (step >= w.n_steps()) return scales;
      FOREDRAFT_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        FOREDRAFT_UNROLL
        for (int i = 0; i < kGroups; ++i) {
          scales.of[tile][i] = load_scale<F>(t, w, tiles[tile], step * kGroups + i, lane_of(t) / 4);
        }
      }
    }
    return scales;
  }

  template <typename T>
  FOREDRAFT_DEVICE static void add_step(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                        int step, const Step<F> (&steps)[kTiles],
                                        const Scales& scales, Totals& total) {
    constexpr int kParts = kShape<F>.columns / kTileColumns;
    if constexpr (kGroups == 0) {
      FOREDRAFT_UNROLL
      for (int part = 0; part < kParts; ++part) {
        add_part(t, x, rows, step * kParts + part, steps, part, total);
      }
    } else {
      constexpr int kPartsOfGroup = kParts / kGroups;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kGroups; ++i) {
        // Sums of codes, then of what they stand for.
        Totals codes = {};
        FOREDRAFT_UNROLL
        for (int part = i * kPartsOfGroup; part < (i + 1) * kPartsOfGroup; ++part) {
          add_part(t, x, rows, step * kParts + part, steps, part, codes);
        }
        FOREDRAFT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          scale_up(t, x, rows, scales.of[tile][i], step * kGroups + i, codes[tile], total[tile]);
        }
      }
    }
  }

  /// 16 columns: `part_of_row` of the row, `part` of the step. Small numbers first.
  template <typename T>
  FOREDRAFT_DEVICE static void add_part(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                        int part_of_row, const Step<F> (&steps)[kTiles], int part,
                                        Totals& to) {
    Planes<F> planes[kTiles];
    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) planes[tile] = planes_of<F>(t, steps[tile], part);
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      const Words row = load_factors(t, x, rows.factor[column], part_of_row);
      FOREDRAFT_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        FOREDRAFT_UNROLL
        for (int plane = kShape<F>.planes - 1; plane >= 0; --plane) {
          t.mma(to[tile][column], planes[tile].of[plane], row.v[2], row.v[3]);
          t.mma(to[tile][column], planes[tile].of[plane], row.v[0], row.v[1]);
        }
      }
    }
  }

  /// A lane's part of a row; zeros for none.
  template <typename T>
  FOREDRAFT_DEVICE static Words load_factors(T& t, const Operand& x, int row, int part) {
    if (row < 0) return {};
    const auto at = idx(row / Operand::kRows) * idx(Operand::parts_in(x.n_in)) + idx(part);
    return t.load(x.parts + at * kWarp + row % Operand::kRows * 4 + lane_of(t) % 4);
  }

  template <typename T>
  FOREDRAFT_DEVICE static void scale_up(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                        const GroupScale& of, int group,
                                        const float (&codes)[kColumns][4],
                                        float (&total)[kColumns][4]) {
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      float(&to)[4] = total[column];
      FOREDRAFT_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = t.fma(of.scale[i / 2], codes[column][i], to[i]);
      if constexpr (kShape<F>.biased) {
        FOREDRAFT_UNROLL
        for (int i = 0; i < 4; ++i) {
          to[i] = t.fma(of.bias[i / 2], load_sum(t, x, rows.sums[column][i % 2], group), to[i]);
        }
      }
    }
  }

  template <typename T>
  FOREDRAFT_DEVICE static float load_sum(T& t, const Operand& x, int row, int group) {
    if (row < 0) return 0.0f;
    const auto groups = idx(Operand::parts_in(x.n_in) / 2);
    return t.load(x.sums + idx(row) * groups + group);
  }
};

}  // namespace foredraft::inline v0::cuda
