#pragma once

#include <cstddef>
#include <type_traits>

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
/// Weights, their scales and the rows come through a ring of shared memory: while a warp multiplies one
/// step, the next ones are on their way. A lane copies what it will read itself, so nobody waits for
/// others. No kernel writes weights, so the first of them are asked for before the kernels that make the
/// rows have ended. Where a stage has no room for rows, they are loaded where they are needed.
///
/// The sum of one (row, output): each of split_of() warps adds up the steps s, s + split, ... in that
/// order, a group of columns after the other, and in a group what mma() adds; then the warps are added
/// up (add_warps). Neither kTiles nor kColumns is in it.
///
/// With kRowHere there is one row, which the block has made itself: it is in shared memory, [n_parts, 4] of
/// an operand's words.
template <WeightFormat F, int kTiles, int kColumns, bool kRowHere = false>
struct TileProduct {
  static constexpr int kSums = kTileRows * Operand::kRows;  // of one mma()
  using Totals = float[kTiles][kColumns][4];
  static constexpr int kParts = kShape<F>.columns / kTileColumns;  // of a step
  static constexpr int kGroups =                                   // likewise
      kShape<F>.group == 0 ? 0 : kShape<F>.columns / kShape<F>.group;

  // A stage of the ring, in units of 16 bytes: a step of all tiles.
  static constexpr int kStepWords = kShape<F>.loads * kWarp;
  static constexpr int kScaleWords = kGroups * kShape<F>.scale_bytes() * kWarp / 16;  // of a tile
  static constexpr int kWeightWords = kTiles * (kStepWords + kScaleWords);
  static constexpr int kRowWords = kParts * kColumns * kWarp;
  static constexpr int kPartWords = kRowHere ? 4 : kWarp;  // between two parts of rows
  // Of a warp: eight of them, with their sums and a row of 4096 values, fit into kMostShared.
  static constexpr int kMostRingWords = kRowHere ? 560 : 704;
  static constexpr bool kRowsInRing = !kRowHere && 3 * (kWeightWords + kRowWords) <= kMostRingWords;
  static constexpr int kStageWords = kWeightWords + (kRowsInRing ? kRowWords : 0);
  static constexpr int kStages =  // one of them is multiplied
      kMostRingWords / kStageWords < 8 ? kMostRingWords / kStageWords : 8;
  static_assert(kStages >= 3);
  static constexpr int kRingWords = kStages * kStageWords;
  static constexpr int kBytesAhead =  // of weights
      (kStages - 1) * kTiles * kStepWords * static_cast<int>(sizeof(Words));

  /// Steps `slice`, `slice` + `split`, ... of the tiles from `first_tile` on.
  /// @param ring   of the warp alone, kRingWords of shared memory
  /// @param ready  called behind the first requests: waits for the kernels before, or makes the rows
  template <typename T, typename Ready>
  FOREDRAFT_DEVICE static void add_up(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                      const Weights& w, int first_tile, int slice, int split,
                                      Words* ring, Totals& total, Ready&& ready) {
    const int n_steps = parts_of(w.n_in, kShape<F>.columns);
    Sources from = sources_of(t, x, rows, w, first_tile, slice);
    FOREDRAFT_UNROLL
    for (int i = 0; i < kStages - 1; ++i) {
      if (slice + i * split < n_steps) {
        request_weights(t, from, i * split, ring + i * kStageWords);
      }
      if constexpr (!kRowsInRing) t.commit_copies();
    }
    ready();
    if constexpr (kRowsInRing) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kStages - 1; ++i) {
        if (slice + i * split < n_steps) {
          request_rows(t, from, i * split, ring + i * kStageWords);
        }
      }
      t.commit_copies();
      t.template wait_copies<0>();
    }
    int wanted = slice + (kStages - 1) * split;  // the next step that is asked for
    from.advance_weights((kStages - 1) * split);
    if constexpr (kRowsInRing) from.advance_rows((kStages - 1) * split * kParts * kPartWords);
    Words* here = ring;
    Words* free = ring + (kStages - 1) * kStageWords;
    for (int step = slice; step < n_steps; step += split) {
      t.template wait_copies<kStages - 2>();
      Step<F> steps[kTiles];
      FOREDRAFT_UNROLL
      for (int i = 0; i < kTiles; ++i) steps[i] = load_step<F>(t, here + i * kStepWords);
      // Into the place of the step before, which has been multiplied.
      if (wanted < n_steps) {
        request_weights(t, from, 0, free);
        if constexpr (kRowsInRing) request_rows(t, from, 0, free);
      }
      t.commit_copies();  // a group also where there is no such step
      add_step(t, from, here, step, steps, total);
      wanted += split;
      from.advance_weights(split);
      from.advance_rows(split * kParts * kPartWords);
      free = here;
      here = here == ring + (kStages - 1) * kStageWords ? ring : here + kStageWords;
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
  /// Where a lane's own parts of a step lie: of weights and scales that of the step which is asked for
  /// next, of rows as well where they come through the ring.
  struct Sources {
    const Words* weights[kTiles];
    const ScaleEntry<F>* scales[kTiles];
    const Words* rows[kColumns];
    bool has_row[kColumns];
    const float* sums[kColumns][2];  // of the row's first group; null where there is no row

    FOREDRAFT_DEVICE void advance_weights(int steps) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kTiles; ++i) {
        weights[i] += steps * kStepWords;
        scales[i] += steps * (kGroups * 8);
      }
    }
    FOREDRAFT_DEVICE void advance_rows(int words) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kColumns; ++i) rows[i] += words;
    }
  };
  template <typename T>
  FOREDRAFT_DEVICE static Sources sources_of(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                             const Weights& w, int first_tile, int step) {
    Sources from = {};
    const int n_steps = parts_of(w.n_in, kShape<F>.columns);
    FOREDRAFT_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      // Those behind the last are computed as the last, and not stored.
      const int tile = first_tile + i < w.n_tiles() ? first_tile + i : w.n_tiles() - 1;
      const auto at = idx(tile) * idx(n_steps) + idx(step);
      from.weights[i] = w.steps + at * kStepWords + lane_of(t);
      if constexpr (kGroups > 0) {
        from.scales[i] =
            reinterpret_cast<const ScaleEntry<F>*>(w.scales) + at * (kGroups * 8) + lane_of(t) / 4;
      }
    }
    const int parts = Operand::parts_in(x.n_in);
    FOREDRAFT_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      from.has_row[i] = rows.factor[i] >= 0;
      const int row = from.has_row[i] ? rows.factor[i] : 0;  // so that the place is one
      from.rows[i] = x.parts + idx(row / Operand::kRows) * idx(parts) * kWarp +
                     idx(step * kParts * kPartWords) + row % Operand::kRows * 4 + lane_of(t) % 4;
      FOREDRAFT_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int of = rows.sums[i][j];
        if (of >= 0) from.sums[i][j] = x.sums + idx(of) * idx(parts / 2);
      }
    }
    return from;
  }

  /// Have a step of all tiles copied, and what its codes stand for. @param ahead  steps
  template <typename T>
  FOREDRAFT_DEVICE static void request_weights(T& t, const Sources& from, int ahead, Words* stage) {
    FOREDRAFT_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      FOREDRAFT_UNROLL
      for (int word = 0; word < kStepWords; word += kWarp) {
        t.copy_async_once(stage + i * kStepWords + word + lane_of(t),
                          from.weights[i] + ahead * kStepWords + word);
      }
      FOREDRAFT_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        t.copy_async(scale_in(t, stage, i, group), from.scales[i] + (ahead * kGroups + group) * 8);
      }
    }
  }

  /// Have a lane's parts of the rows copied: those of a step.
  template <typename T>
  FOREDRAFT_DEVICE static void request_rows(T& t, const Sources& from, int ahead, Words* stage) {
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      if (!from.has_row[column]) continue;
      FOREDRAFT_UNROLL
      for (int part = 0; part < kParts; ++part) {
        t.copy_async(row_in(t, stage, part, column),
                     from.rows[column] + (ahead * kParts + part) * kWarp);
      }
    }
  }

  /// The lane's own places in a stage.
  template <typename W, typename T>
  FOREDRAFT_DEVICE static auto* scale_in(T& t, W* stage, int tile, int group) {
    using Entry = std::conditional_t<std::is_const_v<W>, const ScaleEntry<F>, ScaleEntry<F>>;
    return reinterpret_cast<Entry*>(stage + kTiles * kStepWords) +
           (tile * kGroups + group) * kWarp + lane_of(t);
  }
  template <typename W, typename T>
  FOREDRAFT_DEVICE static W* row_in(T& t, W* stage, int part, int column) {
    return stage + kWeightWords + (part * kColumns + column) * kWarp + lane_of(t);
  }

  template <typename T>
  FOREDRAFT_DEVICE static void add_step(T& t, const Sources& from, const Words* stage, int step,
                                        const Step<F> (&steps)[kTiles], Totals& total) {
    if constexpr (kGroups == 0) {
      FOREDRAFT_UNROLL
      for (int part = 0; part < kParts; ++part) {
        add_part(t, from, stage, steps, part, total);
      }
    } else {
      constexpr int kPartsOfGroup = kParts / kGroups;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kGroups; ++i) {
        // Sums of codes, then of what they stand for.
        Totals codes = {};
        FOREDRAFT_UNROLL
        for (int part = i * kPartsOfGroup; part < (i + 1) * kPartsOfGroup; ++part) {
          add_part(t, from, stage, steps, part, codes);
        }
        FOREDRAFT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          scale_up(t, from, scale_of<F>(t, t.load(scale_in(t, stage, tile, i))), step * kGroups + i,
                   codes[tile], total[tile]);
        }
      }
    }
  }

  /// 16 columns, `part` of the step. Small numbers first.
  template <typename T>
  FOREDRAFT_DEVICE static void add_part(T& t, const Sources& from, const Words* stage,
                                        const Step<F> (&steps)[kTiles], int part, Totals& to) {
    Planes<F> planes[kTiles];
    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) planes[tile] = planes_of<F>(t, steps[tile], part);
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      Words row = {};
      if (from.has_row[column]) {
        row = t.load(kRowsInRing ? row_in(t, stage, part, column)
                                 : from.rows[column] + part * kPartWords);
      }
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

  template <typename T>
  FOREDRAFT_DEVICE static void scale_up(T& t, const Sources& from, const GroupScale& of, int group,
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
          to[i] = t.fma(of.bias[i / 2], load_sum(t, from.sums[column][i % 2], group), to[i]);
        }
      }
    }
  }

  template <typename T>
  FOREDRAFT_DEVICE static float load_sum(T& t, const float* sums, int group) {
    return sums == nullptr ? 0.0f : t.load(sums + group);
  }
};

}  // namespace foredraft::inline v0::cuda
