#pragma once

#include <cstddef>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/backend/cuda/weights.hpp>

namespace foredraft::inline v0::cuda {

/// One of the matrices that multiply the same input.
struct ProductPart {
  Weights w = {};
  const float* bias = nullptr;  // [w.n_out] or null
  float* y = nullptr;           // written [n_rows, w.n_out]
};

inline constexpr int kMostParts = 3;  // queries, keys, values

/// Warps that share one output, by the length of a row alone: so a sum is divided in one way,
/// whatever the number of rows. Long rows have few outputs to keep a device busy with.
constexpr int split_of(int n_in) noexcept { return n_in >= 2048 ? 4 : n_in >= 512 ? 2 : 1; }

/// y = scale * (norm(x) W^T + bias), with a soft-cap over it, or y += that, for up to kTile rows at a time. Each weight is loaded once
/// for all of them. A norm is a factor of the whole row, so it is applied to the sum.
///
/// The sum of one (row, output): lane i of the warps that share it adds up chunks i, i + lanes, ...,
/// one weight after the other; then the lanes of each warp are added up, then the warps. kTile is not
/// in it.
template <WeightFormat F, int kTile>
struct Product {
  static constexpr const char* kName = "product";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kTile * kWarps <= kThreads);

  struct Args {
    const float* x = nullptr;   // [rows of the pass, n_in]
    const int* rows = nullptr;  // [n_rows] which of them, or null: all
    int n_rows = 0;
    int n_in = 0;
    Norm norm = {};
    ProductPart parts[kMostParts] = {};  // those behind the last have no outputs
    int split = 1;                       // split_of(n_in)
    bool add = false;
    float scale = 1.0f;
    float softcap = 0.0f;  // 0: none
  };

  static int shared() noexcept {
    return shared_bytes<float>(kTile) + shared_bytes<float>(kWarps * kTile);
  }
  static Grid grid(const Args& a) noexcept {
    int outputs = 0;
    for (const ProductPart& part : a.parts) outputs += part.w.n_out;
    return {parts_of(outputs, kWarps / a.split), parts_of(a.n_rows, kTile)};
  }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    float* const scales = t.template shared<float>(kTile);
    float* const sums = t.template shared<float>(kWarps * kTile);
    const int first = t.block_y() * kTile;
    const float* x[kTile];
    FOREDRAFT_UNROLL
    for (int r = 0; r < kTile; ++r) x[r] = row_of(t, a, first + r);

    if (a.norm.weight != nullptr) {
      for (int r = warp_of(t); r < kTile; r += kWarps) {
        const float scale = norm_scale(t, row_of(t, a, first + r), a.n_in, a.norm.epsilon);
        if (lane_of(t) == 0) t.store(scales + r, scale);
      }
    }
    const int outputs = kWarps / a.split;  // of the block
    ProductPart part = {};
    const int mine = find(a, t.block_x() * outputs + warp_of(t) / a.split, part);
    float sum[kTile] = {};
    if (mine >= 0) add_up(t, a, part.w, mine, x, sum);
    t.warp_sums(sum);
    if (lane_of(t) == 0) {
      FOREDRAFT_UNROLL
      for (int r = 0; r < kTile; ++r) t.store(sums + warp_of(t) * kTile + r, sum[r]);
    }
    t.sync();

    // One thread for each row of each output.
    const int r = t.thread() % kTile;
    const int output = t.thread() / kTile;
    if (output >= outputs || first + r >= a.n_rows) return;
    const int n = find(a, t.block_x() * outputs + output, part);
    if (n < 0) return;
    float value = t.load(sums + output * a.split * kTile + r);
    for (int i = 1; i < a.split; ++i) {
      value = t.add(value, t.load(sums + (output * a.split + i) * kTile + r));
    }
    if (a.norm.weight != nullptr) value = t.mul(value, t.load(scales + r));
    if (part.bias != nullptr) value = t.add(value, t.load(part.bias + n));
    value = capped(t, t.mul(value, a.scale), a.softcap);
    float* const to =
        part.y + static_cast<std::size_t>(first + r) * static_cast<std::size_t>(part.w.n_out) + n;
    t.store(to, a.add ? t.add(t.load(to), value) : value);
  }

 private:
  /// Rows behind the last one are computed as the last, and not stored.
  template <typename T>
  FOREDRAFT_DEVICE static const float* row_of(T& t, const Args& a, int r) {
    const int inside = r < a.n_rows ? r : a.n_rows - 1;
    const int row = a.rows == nullptr ? inside : t.load(a.rows + inside);
    return a.x + static_cast<std::size_t>(row) * static_cast<std::size_t>(a.n_in);
  }

  /// The part that an output of the launch belongs to, and which of its outputs it is; -1: none.
  FOREDRAFT_DEVICE static int find(const Args& a, int output, ProductPart& part) {
    int found = -1;
    FOREDRAFT_UNROLL
    for (int i = 0; i < kMostParts; ++i) {
      if (output >= 0 && output < a.parts[i].w.n_out) {
        part = a.parts[i];
        found = output;
      }
      output -= a.parts[i].w.n_out;
    }
    return found;
  }

  /// What one lane adds up. @shape sum [kTile]
  template <typename T>
  FOREDRAFT_DEVICE static void add_up(T& t, const Args& a, const Weights& w, int output,
                                      const float* const (&x)[kTile], float (&sum)[kTile]) {
    const int lane = warp_of(t) % a.split * kWarp + lane_of(t);
    const int n_chunks = parts_of(a.n_in, kChunk<F>);
    for (int chunk = lane; chunk < n_chunks; chunk += kWarp * a.split) {
      float weights[kChunk<F>];
      load_chunk<F>(t, w, output, chunk, weights);
      FOREDRAFT_UNROLL
      for (int j = 0; j < kChunk<F>; j += 4) {
        const int k = chunk * kChunk<F> + j;
        Four norm = {};
        if (a.norm.weight != nullptr) norm = load_four(t, a.norm.weight, k, a.n_in);
        FOREDRAFT_UNROLL
        for (int r = 0; r < kTile; ++r) {
          Four in = load_four(t, x[r], k, a.n_in);
          FOREDRAFT_UNROLL
          for (int i = 0; i < 4; ++i) {
            if (a.norm.weight != nullptr) in.v[i] = t.mul(in.v[i], norm.v[i]);
            sum[r] = t.fma(weights[j + i], in.v[i], sum[r]);
          }
        }
      }
    }
  }

  /// Values k .. k + 3 of a row, zeros behind its end. At once where rows begin at 16 bytes.
  template <typename T>
  FOREDRAFT_DEVICE static Four load_four(T& t, const float* row, int k, int n) {
    if (n % 4 == 0 && k < n) return t.load(reinterpret_cast<const Four*>(row + k));
    Four four = {};
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (k + i < n) four.v[i] = t.load(row + k + i);
    }
    return four;
  }
};

}  // namespace foredraft::inline v0::cuda
