#pragma once

#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/core/half.hpp>

namespace foredraft::inline v0::cpu {

/// Elements of floats, halves and bfloat16, as float.
template <class Arch>
struct ElementLoads {
  using V = Vec16<Arch>;
  using S = Simd<Arch>;
  using F = typename S::F;
  static constexpr int kLanes = S::kLanes;

  template <typename E>
  [[gnu::always_inline]] static V load16(const E* p) {
    if constexpr (std::is_same_v<E, float>) {
      return V::load(p);
    } else if constexpr (std::is_same_v<E, bf16>) {
      return V::load_bfloat16(reinterpret_cast<const std::uint16_t*>(p));
    } else {
      return V::load_half(reinterpret_cast<const std::uint16_t*>(p));
    }
  }
  template <typename E>
  [[gnu::always_inline]] static float value_of(const E& x) {
    if constexpr (std::is_same_v<E, float>) {
      return x;
    } else if constexpr (std::is_same_v<E, bf16>) {
      return static_cast<float>(x);
    } else {
      const std::uint16_t padded[kLanes] = {x.bits};
      return S::load_half(padded)[0];
    }
  }
};

/// n elements, a multiple of 16.
template <class Arch, typename T>
void load_floats(const T* from, int n, float* to) noexcept {
  for (int i = 0; i < n; i += 16) ElementLoads<Arch>::load16(from + i).store(to + i);
}

}  // namespace foredraft::inline v0::cpu
