#pragma once

#include <concepts>
#include <cstddef>

namespace foredraft::inline v0 {

/// A count or index of this library as an index of the standard's containers. Negative values are
/// the caller's mistake.
template <typename I>
  requires std::convertible_to<I, std::ptrdiff_t> && (!std::floating_point<I>)
[[gnu::always_inline]] constexpr std::size_t idx(I i) noexcept {
  return static_cast<std::size_t>(i);
}

}  // namespace foredraft::inline v0
