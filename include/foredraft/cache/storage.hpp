#pragma once

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0 {

namespace detail {
template <typename S>
struct RowsIn {
  using type = S;
};
template <>
struct RowsIn<float> {
  using type = cpu::Rows<float>;
};
template <>
struct RowsIn<f16> {
  using type = cpu::Rows<f16>;
};
template <>
struct RowsIn<bf16> {
  using type = cpu::Rows<bf16>;
};
template <>
struct RowsIn<q8_0> {
  using type = cpu::Rows<q8_0>;
};
}  // namespace detail

/// The storage that a cache is asked for: a backend's own, or that of the processor for a format
/// alone, which makes `LinearCache<f16>` short. The one place where caches know a backend.
template <typename S>
using RowsIn = typename detail::RowsIn<S>::type;

}  // namespace foredraft::inline v0
