#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace bench {

namespace fd = foredraft;

/// Rows of a weight file. Random bytes are valid blocks of every format; only the scales must be
/// kept finite.
inline std::vector<std::byte> random_rows(fd::TensorType type, std::size_t n_out,
                                          std::size_t n_in) {
  std::vector<std::byte> bytes(n_out * *fd::row_bytes(type, n_in));
  std::mt19937_64 random(n_out * 31 + n_in);
  for (auto& byte : bytes) byte = std::byte(random());
  const auto layout = *fd::layout_of(type);
  const std::uint16_t scale = fd::float_to_half(0.01f);
  for (std::size_t i = 0; i < bytes.size(); i += layout.bytes) {
    const std::size_t d = type == fd::TensorType::kQ6_K ? 208 : 0;
    if (layout.elements == 1) {
      const float value = static_cast<float>(static_cast<int>(random() % 255) - 127);
      const std::uint16_t half = fd::float_to_half(value);
      if (layout.bytes == 4) {
        std::memcpy(&bytes[i], &value, 4);
      } else {
        std::memcpy(&bytes[i], &half, 2);
      }
      continue;
    }
    std::memcpy(&bytes[i + d], &scale, 2);
    if (fd::cpu::has_min(type)) std::memcpy(&bytes[i + 2], &scale, 2);
  }
  return bytes;
}

/// As many copies of one random matrix as fill `bytes`, at least one.
inline std::vector<fd::cpu::PackedMatrix> random_matrices(fd::TensorType type, std::size_t n_out,
                                                          std::size_t n_in, std::size_t bytes) {
  const auto rows = random_rows(type, n_out, n_in);
  std::vector<fd::cpu::PackedMatrix> result;
  do {
    result.push_back(fd::cpu::PackedMatrix::allocate(type, n_out, n_in));
    result.back().pack_panels({type, n_out, n_in, rows}, 0, result.back().n_panels());
  } while (result.size() * result.back().bytes() < bytes);
  return result;
}

inline std::vector<float> random_floats(std::size_t n, float scale = 1.0f) {
  std::vector<float> values(n);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, scale);
  for (float& value : values) value = normal(random);
  return values;
}

/// Elements of a cache with storage type T.
template <typename T>
std::vector<T> random_elements(std::size_t n, float scale) {
  constexpr std::size_t kValues = fd::kValuesPerElement<T>;
  const auto values = random_floats(n * kValues, scale);
  std::vector<T> elements;
  elements.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (kValues == 1) elements.push_back(T(values[i]));
    if constexpr (kValues != 1) elements.push_back(T(&values[i * kValues]));
  }
  return elements;
}

/// Rows of random activations as a matrix product takes them.
class RandomActivations {
 public:
  RandomActivations(const fd::cpu::KernelTable& kernels, fd::TensorType weights, int n_rows,
                    std::size_t n_in)
      : format_(fd::cpu::activation_format(weights)),
        // 64-byte aligned memory without another allocator: a few floats are skipped.
        memory_(fd::cpu::Activations::bytes(format_, n_rows, static_cast<int>(n_in)) / 4 + 32) {
    view_ = {format_, n_rows, static_cast<int>(n_in),
             reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) &
                                          ~std::uintptr_t{63})};
    const auto values = random_floats(n_in * fd::idx(n_rows));
    for (int row = 0; row < n_rows; ++row) {
      kernels.quantize_row(values.data() + fd::idx(row) * n_in, view_, row, 0, view_.n_in);
    }
  }
  RandomActivations(const RandomActivations&) = delete;
  RandomActivations& operator=(const RandomActivations&) = delete;

  const fd::cpu::Activations& view() const noexcept { return view_; }

 private:
  fd::cpu::ActivationFormat format_;
  std::vector<float> memory_;
  fd::cpu::Activations view_;
};

/// The kernels of an instruction set, of those that foredraft::compiled holds.
inline const fd::cpu::KernelTable& kernels_of(fd::cpu::Isa isa) {
  const auto tables = fd::cpu::available_tables();
  for (const fd::cpu::KernelTable* table : tables) {
    if (table->isa == isa) return *table;
  }
  return *tables.front();
}

}  // namespace bench
