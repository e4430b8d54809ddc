#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// Bytes that a matrix occupies in its file. @errors kShapeMismatch where the view holds less, or
/// has no rows or columns
inline std::size_t checked_bytes(const TensorView& weights) {
  const auto row = row_bytes(weights.type, weights.n_in);
  const auto bytes = row ? checked_mul(*row, weights.n_out) : std::nullopt;
  if (!bytes || *bytes == 0 || weights.data.size() < *bytes) {
    throw Error(
        ErrorCode::kShapeMismatch,
        "a tensor of " + std::to_string(weights.n_out) + " x " + std::to_string(weights.n_in) +
            " in " + std::to_string(weights.data.size()) + " bytes",
        bytes ? std::to_string(*bytes) + " bytes, at least 1" : "whole blocks of a known format");
  }
  return *bytes;
}

/// All values of a matrix, row after row. @shape [n_out * n_in] @errors kShapeMismatch
inline std::vector<float> dequantized(const TensorView& weights) {
  const std::size_t row = checked_bytes(weights) / weights.n_out;
  std::vector<float> values(weights.n_out * weights.n_in);
  for (std::size_t n = 0; n < weights.n_out; ++n) {
    dequantize_row(weights.type, weights.data.data() + n * row, weights.n_in,
                   values.data() + n * weights.n_in);
  }
  return values;
}

/// A norm weight or a bias. @shape [n_in] @errors kShapeMismatch where there is more than one row
inline std::vector<float> dequantized_vector(const TensorView& weights) {
  if (weights.n_out != 1) {
    throw Error(ErrorCode::kShapeMismatch, "a matrix of " + std::to_string(weights.n_out) + " rows",
                "a vector, one row");
  }
  return dequantized(weights);
}

}  // namespace foredraft::inline v0
