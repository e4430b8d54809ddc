#pragma once

#include <concepts>
#include <limits>
#include <optional>

namespace foredraft::inline v0 {

/// Size arithmetic that says when it would wrap. Every size that is derived from a file goes
/// through these three, because in other loaders each fix of one unchecked sum left the next one
/// open.
template <std::unsigned_integral U>
constexpr std::optional<U> checked_add(U a, U b) noexcept {
  if (b > std::numeric_limits<U>::max() - a) return std::nullopt;
  return static_cast<U>(a + b);
}

template <std::unsigned_integral U>
constexpr std::optional<U> checked_mul(U a, U b) noexcept {
  if (a != 0 && b > std::numeric_limits<U>::max() / a) return std::nullopt;
  return static_cast<U>(a * b);
}

/// The least multiple of `alignment` that is not below `value`; nothing where alignment is 0 or the
/// result wraps.
template <std::unsigned_integral U>
constexpr std::optional<U> checked_align_up(U value, U alignment) noexcept {
  if (alignment == 0) return std::nullopt;
  const U rest = static_cast<U>(value % alignment);
  return rest == 0 ? std::optional<U>(value) : checked_add(value, static_cast<U>(alignment - rest));
}

}  // namespace foredraft::inline v0
