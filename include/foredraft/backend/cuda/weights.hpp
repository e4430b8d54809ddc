#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cuda {

/// How weights lie in a device's memory. Each format of a file goes into the first that holds its
/// values exactly; formats that have none of their own here become kF32, which always does.
enum class WeightFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8,  ///< int8 codes, one binary16 scale for 32 of them: Q8_0
  kQ4,  ///< 4-bit codes from -8 on, likewise: Q4_0
};

constexpr WeightFormat format_for(TensorType type) noexcept {
  switch (type) {
    case TensorType::kF16: return WeightFormat::kF16;
    case TensorType::kBF16: return WeightFormat::kBF16;
    case TensorType::kQ8_0: return WeightFormat::kQ8;
    case TensorType::kQ4_0: return WeightFormat::kQ4;
    default: return WeightFormat::kF32;
  }
}

/// Weights that a thread loads at once: as many as 16 bytes hold.
FOREDRAFT_HOST_DEVICE constexpr int chunk_of(WeightFormat format) noexcept {
  switch (format) {
    case WeightFormat::kF32: return 4;
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return 8;
    case WeightFormat::kQ8: return 16;
    case WeightFormat::kQ4: return 32;
  }
  return 0;
}
template <WeightFormat F>
inline constexpr int kChunk = chunk_of(F);

inline constexpr int kScaled = 32;  // weights that share a scale

/// `f.operator()<format>()`: a format that is known when a program runs, as a constant.
template <typename F>
constexpr void with_format(WeightFormat format, F&& f) {
  switch (format) {
    case WeightFormat::kF32: return f.template operator()<WeightFormat::kF32>();
    case WeightFormat::kF16: return f.template operator()<WeightFormat::kF16>();
    case WeightFormat::kBF16: return f.template operator()<WeightFormat::kBF16>();
    case WeightFormat::kQ8: return f.template operator()<WeightFormat::kQ8>();
    case WeightFormat::kQ4: return f.template operator()<WeightFormat::kQ4>();
  }
}

/// A matrix as kernels read it. A row is whole chunks, the last one filled with zeros.
struct Weights {
  const std::byte* chunks = nullptr;      // [n_out, n_chunks] of 16 bytes
  const std::uint16_t* scales = nullptr;  // [n_out, n_in / kScaled] binary16, or null
  int n_out = 0;
  int n_in = 0;
  WeightFormat format = WeightFormat::kF32;

  FOREDRAFT_HOST_DEVICE int n_chunks() const { return parts_of(n_in, chunk_of(format)); }
};

/// A matrix on its way to a device.
struct WeightBytes {
  std::vector<std::byte> chunks;
  std::vector<std::uint16_t> scales;
};

/// The bytes of one row of a file as chunks, and its scales.
/// @shape row [row_bytes(type, n_in)], chunks [n_chunks * 16], zeros; scales [n_in / kScaled] or none
inline void pack_row(const TensorView& weights, std::size_t row, std::byte* chunks,
                     std::uint16_t* scales) noexcept {
  const std::size_t row_size = *row_bytes(weights.type, weights.n_in);
  const std::byte* from = weights.data.data() + row * row_size;
  const WeightFormat format = format_for(weights.type);
  if (format == WeightFormat::kF16 || format == WeightFormat::kBF16) {
    std::memcpy(chunks, from, row_size);
  } else if (format == WeightFormat::kF32) {
    // A chunk of floats may be filled up; what lies behind the row is not written.
    dequantize_row(weights.type, from, weights.n_in, reinterpret_cast<float*>(chunks));
  } else {
    const std::size_t codes = layout_of(weights.type)->bytes - sizeof(std::uint16_t);
    for (std::size_t i = 0; i < weights.n_in / idx(kScaled); ++i) {
      std::memcpy(&scales[i], from, sizeof(std::uint16_t));
      std::memcpy(chunks + i * codes, from + sizeof(std::uint16_t), codes);
      from += sizeof(std::uint16_t) + codes;
    }
  }
}

/// @errors kShapeMismatch as checked_bytes()
inline WeightBytes pack_weights(const TensorView& weights) {
  (void)checked_bytes(weights);
  const WeightFormat format = format_for(weights.type);
  const bool scaled = format == WeightFormat::kQ8 || format == WeightFormat::kQ4;
  const std::size_t chunk = idx(chunk_of(format));
  const std::size_t row = (weights.n_in + chunk - 1) / chunk * 16;
  const std::size_t scales = scaled ? weights.n_in / idx(kScaled) : 0;
  WeightBytes packed{std::vector<std::byte>(weights.n_out * row),
                     std::vector<std::uint16_t>(weights.n_out * scales)};
  for (std::size_t n = 0; n < weights.n_out; ++n) {
    pack_row(weights, n, packed.chunks.data() + n * row, packed.scales.data() + n * scales);
  }
  return packed;
}

/// 16 bytes, loaded at once.
struct alignas(16) Words {
  std::uint32_t v[4];
};

FOREDRAFT_DEVICE inline float float_of_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// The values of one chunk. Products of a scale and a code are exact.
/// @shape w [kChunk<F>], written
template <WeightFormat F, typename T>
FOREDRAFT_DEVICE void load_chunk(T& t, const Weights& m, int row, int chunk,
                                 float (&w)[kChunk<F>]) {
  const auto at =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(parts_of(m.n_in, kChunk<F>)) +
      static_cast<std::size_t>(chunk);
  const Words words = t.load(reinterpret_cast<const Words*>(m.chunks) + at);
  if constexpr (F == WeightFormat::kF32) {
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) w[i] = float_of_bits(words.v[i]);
  } else if constexpr (F == WeightFormat::kF16 || F == WeightFormat::kBF16) {
    FOREDRAFT_UNROLL
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t half = i % 2 == 0 ? words.v[i / 2] & 0xffffu : words.v[i / 2] >> 16;
      w[i] = F == WeightFormat::kF16 ? t.half_to_float(static_cast<std::uint16_t>(half))
                                     : float_of_bits(half << 16);
    }
  } else {
    const int scale = chunk * kChunk<F> / kScaled;
    const float d = t.half_to_float(
        t.load(m.scales +
               static_cast<std::size_t>(row) * static_cast<std::size_t>(m.n_in / kScaled) + scale));
    FOREDRAFT_UNROLL
    for (int i = 0; i < kChunk<F>; ++i) {
      if constexpr (F == WeightFormat::kQ8) {
        const auto code = static_cast<std::int8_t>(words.v[i / 4] >> (8 * (i % 4)) & 0xffu);
        w[i] = t.mul(d, static_cast<float>(code));
      } else {
        // Byte i of a block holds weight i in its low bits and weight i + 16 in its high bits.
        const int byte = i % 16;
        const std::uint32_t code = words.v[byte / 4] >> (8 * (byte % 4) + (i < 16 ? 0 : 4)) & 15u;
        w[i] = t.mul(d, static_cast<float>(static_cast<int>(code) - 8));
      }
    }
  }
}

}  // namespace foredraft::inline v0::cuda
