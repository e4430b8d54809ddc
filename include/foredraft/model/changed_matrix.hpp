#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/drop_behind.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quantize.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Whether a matrix takes less memory in another format. False where its rows are no whole blocks
/// of that format.
inline bool shrinks(TensorType from, std::size_t n_in, TensorType to) noexcept {
  const auto before = row_bytes(from, n_in);
  const auto after = row_bytes(to, n_in);
  return before && after && *after < *before;
}

namespace detail {

/// Rows `tokens` of a matrix (all where there are none), in format `to`, row by row as in a file.
/// @shape out [rows, row_bytes(to, n_in)]; writes rows begin .. end - 1
/// @return false where a value does not fit the format
inline bool change_rows(const TensorView& from, std::span<const TokenId> tokens, TensorType to,
                        std::size_t begin, std::size_t end, std::byte* out) noexcept {
  const std::size_t row = row_bytes(from.type, from.n_in).value_or(0);
  const std::size_t changed_row = row_bytes(to, from.n_in).value_or(0);
  bool held = true;
  DropBehind behind;
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t n = tokens.empty() ? i : idx(tokens[i]);
    const std::byte* source = from.data.data() + n * row;
    std::byte* destination = out + i * changed_row;
    if (to == from.type) {
      std::memcpy(destination, source, row);
    } else {
      held &= requantize_row(from.type, source, from.n_in, to, destination);
    }
    behind.read(from, {source, row});
  }
  return held;
}

}  // namespace detail

/// Pack some rows of a matrix, in another format than the file's. The rows are shared among the
/// workers of the backend; a row's bytes depend on nothing but the row. A backend without workers
/// computes nothing, it only looks at sizes, and is handed no data.
/// @shape tokens [rows to keep], ascending, below from.n_out; empty: all rows
/// @cost one pass over the rows, and memory for the changed ones beside the packed ones
/// @errors kUnsupportedModel where a weight is not finite or beyond the format; kShapeMismatch;
///   kOutOfMemory
template <typename B>
typename B::Matrix pack_changed(B& backend, const std::string& name, const TensorView& from,
                                std::span<const TokenId> tokens, TensorType to) {
  TensorView changed{to, tokens.empty() ? from.n_out : tokens.size(), from.n_in, {}};
  if constexpr (requires { typename B::Worker; }) {
    (void)checked_bytes(from);
    std::vector<std::byte> bytes;
    try {
      bytes.resize(changed.n_out * row_bytes(to, from.n_in).value_or(0));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::kOutOfMemory, "no room to change tensor '" + name + "'",
                  "memory for a copy of it", "");
    }
    std::atomic<bool> held{true};
    backend.run(PassShape{}, [&](auto& worker) noexcept {
      const auto index = idx(worker.index());
      const auto count = idx(worker.count());
      if (!detail::change_rows(from, tokens, to, changed.n_out * index / count,
                               changed.n_out * (index + 1) / count, bytes.data())) {
        held = false;
      }
    });
    if (!held) {
      throw Error(ErrorCode::kUnsupportedModel,
                  "weights in tensor '" + name + "' that are not finite, or too great",
                  "values that " + std::string(layout_of(to)->name) + " can hold",
                  "load the model as it is");
    }
    changed.data = bytes;
    return backend.pack(changed);
  } else {
    return backend.pack(changed);
  }
}

}  // namespace foredraft::inline v0
