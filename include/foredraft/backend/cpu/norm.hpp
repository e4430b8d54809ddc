#pragma once

#include <foredraft/backend/cpu/vec16.hpp>

namespace foredraft::inline v0::cpu {

/// Squares are summed in 32 lanes, then those in a fixed tree.
/// @shape x [n]
template <class Arch>
[[gnu::always_inline]] inline float sum_of_squares(const float* x, int n) noexcept {
  using V = Vec16<Arch>;
  // Two sums, because one alone would wait for the latency of its own additions.
  V even = V::zero();
  V odd = V::zero();
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    const V a = V::load(x + i);
    const V b = V::load(x + i + 16);
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  for (; i < n; i += 16) {
    const V a = n - i < 16 ? V::load_first(x + i, n - i, 0.0f) : V::load(x + i);
    even = fma(a, a, even);
  }
  return (even + odd).sum();
}

/// y = x / sqrt(mean(x^2) + epsilon) * weight, for one row.
/// @shape x, weight, y [n]; y may be x
/// @cost two passes over x, no allocation
/// @source Zhang and Sennrich 2019, arXiv:1910.07467
template <class Arch>
void rms_norm(const float* x, const float* weight, float epsilon, int n, float* y) noexcept {
  using V = Vec16<Arch>;
  const float mean = sum_of_squares<Arch>(x, n) / static_cast<float>(n);
  const V scale = V::broadcast(1.0f / __builtin_sqrtf(mean + epsilon));
  int i = 0;
  for (; i + 16 <= n; i += 16) (V::load(x + i) * scale * V::load(weight + i)).store(y + i);
  if (i < n) {
    const V rest =
        V::load_first(x + i, n - i, 0.0f) * scale * V::load_first(weight + i, n - i, 0.0f);
    rest.store_first(y + i, n - i);
  }
}

/// x = x / sqrt(sum(x^2) + epsilon) * length
/// @shape x [n]
template <class Arch>
void set_length(float* x, int n, float epsilon, float length) noexcept {
  using V = Vec16<Arch>;
  const V scale = V::broadcast(length / __builtin_sqrtf(sum_of_squares<Arch>(x, n) + epsilon));
  int i = 0;
  for (; i + 16 <= n; i += 16) (V::load(x + i) * scale).store(x + i);
  if (i < n) (V::load_first(x + i, n - i, 0.0f) * scale).store_first(x + i, n - i);
}

}  // namespace foredraft::inline v0::cpu
