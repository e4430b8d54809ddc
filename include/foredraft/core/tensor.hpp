#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <foredraft/core/checked.hpp>

namespace foredraft::inline v0 {

/// Storage formats of weights, with the numbers that GGUF files use for them.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

/// `f.operator()<type>()`: a format that is known when a program runs, as a constant. Nothing where
/// the number is none of ours. Always inlined, because kernels of all instruction sets use it.
template <typename F>
[[gnu::always_inline]] constexpr void with_type(TensorType type, F&& f) {
  switch (type) {
    case TensorType::kF32: f.template operator()<TensorType::kF32>(); return;
    case TensorType::kF16: f.template operator()<TensorType::kF16>(); return;
    case TensorType::kBF16: f.template operator()<TensorType::kBF16>(); return;
    case TensorType::kQ4_0: f.template operator()<TensorType::kQ4_0>(); return;
    case TensorType::kQ4_1: f.template operator()<TensorType::kQ4_1>(); return;
    case TensorType::kQ5_0: f.template operator()<TensorType::kQ5_0>(); return;
    case TensorType::kQ5_1: f.template operator()<TensorType::kQ5_1>(); return;
    case TensorType::kQ8_0: f.template operator()<TensorType::kQ8_0>(); return;
    case TensorType::kQ4_K: f.template operator()<TensorType::kQ4_K>(); return;
    case TensorType::kQ5_K: f.template operator()<TensorType::kQ5_K>(); return;
    case TensorType::kQ6_K: f.template operator()<TensorType::kQ6_K>(); return;
  }
}

/// Block geometry of a format: `elements` consecutive values of a row are stored in `bytes` bytes.
struct TypeLayout {
  std::string_view name;
  std::size_t elements;
  std::size_t bytes;
};

/// Layout of a format, or nothing where the number is none of ours.
constexpr std::optional<TypeLayout> layout_of(TensorType type) noexcept {
  switch (type) {
    case TensorType::kF32: return TypeLayout{"F32", 1, 4};
    case TensorType::kF16: return TypeLayout{"F16", 1, 2};
    case TensorType::kBF16: return TypeLayout{"BF16", 1, 2};
    case TensorType::kQ4_0: return TypeLayout{"Q4_0", 32, 18};
    case TensorType::kQ4_1: return TypeLayout{"Q4_1", 32, 20};
    case TensorType::kQ5_0: return TypeLayout{"Q5_0", 32, 22};
    case TensorType::kQ5_1: return TypeLayout{"Q5_1", 32, 24};
    case TensorType::kQ8_0: return TypeLayout{"Q8_0", 32, 34};
    case TensorType::kQ4_K: return TypeLayout{"Q4_K", 256, 144};
    case TensorType::kQ5_K: return TypeLayout{"Q5_K", 256, 176};
    case TensorType::kQ6_K: return TypeLayout{"Q6_K", 256, 210};
  }
  return std::nullopt;
}

/// Bytes of one row of `n_in` values; nothing where the type is unknown, n_in is not a multiple of
/// the block, or the product wraps.
constexpr std::optional<std::size_t> row_bytes(TensorType type, std::size_t n_in) noexcept {
  const auto layout = layout_of(type);
  if (!layout || n_in % layout->elements != 0) return std::nullopt;
  return checked_mul(n_in / layout->elements, layout->bytes);
}

/// A weight matrix as it lies in a file: row after row, read-only, not owned.
/// @shape [n_out, n_in]; a vector has n_out == 1
struct TensorView {
  TensorType type = TensorType::kF32;
  std::size_t n_out = 0;
  std::size_t n_in = 0;
  std::span<const std::byte> data;
  /// All of the mapped file that data is a part of: what has been read may be given back
  /// (drop_behind.hpp). Empty where the memory is of another kind.
  std::span<const std::byte> mapping = {};
};

}  // namespace foredraft::inline v0
