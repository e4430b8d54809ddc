#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

static_assert(sizeof(std::size_t) == 8, "model files do not fit into a 32-bit address space");

/// A tensor of a file. Views point into the file.
struct GgufTensor {
  std::string_view name;
  TensorType type = TensorType::kF32;  ///< may be a number that TensorType does not list
  std::uint32_t type_number = 0;
  std::vector<std::uint64_t> shape;  ///< as in the file, rank 0 to 4: shape[0] is n_in, the fastest
  std::uint64_t offset = 0;          ///< from the begin of the data section
  std::span<const std::byte> data;   ///< aligned to the file's alignment, which may be 1

  /// For messages: "[576, 49152]".
  std::string shape_text() const {
    std::string text;
    for (const std::uint64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
    return "[" + text + "]";
  }
};

/// Bytes that the shape and type of a tensor ask for; nothing for a type of unknown size.
/// @errors kCorruptFile where rows do not divide into blocks, or a product wraps
inline std::optional<std::uint64_t> data_bytes(const GgufTensor& tensor) {
  const auto fail = [&](const std::string& found, const std::string& expected) {
    return Error(ErrorCode::kCorruptFile, "tensor " + in_quotes(tensor.name) + ": " + found,
                 expected, "is the file complete? compare its checksum");
  };
  // An empty dimension counts as one here, so that it cannot hide the overflow of the others.
  std::optional<std::uint64_t> elements = 1;
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::uint64_t n = tensor.shape[d];
    if (elements) elements = checked_mul(*elements, std::max<std::uint64_t>(n, 1));
    if (elements && d > 0) rows *= n;  // at most `elements`, which has just been found to fit
  }
  if (!elements || *elements > std::numeric_limits<std::int64_t>::max()) {
    throw fail("shape " + tensor.shape_text(), "fewer than 2^63 elements");
  }
  const auto layout = layout_of(tensor.type);
  if (!layout) return std::nullopt;
  const std::uint64_t n_in = tensor.shape.empty() ? 1 : tensor.shape[0];
  if (n_in % layout->elements != 0) {
    throw fail("rows of " + std::to_string(n_in) + " values in " + std::string(layout->name),
               "a multiple of " + std::to_string(layout->elements));
  }
  const auto row = row_bytes(tensor.type, n_in);
  const auto all = row ? checked_mul<std::uint64_t>(*row, rows) : std::nullopt;
  if (!all) {
    throw fail("shape " + tensor.shape_text() + " in " + std::string(layout->name),
               "a size in bytes below 2^64");
  }
  return all;
}

}  // namespace foredraft::inline v0
