#pragma once

#include <type_traits>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fragments.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Warps that share the tiles of a matrix by its columns, by its shape alone: so a sum is divided in
/// one way, whatever the number of rows. Enough warps to keep a device loading, no step too few for one of
/// them, and so few blocks that an H200 holds all of a launch at once, for models up to 8B: a wide matrix has a
/// sister in its launch.
FOREDRAFT_HOST_DEVICE constexpr int split_of(int n_out, int n_in) noexcept {
  const int enough = n_in > 2 * n_out ? 1536 : 768;  // warps
  const int parts = parts_of(n_in, kTileColumns);
  int split = 1;
  while (split < 8 && parts_of(n_out, kTileRows) * split < enough && parts >= 8 * split) split *= 2;
  return split;
}
/// It is a power of two, and kernels divide by it: which one.
FOREDRAFT_HOST_DEVICE constexpr int split_bits_of(int n_out, int n_in) noexcept {
  const int split = split_of(n_out, n_in);
  return split == 8 ? 3 : split / 2;
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
/// Weights, their scales and the rows come through a ring of shared memory: while a warp multiplies a burst
/// of steps, the next ones are on their way. A lane copies what it will read itself, so nobody waits for
/// others. No kernel writes weights, so the first of them are asked for before the kernels that make the
/// rows have ended. Where a stage has no room for rows, they are loaded where they are needed.
///
/// The sum of one (row, output): each of split_of() warps adds up the steps s, s + split, ... in that
/// order, a group of columns after the other, and in a group what mma() adds; then the warps are added
/// up (add_warps). Neither kTiles nor kColumns is in it.
///
/// @tparam kOneRow  the Operand has one row, so that the ring holds four lanes' words of it in place of 32
template <WeightFormat F, int kTiles, int kColumns, bool kOneRow = false>
struct TileProduct {
  static_assert(!kOneRow || kColumns == 1);
  static constexpr int kSums = kTileRows * Operand::kRows;  // of one mma()
  using Totals = float[kTiles][kColumns][4];
  static constexpr int kParts = kShape<F>.columns / kTileColumns;  // of a step
  static constexpr int kGroups =                                   // likewise
      kShape<F>.group == 0 ? 0 : kShape<F>.columns / kShape<F>.group;

  // What the ring holds of a step of all tiles, in units of 16 bytes.
  static constexpr int kStepWords = kShape<F>.loads * kWarp;
  static constexpr int kScaleWords = kGroups * kShape<F>.scale_bytes() * kWarp / 16;  // of a tile
  static constexpr int kWeightWords = kTiles * (kStepWords + kScaleWords);
  static constexpr int kLanesOfRow = 4;
  static constexpr int kRowWords = kParts * (kOneRow ? kLanesOfRow : kColumns * kWarp);
  static constexpr int kMostRingWords = 704;  // of a warp: eight of them fit into kMostShared
  static constexpr bool kRowsInRing = 3 * (kWeightWords + kRowWords) <= kMostRingWords;
  static constexpr int kAllWords = kWeightWords + (kRowsInRing ? kRowWords : 0);

  // A stage of the ring is a burst: some steps that a warp waits for together, because what it does for one
  // takes less time than the latencies in it.
  static constexpr int kBurst = kTiles * kColumns > 1                             ? 1
                                : kParts == 1 && 12 * kAllWords <= kMostRingWords ? 4
                                : 6 * kAllWords <= kMostRingWords                 ? 2
                                                                                  : 1;
  static constexpr int kStageWords = kBurst * kAllWords;
  static constexpr int kMostStages = 16 / kBurst;
  static constexpr int kStages =  // one of them is multiplied
      kMostRingWords / kStageWords < kMostStages ? kMostRingWords / kStageWords : kMostStages;
  static_assert(kStages >= 3);
  static constexpr int kRingWords = kStages * kStageWords;
  static constexpr int kBytesAhead =  // of weights
      (kStages - 1) * kBurst * kTiles * kStepWords * static_cast<int>(sizeof(Words));

  /// Steps `slice`, `slice` + split, ... of the tiles from `first_tile` on.
  /// @param ring   of the warp alone, kRingWords of shared memory
  /// @param ready  called behind the first requests: waits for the kernels that make the rows
  template <typename T, typename Ready>
  FOREDRAFT_DEVICE static void add_up(T& t, const Operand& x, const LaneRows<kColumns>& rows,
                                      const Weights& w, int first_tile, int slice, int split_bits,
                                      Words* ring, Totals& total, Ready&& ready) {
    const int split = 1 << split_bits;
    const int n_steps = parts_of(w.n_in, kShape<F>.columns);
    const int n_own = (n_steps - slice + split - 1) >> split_bits;  // of the warp
    Sources from = sources_of(t, x, rows, w, first_tile, slice);
    Sources ahead = from;
    // What is done once is kept short, here and below: fetching code takes longer than what it does.
    FOREDRAFT_ROLLED
    for (int i = 0; i < kStages - 1; ++i) {
      request_weights(t, ahead, n_own - i * kBurst, split, ring + i * kStageWords);
      ahead.advance_weights(kBurst * split);
      if constexpr (!kRowsInRing) t.commit_copies();
    }
    ready();
    if constexpr (kRowsInRing) {
      FOREDRAFT_ROLLED
      for (int i = 0; i < kStages - 1; ++i) {
        request_rows(t, ahead, n_own - i * kBurst, split, ring + i * kStageWords);
        ahead.advance_rows(kBurst * split);
      }
      t.commit_copies();
      t.template wait_copies<0>();
    }
    Words* here = ring;
    Words* free = ring + (kStages - 1) * kStageWords;
    int step = slice;
    FOREDRAFT_ROLLED
    for (int own = 0; own < n_own; own += kBurst) {
      t.template wait_copies<kStages - 2>();
      // Into the place of the burst before, which has been multiplied.
      const int wanted = n_own - own - (kStages - 1) * kBurst;
      request_weights(t, ahead, wanted, split, free);
      ahead.advance_weights(kBurst * split);
      if constexpr (kRowsInRing) {
        request_rows(t, ahead, wanted, split, free);
        ahead.advance_rows(kBurst * split);
      }
      t.commit_copies();            // a group also where there are no such steps
      if (own + kBurst <= n_own) {  // without a branch between steps, so that they overlap
        FOREDRAFT_UNROLL
        for (int i = 0; i < kBurst; ++i) {
          add_step(t, from, here + i * kAllWords, step + i * split, total);
          if constexpr (!kRowsInRing) from.advance_rows(split);
        }
      } else if constexpr (kBurst > 1) {
        FOREDRAFT_ROLLED
        for (int i = 0; own + i < n_own; ++i) {
          add_step(t, from, here + i * kAllWords, step + i * split, total);
          if constexpr (!kRowsInRing) from.advance_rows(split);
        }
      }
      step += kBurst * split;
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
  /// Where a lane's own parts of a step lie.
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
    FOREDRAFT_DEVICE void advance_rows(int steps) {
      FOREDRAFT_UNROLL
      for (int i = 0; i < kColumns; ++i) rows[i] += steps * (kParts * kWarp);
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
                     idx(step * kParts * kWarp) + row % Operand::kRows * 4 + lane_of(t) % 4;
      FOREDRAFT_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int of = rows.sums[i][j];
        if (of >= 0) from.sums[i][j] = x.sums + idx(of) * idx(parts / 2);
      }
    }
    return from;
  }

  /// Have a burst of all tiles copied, and what its codes stand for.
  /// @param n  steps that are left, at most 0: none
  template <typename T>
  FOREDRAFT_DEVICE static void request_weights(T& t, const Sources& from, int n, int split,
                                               Words* stage) {
    FOREDRAFT_UNROLL
    for (int j = 0; j < kBurst; ++j) {
      if (j >= n) break;
      const int step = j * split;
      Words* const to = stage + j * kAllWords;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kTiles; ++i) {
        FOREDRAFT_UNROLL
        for (int word = 0; word < kStepWords; word += kWarp) {
          t.copy_async_once(to + i * kStepWords + word + lane_of(t),
                            from.weights[i] + step * kStepWords + word);
        }
        FOREDRAFT_UNROLL
        for (int group = 0; group < kGroups; ++group) {
          t.copy_async(scale_in(t, to, i, group), from.scales[i] + (step * kGroups + group) * 8);
        }
      }
    }
  }

  /// Have a lane's parts of the rows copied: those of a burst, likewise.
  template <typename T>
  FOREDRAFT_DEVICE static void request_rows(T& t, const Sources& from, int n, int split,
                                            Words* stage) {
    FOREDRAFT_UNROLL
    for (int j = 0; j < kBurst; ++j) {
      if (j >= n) break;
      FOREDRAFT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        if (!from.has_row[column]) continue;
        FOREDRAFT_UNROLL
        for (int part = 0; part < kParts; ++part) {
          t.copy_async(row_in(t, stage + j * kAllWords, part, column),
                       from.rows[column] + (j * split * kParts + part) * kWarp);
        }
      }
    }
  }

  /// The lane's own places in what the ring holds of a step.
  template <typename W, typename T>
  FOREDRAFT_DEVICE static auto* scale_in(T& t, W* here, int tile, int group) {
    using Entry = std::conditional_t<std::is_const_v<W>, const ScaleEntry<F>, ScaleEntry<F>>;
    return reinterpret_cast<Entry*>(here + kTiles * kStepWords) + (tile * kGroups + group) * kWarp +
           lane_of(t);
  }
  /// With one row only lanes that have it ask.
  template <typename W, typename T>
  FOREDRAFT_DEVICE static W* row_in(T& t, W* here, int part, int column) {
    if constexpr (kOneRow) {
      return here + kWeightWords + part * kLanesOfRow + lane_of(t) % kLanesOfRow;
    } else {
      return here + kWeightWords + (part * kColumns + column) * kWarp + lane_of(t);
    }
  }

  template <typename T>
  FOREDRAFT_DEVICE static void add_step(T& t, const Sources& from, const Words* here, int step,
                                        Totals& total) {
    Step<F> steps[kTiles];
    FOREDRAFT_UNROLL
    for (int i = 0; i < kTiles; ++i) steps[i] = load_step<F>(t, here + i * kStepWords);
    if constexpr (kGroups == 0) {
      FOREDRAFT_UNROLL
      for (int part = 0; part < kParts; ++part) {
        add_part(t, from, here, steps, part, total);
      }
    } else {
      constexpr int kPartsOfGroup = kParts / kGroups;
      FOREDRAFT_UNROLL
      for (int i = 0; i < kGroups; ++i) {
        // Sums of codes, then of what they stand for.
        Totals codes = {};
        FOREDRAFT_UNROLL
        for (int part = i * kPartsOfGroup; part < (i + 1) * kPartsOfGroup; ++part) {
          add_part(t, from, here, steps, part, codes);
        }
        FOREDRAFT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          scale_up(t, from, scale_of<F>(t, t.load(scale_in(t, here, tile, i))), step * kGroups + i,
                   codes[tile], total[tile]);
        }
      }
    }
  }

  /// 16 columns, `part` of the step. Small numbers first.
  template <typename T>
  FOREDRAFT_DEVICE static void add_part(T& t, const Sources& from, const Words* here,
                                        const Step<F> (&steps)[kTiles], int part, Totals& to) {
    Planes<F> planes[kTiles];
    FOREDRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) planes[tile] = planes_of<F>(t, steps[tile], part);
    FOREDRAFT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      Words row = {};
      if (from.has_row[column]) {
        row =
            t.load(kRowsInRing ? row_in(t, here, part, column) : from.rows[column] + part * kWarp);
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
