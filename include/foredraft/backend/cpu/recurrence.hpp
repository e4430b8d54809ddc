#pragma once

#include <cstddef>

#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/index.hpp>

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
      const float* const kernel = t.kernel + idx(i) * t.kernel_stride + c;
      sum = fma(load(t.taps[i] + c), load(kernel), sum);
    }
    if (t.activate) sum = silu<Arch>(sum);
    n == 16 ? sum.store(t.out + c) : sum.store_first(t.out + c, n);
  }
}

/// What one token does to the state of one head: see SelectiveScanArgs.
struct ScanStep {
  float* state = nullptr;  // [d_head, d_state], changed
  int d_head = 0;
  int d_state = 0;
  float decay = 0;  // of the state, exp(dt * decay)
  float dt = 0;
  float skip = 0;
  const float* u = nullptr;  // [d_head]
  const float* b = nullptr;  // [d_state]
  const float* c = nullptr;  // [d_state]
  float* y = nullptr;        // written [d_head], or null where nobody wants it
};

/// Some rows of a state side by side, from row p on: what they share is loaded once, and no sum waits for
/// itself.
template <class Arch, int kRows, bool kWanted>
[[gnu::always_inline]] inline void scan_rows(const ScanStep& t, int p) noexcept {
  using V = Vec16<Arch>;
  const V decay = V::broadcast(t.decay);
  const auto row_of = [&](int i) __attribute__((always_inline)) {
    return t.state + idx(p + i) * idx(t.d_state);
  };
  V u[kRows];
  V sums[kRows];
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    u[i] = V::broadcast(t.dt) * V::broadcast(t.u[p + i]);
    sums[i] = V::zero();
  });
  const auto step = [&](int at, auto&& load, auto&& store) __attribute__((always_inline)) {
    const V b = load(t.b + at);
    const V c = kWanted ? load(t.c + at) : V::zero();
    unroll<kRows>([&](auto i) __attribute__((always_inline)) {
      float* const state = row_of(i) + at;
      const V value = fma(u[i], b, decay * load(state));
      store(value, state);
      if constexpr (kWanted) sums[i] = fma(value, c, sums[i]);
    });
  };
  int k = 0;
  for (; k + 16 <= t.d_state; k += 16) {
    step(
        k, [](const float* from) __attribute__((always_inline)) { return V::load(from); },
        [](const V& v, float* to) __attribute__((always_inline)) { v.store(to); });
  }
  if (k < t.d_state) {
    const int n = t.d_state - k;
    step(
        k,
        [n](const float* from)
            __attribute__((always_inline)) { return V::load_first(from, n, 0.0f); },
        [n](const V& v, float* to) __attribute__((always_inline)) { v.store_first(to, n); });
  }
  if constexpr (kWanted) {
    unroll<kRows>([&](auto i) __attribute__((always_inline)) { t.y[p + i] = sums[i].sum(); });
  }
}

template <class Arch, bool kWanted>
[[gnu::always_inline]] inline void scan_state(const ScanStep& t) noexcept {
  constexpr int kRows = 4;
  int p = 0;
  for (; p + kRows <= t.d_head; p += kRows) scan_rows<Arch, kRows, kWanted>(t, p);
  for (; p < t.d_head; ++p) scan_rows<Arch, 1, kWanted>(t, p);
}

/// @cost one pass over the state
template <class Arch>
void scan_step(const ScanStep& t) noexcept {
  using V = Vec16<Arch>;
  if (t.y == nullptr) return scan_state<Arch, false>(t);
  scan_state<Arch, true>(t);
  const V skip = V::broadcast(t.skip);
  for (int p = 0; p < t.d_head; p += 16) {
    const int n = t.d_head - p < 16 ? t.d_head - p : 16;
    const V y = fma(skip, V::load_first(t.u + p, n, 0.0f), V::load_first(t.y + p, n, 0.0f));
    y.store_first(t.y + p, n);
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
    return t.state + idx(row) * idx(t.d_value) + first;
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
