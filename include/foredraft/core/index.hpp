#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

/// A function that kernels of a GPU call as well. A compiler that knows no GPU reads it like others.
#ifdef __CUDACC__
#define FOREDRAFT_HOST_DEVICE __host__ __device__
#else
#define FOREDRAFT_HOST_DEVICE
#endif

namespace foredraft::inline v0 {

/// A count or index of this library as an index of the standard's containers. Negative values are
/// the caller's mistake.
template <std::integral I>
[[gnu::always_inline]] FOREDRAFT_HOST_DEVICE constexpr std::size_t idx(I i) noexcept {
  return static_cast<std::size_t>(i);
}
/// Likewise for what becomes a number, such as a Dim; not in kernels.
template <typename I>
  requires std::convertible_to<I, std::ptrdiff_t> && (!std::is_arithmetic_v<I>)
[[gnu::always_inline]] constexpr std::size_t idx(I i) noexcept {
  return static_cast<std::size_t>(i);
}

}  // namespace foredraft::inline v0
