#pragma once

#include <cstddef>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>

/// A layer over rows of a test's own, `head_rows` of each head; none of its keys is in a block.
/// @shape k, v [n_kv_heads, head_rows, row_elements(d_head)]
template <typename T>
foredraft::cpu::AnyRows::Layer layer_over(T* k, T* v, int d_head, int head_rows, int size) {
  const auto rows = [&](T* of) {
    const std::size_t row = foredraft::row_bytes(foredraft::kFormatOf<T>, d_head);
    return foredraft::cpu::HeadRows{reinterpret_cast<std::byte*>(of), foredraft::kFormatOf<T>, row,
                                    foredraft::idx(head_rows) * row};
  };
  return {rows(k), rows(v), size, 0};
}
