#pragma once

#include <cstddef>

#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/recurrent_ops.hpp>

namespace foredraft::inline v0::cpu {

/// A convolution along a row's path, for some channels.
struct ConvolveTask {
  const float* taps[kMostTaps] = {};  // [n_taps][n]: what tokens put in, oldest first; null: zeros
  int n_taps = 0;
  const float* kernel = nullptr;  // [n_taps, kernel_stride], of the first channel
  std::size_t kernel_stride = 0;
  const float* bias = nullptr;  // [n] or null
  bool activate = false;        // with silu
  float* out = nullptr;         // written [n]
  int n = 0;
};

/// out[c] = bias[c] + sum over taps of tap[c] * kernel[c], from the oldest to the newest, or silu of it.
/// @cost n_taps * n products
template <class Arch>
void convolve(const ConvolveTask& t) noexcept {
  using V = Vec16<Arch>;
  for (int c = 0; c < t.n; c += 16) {
    const int n = t.n - c < 16 ? t.n - c : 16;
    const auto load = [&](const float* from) __attribute__((always_inline)) {
      return n == 16 ? V::load(from) : V::load_first(from, n, 0.0f);
    };
    V sum = t.bias == nullptr ? V::zero() : load(t.bias + c);
    for (int i = 0; i < t.n_taps; ++i) {
      if (t.taps[i] == nullptr) continue;
      const float* const kernel = t.kernel + static_cast<std::size_t>(i) * t.kernel_stride + c;
      sum = fma(load(t.taps[i] + c), load(kernel), sum);
    }
    if (t.activate) sum = silu<Arch>(sum);
    n == 16 ? sum.store(t.out + c) : sum.store_first(t.out + c, n);
  }
}

/// What one token does to the state of one head: see SelectiveScanArgs.
struct ScanStep {
  float decay = 0;  // of the state, exp(dt * decay)
  float dt = 0;
  const float* u = nullptr;  // [d_head]
  const float* b = nullptr;  // [d_state]
  const float* c = nullptr;  // [d_state]
  float* y = nullptr;        // written [d_head], or null where nobody wants it
};

/// Some tokens, one after the other.
struct ScanRun {
  static constexpr int kMost = 16;  ///< steps

  float* state = nullptr;  // [d_head, d_state], changed
  int d_head = 0;
  int d_state = 0;
  float skip = 0;
  int n = 0;
  ScanStep steps[kMost] = {};
};

/// All steps of a part of the state, kRows by kVectors times 16 columns from row p and column k on, which
/// stays in registers meanwhile: the steps of an element follow each other, and sums go on from column to
/// column, as if they were taken one by one.
/// @shape sums [n, kRows, 16] so far
template <class Arch, int kRows, int kVectors, typename Load, typename Store>
[[gnu::always_inline]] inline void scan_part(const ScanRun& t, int p, int k, float* sums,
                                             Load&& load, Store&& store) noexcept {
  using V = Vec16<Arch>;
  const auto at = [&](int row, int vector) __attribute__((always_inline)) {
    return t.state + static_cast<std::size_t>(p + row) * static_cast<std::size_t>(t.d_state) + k +
           16 * vector;
  };
  V state[kRows][kVectors];
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kVectors>([&](auto v) __attribute__((always_inline)) { state[i][v] = load(at(i, v)); });
  });
  for (int n = 0; n < t.n; ++n, sums += kRows * 16) {
    const ScanStep& step = t.steps[n];
    const V decay = V::broadcast(step.decay);
    V u[kRows];
    unroll<kRows>([&](auto i) __attribute__((always_inline)) {
      u[i] = V::broadcast(step.dt) * V::broadcast(step.u[p + i]);
    });
    unroll<kVectors>([&](auto v) __attribute__((always_inline)) {
      const V b = load(step.b + k + 16 * v);
      unroll<kRows>([&](auto i) __attribute__((always_inline)) {
        state[i][v] = fma(u[i], b, decay * state[i][v]);
      });
    });
    if (step.y == nullptr) continue;
    V sum[kRows];
    unroll<kRows>([&](auto i) __attribute__((always_inline)) { sum[i] = V::load(sums + 16 * i); });
    unroll<kVectors>([&](auto v) __attribute__((always_inline)) {
      const V c = load(step.c + k + 16 * v);
      unroll<kRows>([&](auto i)
                        __attribute__((always_inline)) { sum[i] = fma(state[i][v], c, sum[i]); });
    });
    unroll<kRows>([&](auto i) __attribute__((always_inline)) { sum[i].store(sums + 16 * i); });
  }
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kVectors>([&](auto v) __attribute__((always_inline)) { store(state[i][v], at(i, v)); });
  });
}

/// kRows rows from row p on.
template <class Arch, int kRows>
[[gnu::always_inline]] inline void scan_rows(const ScanRun& t, int p) noexcept {
  using V = Vec16<Arch>;
  // With eight lanes more do not fit the registers beside the sums; with four, nothing does.
  constexpr int kVectors = Simd<Arch>::kLanes == 8 ? 1 : 4;
  const auto load = [](const float* from) __attribute__((always_inline)) { return V::load(from); };
  const auto store = [](const V& v, float* to) __attribute__((always_inline)) { v.store(to); };
  float sums[ScanRun::kMost * kRows * 16];
  for (int i = 0; i < t.n * kRows; ++i) V::zero().store(sums + 16 * i);
  int k = 0;
  for (; k + 16 * kVectors <= t.d_state; k += 16 * kVectors)
    scan_part<Arch, kRows, kVectors>(t, p, k, sums, load, store);
  for (; k + 16 <= t.d_state; k += 16) scan_part<Arch, kRows, 1>(t, p, k, sums, load, store);
  if (k < t.d_state) {
    const int n = t.d_state - k;
    scan_part<Arch, kRows, 1>(
        t, p, k, sums,
        [n](const float* from)
            __attribute__((always_inline)) { return V::load_first(from, n, 0.0f); },
        [n](const V& v, float* to) __attribute__((always_inline)) { v.store_first(to, n); });
  }
  for (int n = 0; n < t.n; ++n) {
    const ScanStep& step = t.steps[n];
    if (step.y == nullptr) continue;
    for (int i = 0; i < kRows; ++i) step.y[p + i] = V::load(sums + (n * kRows + i) * 16).sum();
  }
}

/// @cost one pass over the state, and a product or two for each of its elements and step
template <class Arch>
void scan(const ScanRun& t) noexcept {
  using V = Vec16<Arch>;
  constexpr int kRows = 4;
  int p = 0;
  for (; p + kRows <= t.d_head; p += kRows) scan_rows<Arch, kRows>(t, p);
  for (; p < t.d_head; ++p) scan_rows<Arch, 1>(t, p);
  const V skip = V::broadcast(t.skip);
  for (int i = 0; i < t.n; ++i) {
    const ScanStep& step = t.steps[i];
    for (int from = 0; step.y != nullptr && from < t.d_head; from += 16) {
      const int n = t.d_head - from < 16 ? t.d_head - from : 16;
      const V y =
          fma(skip, V::load_first(step.u + from, n, 0.0f), V::load_first(step.y + from, n, 0.0f));
      y.store_first(step.y + from, n);
    }
  }
}

/// What one token does to the state of one head: see GatedDeltaNetArgs.
struct DeltaStep {
  float* state = nullptr;  // [d_key, d_value], changed
  int d_key = 0;
  int d_value = 0;
  float decay = 0;           // of the state
  float beta = 0;            // how much of the difference from v is corrected
  const float* q = nullptr;  // [d_key]
  const float* k = nullptr;  // [d_key]
  const float* v = nullptr;  // [d_value]
  float* y = nullptr;        // written [d_value], or null where nobody wants it
};

/// The columns of a state do not depend on each other. Some of them, kVectors times 16, or the last n:
/// sums over the rows, in their order, whichever columns are taken together.
template <class Arch, int kVectors, bool kWanted, typename Load, typename Store>
[[gnu::always_inline]] inline void delta_columns(const DeltaStep& t, int first, Load&& load,
                                                 Store&& store) noexcept {
  using V = Vec16<Arch>;
  const auto row_of = [&](int row) __attribute__((always_inline)) {
    return t.state + static_cast<std::size_t>(row) * static_cast<std::size_t>(t.d_value) + first;
  };
  V said[kVectors];
  unroll<kVectors>([&](auto i) __attribute__((always_inline)) { said[i] = V::zero(); });
  for (int row = 0; row < t.d_key; ++row) {
    const V k = V::broadcast(t.k[row]);
    unroll<kVectors>([&](auto i) __attribute__((always_inline)) {
      said[i] = fma(load(row_of(row) + 16 * i), k, said[i]);
    });
  }
  const V decay = V::broadcast(t.decay);
  V correction[kVectors];
  V y[kVectors];
  unroll<kVectors>([&](auto i) __attribute__((always_inline)) {
    correction[i] = V::broadcast(t.beta) * fnma(decay, said[i], load(t.v + first + 16 * i));
    y[i] = V::zero();
  });
  for (int row = 0; row < t.d_key; ++row) {
    const V k = V::broadcast(t.k[row]);
    const V q = kWanted ? V::broadcast(t.q[row]) : V::zero();
    unroll<kVectors>([&](auto i) __attribute__((always_inline)) {
      float* const at = row_of(row) + 16 * i;
      const V value = fma(k, correction[i], decay * load(at));
      store(value, at);
      if constexpr (kWanted) y[i] = fma(value, q, y[i]);
    });
  }
  if constexpr (kWanted) {
    unroll<kVectors>([&](auto i)
                         __attribute__((always_inline)) { store(y[i], t.y + first + 16 * i); });
  }
}

template <class Arch, bool kWanted>
[[gnu::always_inline]] inline void delta_state(const DeltaStep& t) noexcept {
  using V = Vec16<Arch>;
  const auto load = [](const float* from) __attribute__((always_inline)) { return V::load(from); };
  const auto store = [](const V& v, float* to) __attribute__((always_inline)) { v.store(to); };
  // So many sums at once that none waits for the one before it.
  constexpr int kVectors = 4;
  int c = 0;
  for (; c + 16 * kVectors <= t.d_value; c += 16 * kVectors) {
    delta_columns<Arch, kVectors, kWanted>(t, c, load, store);
  }
  for (; c + 16 <= t.d_value; c += 16) delta_columns<Arch, 1, kWanted>(t, c, load, store);
  if (c == t.d_value) return;
  const int n = t.d_value - c;
  delta_columns<Arch, 1, kWanted>(
      t, c,
      [n](const float* from)
          __attribute__((always_inline)) { return V::load_first(from, n, 0.0f); },
      [n](const V& v, float* to) __attribute__((always_inline)) { v.store_first(to, n); });
}

/// @cost two passes over the state
template <class Arch>
void delta_step(const DeltaStep& t) noexcept {
  t.y == nullptr ? delta_state<Arch, false>(t) : delta_state<Arch, true>(t);
}

}  // namespace foredraft::inline v0::cpu
