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

/// Where rows of an Operand are written.
struct OperandRows {
  Words* parts = nullptr;
  float* sums = nullptr;
  int n_in = 0;

  Operand operand(int n_rows) const noexcept { return {parts, sums, n_rows, n_in}; }

  /// Columns 4 four .. 4 four + 3, where mma() wants them, and of each 32 columns the sum. All threads of a
  /// warp call it, with fours one behind the other; those behind the last are left out.
  template <typename T>
  FOREDRAFT_DEVICE void put(T& t, int row, int four, const Four& values) const {
    const Words words = rounded(t, values);
    float sum = t.add(t.add(low_of(words.v[0]), low_of(words.v[2])),
                      t.add(high_of(words.v[0]), high_of(words.v[2])));
    sum = t.add(sum, t.add(t.add(low_of(words.v[1]), low_of(words.v[3])),
                           t.add(high_of(words.v[1]), high_of(words.v[3]))));
    for (int mask = 1; mask < 8; mask *= 2) sum = t.add(sum, t.shuffle_xor(sum, mask));
    const int n_parts = Operand::parts_in(n_in);
    if (four >= n_parts * 4) return;
    t.store(parts + (idx(row / Operand::kRows) * idx(n_parts) + idx(four / 4)) * kWarp +
                row % Operand::kRows * 4 + four % 4,
            words);
    if (four % 8 == 0) t.store(sums + idx(row) * idx(n_parts / 2) + four / 8, sum);
  }

 private:
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

/// Makes rows of an Operand. A block for each row where there is a norm, which needs all of it; else one for
/// each 2048 columns. Code that runs once is kept short, here and in other kernels: fetching it takes longer
/// than what it does.
struct PrepareRows {
  static constexpr const char* kName = "prepare_rows";
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kHeld = 2;            // fours of a thread that wait for the norm's sum
  static constexpr bool kLoadsAhead = true;  // weights of the norm, and which rows
  struct Args {
    RowSource from = {};
    OperandRows to = {};
  };

  static int shared() noexcept { return shared_bytes<float>(kWarps); }
  static Grid grid(const Args& a, int n_rows) noexcept {
    const bool whole = a.from.norm.weight != nullptr;
    return {n_rows, whole ? 1 : parts_of(a.from.fours(), kThreads)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int row = a.from.rows == nullptr ? t.block_x() : t.load(a.from.rows + t.block_x());
    if (a.from.norm.weight == nullptr) {
      t.wait_for_kernels();
      const int four = t.block_y() * kThreads + t.thread();
      return a.to.put(t, t.block_x(), four, load_values(t, a.from, row, four));
    }
    Four weights[kHeld], values[kHeld];
    FOREDRAFT_UNROLL
    for (int k = 0; k < kHeld; ++k) weights[k] = load_weights(t, a.from, t.thread() + k * kThreads);
    t.wait_for_kernels();
    FOREDRAFT_UNROLL
    for (int k = 0; k < kHeld; ++k) values[k] = load_x(t, a.from, row, t.thread() + k * kThreads);
    const float scale = scale_of(t, a.from, row, values);
    FOREDRAFT_ROLLED
    for (int first = 0; first < a.from.fours(); first += kThreads) {
      const int four = first + t.thread();
      a.to.put(t, t.block_x(), four, normed(t, values[0], scale, weights[0]));
      values[0] = values[1];
      weights[0] = weights[1];
      if (first + kHeld * kThreads >= a.from.fours()) continue;
      values[1] = load_x(t, a.from, row, four + kHeld * kThreads);
      weights[1] = load_weights(t, a.from, four + kHeld * kThreads);
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

  /// 1 / sqrt(mean(x^2) + epsilon), in every thread of the block. The order of the sum depends on the
  /// length of a row alone. @param held  a thread's first ones
  template <typename T>
  FOREDRAFT_DEVICE static float scale_of(T& t, const RowSource& a, int row,
                                         const Four (&held)[kHeld]) {
    float* const of_warps = t.template shared<float>(kWarps);
    float squares = 0;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kHeld; ++i) squares = add_squares(t, held[i], squares);
    FOREDRAFT_ROLLED
    for (int four = kHeld * kThreads + t.thread(); four * 4 < a.n_in; four += kThreads) {
      squares = add_squares(t, load_x(t, a, row, four), squares);
    }
    return norm_scale_of_block<kThreads>(t, squares, a.n_in, a.norm.epsilon, of_warps);
  }
};

}  // namespace foredraft::inline v0::cuda
