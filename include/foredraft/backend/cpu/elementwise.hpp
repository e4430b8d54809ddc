#pragma once

#include <cstdint>

#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/half.hpp>

namespace foredraft::inline v0::cpu {

/// Turn the first n_rot dimensions of one head: pair i by the angle whose cosine and sine are
/// given.
/// @shape cos, sin [n_rot / 2]; head [>= n_rot], changed in place
/// @source Su et al. 2021, arXiv:2104.09864, equation 34
template <class Arch>
void rope(RopeKind kind, int n_rot, const float* cos, const float* sin, float* head) noexcept {
  using V = Vec16<Arch>;
  const int n_pairs = n_rot / 2;
  for (int i = 0; i < n_pairs; i += 16) {
    const int n = n_pairs - i < 16 ? n_pairs - i : 16;
    // Adjacent pairs are taken apart into two vectors first, so that both layouts are one
    // arithmetic.
    float first[16];
    float second[16];
    const int stride = kind == RopeKind::kAdjacent ? 2 : 1;
    float* a_of = head + i * stride;
    float* b_of = kind == RopeKind::kAdjacent ? a_of + 1 : a_of + n_pairs;
    for (int k = 0; k < 16; ++k) {
      first[k] = k < n ? a_of[k * stride] : 0.0f;
      second[k] = k < n ? b_of[k * stride] : 0.0f;
    }
    const V a = V::load(first);
    const V b = V::load(second);
    const V c = V::load_first(cos + i, n, 1.0f);
    const V s = V::load_first(sin + i, n, 0.0f);
    fnma(b, s, a * c).store(first);
    fma(a, s, b * c).store(second);
    for (int k = 0; k < n; ++k) {
      a_of[k * stride] = first[k];
      b_of[k * stride] = second[k];
    }
  }
}

/// x * sigmoid(x)
template <class Arch>
[[gnu::always_inline]] inline Vec16<Arch> silu(const Vec16<Arch>& x) {
  using V = Vec16<Arch>;
  return x / (V::broadcast(1.0f) + exp<Arch>(V::zero() - x));
}

/// 1 / (1 + e^-x)
template <class Arch>
[[gnu::always_inline]] inline Vec16<Arch> sigmoid(const Vec16<Arch>& x) {
  using V = Vec16<Arch>;
  return V::broadcast(1.0f) / (V::broadcast(1.0f) + exp<Arch>(V::zero() - x));
}

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), written with 1 + tanh(u) = 2 / (1 + exp(-2u)).
/// @source Hendrycks and Gimpel 2016, arXiv:1606.08415
template <class Arch>
[[gnu::always_inline]] inline Vec16<Arch> gelu_tanh(const Vec16<Arch>& x) {
  using V = Vec16<Arch>;
  const V cubic = fma(x * x, V::broadcast(0.044715f), V::broadcast(1.0f));
  const V minus_2u = x * cubic * V::broadcast(-2 * 0.797884561f);
  return x / (V::broadcast(1.0f) + exp<Arch>(minus_2u));
}

/// max(x, 0)^2; a NaN stays one.
/// @source So et al. 2021, arXiv:2109.08668
template <class Arch>
[[gnu::always_inline]] inline Vec16<Arch> relu_squared(const Vec16<Arch>& x) {
  const Vec16<Arch> above = max(Vec16<Arch>::zero(), x);
  return above * above;
}

/// gate = activation(gate) .* up
/// @shape gate, up [n]
template <class Arch>
void gated_activation(Activation activation, float* gate, const float* up, int n) noexcept {
  using V = Vec16<Arch>;
  const auto apply = [&](auto function) __attribute__((always_inline)) {
    int i = 0;
    for (; i + 16 <= n; i += 16) (function(V::load(gate + i)) * V::load(up + i)).store(gate + i);
    if (i == n) return;
    const V g = V::load_first(gate + i, n - i, 0.0f);
    (function(g) * V::load_first(up + i, n - i, 0.0f)).store_first(gate + i, n - i);
  };
  switch (activation) {
    case Activation::kSilu:
      return apply([](const V& x) __attribute__((always_inline)) { return silu<Arch>(x); });
    case Activation::kGeluTanh:
      return apply([](const V& x) __attribute__((always_inline)) { return gelu_tanh<Arch>(x); });
    case Activation::kReluSquared:
      return apply([](const V& x) __attribute__((always_inline)) { return relu_squared<Arch>(x); });
    case Activation::kSigmoid:
      return apply([](const V& x) __attribute__((always_inline)) { return sigmoid<Arch>(x); });
  }
}

/// x = cap tanh(x / cap), written as cap - 2 cap / (1 + exp(2 x / cap)): off by some units in the
/// last place of cap.
/// @shape values [n]
/// @source Gemma Team 2024, arXiv:2408.00118, section 2
template <class Arch>
void soft_cap(float* values, int n, float cap) noexcept {
  using V = Vec16<Arch>;
  const V twice = V::broadcast(2 * cap);
  const V slope = V::broadcast(2 / cap);
  const auto capped = [&](const V& x) __attribute__((always_inline)) {
    return V::broadcast(cap) - twice / (V::broadcast(1.0f) + exp<Arch>(x * slope));
  };
  int i = 0;
  for (; i + 16 <= n; i += 16) capped(V::load(values + i)).store(values + i);
  if (i < n) capped(V::load_first(values + i, n - i, 0.0f)).store_first(values + i, n - i);
}

/// Binary32 to binary16, to nearest even.
/// @shape from, to [n]
template <class Arch>
void store_half(const float* from, int n, std::uint16_t* to) noexcept {
  using V = Vec16<Arch>;
  int i = 0;
  for (; i + 16 <= n; i += 16) V::load(from + i).store_half(to + i);
  if (i == n) return;
  std::uint16_t rest[16];
  V::load_first(from + i, n - i, 0.0f).store_half(rest);
  for (int k = i; k < n; ++k) to[k] = rest[k - i];
}

/// Greatest of the values seen so far.
struct Best {
  float value = -__builtin_inff();
  TokenId id = -1;   // the lowest with this value
  bool nan = false;  // a NaN has been seen
};

/// Go on with further values; values[0] has the id first_id. In whatever order they come, the lowest
/// id of the greatest value is found.
/// @shape values [n]
/// @return the greatest of these values; a NaN may be passed over
template <class Arch>
float argmax(const float* values, int n, TokenId first_id, Best& best) noexcept {
  using V = Vec16<Arch>;
  using S = Simd<Arch>;
  // Few steps, because folding sixteen lanes into one costs as much as many vectors.
  constexpr int kStep = 256;
  typename S::I magnitude = S::zero();
  float greatest_here = -__builtin_inff();
  for (int begin = 0; begin < n; begin += kStep) {
    const int count = n - begin < kStep ? n - begin : kStep;
    V greatest = V::broadcast(-__builtin_inff());
    for (int i = 0; i < count; i += 16) {
      const float* at = values + begin + i;
      const V v = count - i < 16 ? V::load_first(at, count - i, -__builtin_inff()) : V::load(at);
      greatest = max(v, greatest);
      unroll<V::kParts>([&](auto p) __attribute__((always_inline)) {
        magnitude = S::max(magnitude, S::magnitude_bits(v.part[p]));
      });
    }
    const float most = greatest.greatest();
    greatest_here = most > greatest_here ? most : greatest_here;
    const bool lower_id = most == best.value && first_id + begin < best.id;
    if (!(most > best.value) && !lower_id) continue;
    best.value = most;
    int i = begin;
    while (values[i] != most) ++i;
    best.id = first_id + i;
  }
  // Magnitudes as integers: beyond infinity's bits there is only NaN.
  std::int32_t bits[S::kLanes];
  S::store(bits, magnitude);
  for (const std::int32_t b : bits) best.nan |= b > 0x7f800000;
  return greatest_here;
}

}  // namespace foredraft::inline v0::cpu
