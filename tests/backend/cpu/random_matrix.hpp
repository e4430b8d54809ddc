#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/tensor.hpp>

namespace kernels_under_test {

inline constexpr foredraft::TensorType kTypes[] = {
    foredraft::TensorType::kF32,  foredraft::TensorType::kF16,  foredraft::TensorType::kBF16,
    foredraft::TensorType::kQ4_0, foredraft::TensorType::kQ4_1, foredraft::TensorType::kQ5_0,
    foredraft::TensorType::kQ5_1, foredraft::TensorType::kQ8_0, foredraft::TensorType::kQ4_K,
    foredraft::TensorType::kQ5_K, foredraft::TensorType::kQ6_K};

/// A matrix as a file would hold it.
struct FileMatrix {
  foredraft::TensorType type;
  std::size_t n_out;
  std::size_t n_in;
  std::vector<std::byte> bytes;

  foredraft::TensorView view() const { return {type, n_out, n_in, bytes}; }
  std::size_t row_size() const { return *foredraft::row_bytes(type, n_in); }
};

/// Set d (and m) of every block of a quantized matrix.
template <typename Scale>
void set_scales(FileMatrix& matrix, Scale&& scale) {
  const auto layout = *foredraft::layout_of(matrix.type);
  for (std::size_t i = 0; i < matrix.bytes.size(); i += layout.bytes) {
    const std::size_t d = matrix.type == foredraft::TensorType::kQ6_K ? 208 : 0;
    const std::uint16_t bits = scale();
    std::memcpy(&matrix.bytes[i + d], &bits, 2);
    if (foredraft::cpu::has_min(matrix.type)) {
      const std::uint16_t m = scale();
      std::memcpy(&matrix.bytes[i + 2], &m, 2);
    }
  }
}

/// Fill the scales (and mins) of all sub-blocks of a K-quant: int8 in Q6_K, 6 bits in the others.
inline void set_sub_block_scales(FileMatrix& matrix, std::byte byte) {
  if (!foredraft::cpu::scaled_per_256(matrix.type)) return;
  const bool q6 = matrix.type == foredraft::TensorType::kQ6_K;
  const auto size = foredraft::layout_of(matrix.type)->bytes;
  for (std::size_t i = 0; i < matrix.bytes.size(); i += size) {
    std::memset(&matrix.bytes[i + (q6 ? 192 : 4)], std::to_integer<int>(byte), q6 ? 16 : 12);
  }
}

/// Random codes, which are valid for every format, and random scales of both signs. From block 65537 on they
/// repeat themselves: benchmarks make models of billions of weights.
inline FileMatrix random_matrix(foredraft::TensorType type, std::size_t n_out, std::size_t n_in,
                                unsigned seed) {
  constexpr std::size_t kDrawnBlocks = 65537;  // a prime: rows of matrices differ
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  FileMatrix matrix{type, n_out, n_in, {}};
  const std::size_t block = foredraft::layout_of(type)->bytes;
  const std::size_t bytes = n_out * *foredraft::row_bytes(type, n_in);
  matrix.bytes.resize(std::min(bytes, kDrawnBlocks * block));
  if (foredraft::quant_geometry(type).elements == 0) {
    for (std::size_t i = 0; i < matrix.bytes.size(); i += block) {
      const float value = normal(random);
      std::uint32_t bits;
      std::memcpy(&bits, &value, 4);
      if (type == foredraft::TensorType::kF16) bits = foredraft::float_to_half(value);
      if (type == foredraft::TensorType::kBF16) bits >>= 16;
      std::memcpy(&matrix.bytes[i], &bits, block);
    }
  } else {
    for (auto& byte : matrix.bytes) byte = static_cast<std::byte>(random());
    set_scales(matrix, [&] { return foredraft::float_to_half(0.02f * normal(random)); });
  }
  for (std::size_t drawn = matrix.bytes.size(); drawn < bytes; drawn = matrix.bytes.size()) {
    matrix.bytes.resize(std::min(bytes, 2 * drawn));
    std::memcpy(&matrix.bytes[drawn], matrix.bytes.data(), matrix.bytes.size() - drawn);
  }
  return matrix;
}

/// Columns to try for a format: one block, and a few that are not a multiple of what a panel's
/// block holds.
inline std::vector<std::size_t> columns_of(foredraft::TensorType type) {
  switch (foredraft::quant_geometry(type).elements) {
    case 256: return {256, 768};
    case 32: return {32, 160, 576};
    default: return {1, 37, 256};
  }
}

}  // namespace kernels_under_test
