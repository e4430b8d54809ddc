#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cuda/activation.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Rows of activations as the factor B of mma(), in parts of 8 rows and 16 columns. A value is the sum
/// of two numbers in bf16: it is rounded to 17 bits, once, whatever it is multiplied with. A lane has
/// four columns of a row: two words of their greater numbers, and two of the rest. Columns are filled
/// up with zeros to whole 64.
struct Operand {
  const Words* parts = nullptr;  // [n_rows / 8, n_parts, 32 lanes]
  const float* sums = nullptr;   // [n_rows, n_parts / 2] of 32 columns each
  int n_rows = 0;
  int n_in = 0;

  static constexpr int kRows = 8;  // of one mma()

  /// Pieces of 16 columns. @param n_in  columns
  FOREDRAFT_HOST_DEVICE static constexpr int parts_in(int n_in) { return parts_of(n_in, 64) * 4; }
  static std::size_t words_in(int n_rows, int n_in) noexcept {
    return idx(parts_of(n_rows, kRows)) * idx(parts_in(n_in)) * kWarp;
  }
  static std::size_t sums_in(int n_rows, int n_in) noexcept {
    return idx(n_rows) * idx(parts_in(n_in) / 2);
  }
};

/// What rows of an Operand are made of: rows of x, either activated and gated, or normed, or as they are.
struct RowSource {
  const float* x = nullptr;  // [rows of the pass, n_in]
  bool gated = false;        // x = activation(x) * by
  Activation activation = Activation::kSilu;
  const float* by = nullptr;  // [rows of the pass, by_stride] or null: ones
  int by_stride = 0;          // a multiple of n_in
  const int* rows = nullptr;  // [n_rows] which of them, or null: all
  int n_in = 0;
  Norm norm = {};

  /// Four columns each, those that fill up included.
  FOREDRAFT_HOST_DEVICE int fours() const { return Operand::parts_in(n_in) * 4; }
};

/// Makes a row, by all threads of a block together, once.
struct RowMaker {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kHeld = 4;  // fours of a thread that wait for the norm's sum

  /// Where a row goes, and the sums of its groups.
  struct To {
    Words* parts;
    int part_words;  // between two parts
    float* sums;
  };

  /// Waits for the kernels before. Who reads the row waits for the block.
  /// @param i      of the rows that are wanted
  /// @param first  fours [first, end) of the row; with a norm they have to be all of it
  /// @param of_warps  shared memory [kWarps]
  template <typename T>
  FOREDRAFT_DEVICE static void make(T& t, const RowSource& a, int i, int first, int end,
                                    float* of_warps, const To& to) {
    const int row = a.rows == nullptr ? i : t.load(a.rows + i);
    if (a.norm.weight == nullptr) {
      t.wait_for_kernels();
      for (; first < end; first += kThreads) {
        put(t, a, first + t.thread(), load_values(t, a, row, first + t.thread()), to);
      }
      return;
    }
    Four weights[kHeld], values[kHeld];
    FOREDRAFT_UNROLL
    for (int k = 0; k < kHeld; ++k) weights[k] = load_weights(t, a, t.thread() + k * kThreads);
    t.wait_for_kernels();
    FOREDRAFT_UNROLL
    for (int k = 0; k < kHeld; ++k) values[k] = load_x(t, a, row, t.thread() + k * kThreads);
    const float scale = scale_of(t, a, row, values, of_warps);
    FOREDRAFT_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      if (k * kThreads >= end) break;
      put(t, a, t.thread() + k * kThreads, normed(t, values[k], scale, weights[k]), to);
    }
    for (int next = kHeld * kThreads; next < end; next += kThreads) {
      const int four = next + t.thread();
      put(t, a, four, normed(t, load_x(t, a, row, four), scale, load_weights(t, a, four)), to);
    }
  }

 private:
  /// Columns 4 four .. 4 four + 3; zeros behind the last.
  template <typename T>
  FOREDRAFT_DEVICE static Four load_x(T& t, const RowSource& a, int row, int four) {
    return load_elements(t, a.x + idx(row) * idx(a.n_in), four * 4, a.n_in);
  }
  template <typename T>
  FOREDRAFT_DEVICE static Four load_values(T& t, const RowSource& a, int row, int four) {
    Four values = load_x(t, a, row, four);
    if (!a.gated || four * 4 >= a.n_in) return values;
    const int k = four * 4;
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) values.v[i] = activated(t, a.activation, values.v[i]);
    if (a.by == nullptr) return values;
    const Four factors = load_elements(t, a.by + idx(row) * idx(a.by_stride), k, a.n_in);
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) values.v[i] = t.mul(values.v[i], factors.v[i]);
    return values;
  }
  template <typename T>
  FOREDRAFT_DEVICE static Four load_weights(T& t, const RowSource& a, int four) {
    return load_elements(t, a.norm.weight, four * 4, a.n_in);
  }
  template <typename T>
  FOREDRAFT_DEVICE static Four normed(T& t, const Four& values, float scale, const Four& weights) {
    Four result;
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      result.v[i] = t.mul(t.mul(values.v[i], scale), weights.v[i]);
    }
    return result;
  }

  /// Where mma() wants them, and of each 32 columns the sum. All threads of a warp call it.
  template <typename T>
  FOREDRAFT_DEVICE static void put(T& t, const RowSource& a, int four, const Four& values,
                                   const To& to) {
    const Words words = rounded(t, values);
    float sum = t.add(t.add(low_of(words.v[0]), low_of(words.v[2])),
                      t.add(high_of(words.v[0]), high_of(words.v[2])));
    sum = t.add(sum, t.add(t.add(low_of(words.v[1]), low_of(words.v[3])),
                           t.add(high_of(words.v[1]), high_of(words.v[3]))));
    for (int mask = 1; mask < 8; mask *= 2) sum = t.add(sum, t.shuffle_xor(sum, mask));
    if (four >= a.fours()) return;
    t.store(to.parts + four / 4 * to.part_words + four % 4, words);
    if (four % 8 == 0) t.store(to.sums + four / 8, sum);
  }

  /// 1 / sqrt(mean(x^2) + epsilon), in every thread of the block. The order of the sum depends on the
  /// length of a row alone. @param held  a thread's first fours
  template <typename T>
  FOREDRAFT_DEVICE static float scale_of(T& t, const RowSource& a, int row,
                                         const Four (&held)[kHeld], float* of_warps) {
    float squares = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kHeld; ++i) squares = add_squares(t, held[i], squares);
    for (int four = kHeld * kThreads + t.thread(); four * 4 < a.n_in; four += kThreads) {
      squares = add_squares(t, load_x(t, a, row, four), squares);
    }
    squares = t.warp_sum(squares);
    if (lane_of(t) == 0) t.store(of_warps + warp_of(t), squares);
    t.sync();
    squares = t.load(of_warps);
    for (int warp = 1; warp < kWarps; ++warp) squares = t.add(squares, t.load(of_warps + warp));
    return inverse_root(t, squares, a.n_in, a.norm.epsilon);
  }
  template <typename T>
  FOREDRAFT_DEVICE static float add_squares(T& t, const Four& values, float squares) {
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) squares = t.fma(values.v[i], values.v[i], squares);
    return squares;
  }

  /// As two numbers in bf16. What is infinite has no second one, which would be NaN: a product with
  /// weights of several planes still is.
  template <typename T>
  FOREDRAFT_DEVICE static Words rounded(T& t, const Four& values) {
    const std::uint32_t high[2] = {t.bf16_pair(values.v[0], values.v[1]),
                                   t.bf16_pair(values.v[2], values.v[3])};
    float low[4];
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float rest = i % 2 == 0 ? low_of(high[i / 2]) : high_of(high[i / 2]);
      low[i] = rest - rest == 0.0f ? t.add(values.v[i], -rest) : 0.0f;
    }
    return {{high[0], high[1], t.bf16_pair(low[0], low[1]), t.bf16_pair(low[2], low[3])}};
  }
};

/// Rows, and nothing else. A block for each row where there is a norm, which needs all of it; else one for
/// each 1024 columns.
struct PrepareRows {
  static constexpr const char* kName = "prepare_rows";
  static constexpr int kThreads = RowMaker::kThreads;
  static constexpr bool kLoadsAhead = true;  // weights of the norm, and which rows
  struct Args {
    RowSource from = {};
    Words* parts = nullptr;  // written, see Operand
    float* sums = nullptr;   // likewise
  };

  static int shared() noexcept { return shared_bytes<float>(RowMaker::kWarps); }
  static Grid grid(const Args& a, int n_rows) noexcept {
    const bool whole = a.from.norm.weight != nullptr;
    return {n_rows, whole ? 1 : parts_of(a.from.fours(), kThreads)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const of_warps = t.template shared<float>(RowMaker::kWarps);
    const int row = t.block_x();
    const int n_parts = Operand::parts_in(a.from.n_in);
    const RowMaker::To to{
        a.parts + idx(row / Operand::kRows) * idx(n_parts) * kWarp + row % Operand::kRows * 4,
        kWarp, a.sums + idx(row) * idx(n_parts / 2)};
    const int first = t.block_y() * kThreads;
    const int end = a.from.norm.weight != nullptr ? a.from.fours() : first + kThreads;
    RowMaker::make(t, a.from, row, first, end, of_warps, to);
  }
};

}  // namespace foredraft::inline v0::cuda
