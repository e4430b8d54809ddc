#pragma once

#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What a lane loads of a step.
template <WeightFormat F>
struct Step {
  Words words[kShape<F>.loads];
};

/// @param from  the step: of a matrix, or a copy of it
template <WeightFormat F, typename T>
FOREDRAFT_DEVICE Step<F> load_step(T& t, const Words* from) {
  Step<F> loaded;
  FOREDRAFT_UNROLL
  for (int i = 0; i < kShape<F>.loads; ++i) loaded.words[i] = t.load(from + i * kWarp + lane_of(t));
  return loaded;
}

/// Weights of 16 x 16 as factors of mma(): their sum is the weight, or its code. Every number that a
/// file can hold is a sum of so many in bf16, but for floats that underflow.
template <WeightFormat F>
struct Planes {
  Words of[kShape<F>.planes];
};

/// @param part  16 columns, of the step
template <WeightFormat F, typename T>
FOREDRAFT_DEVICE Planes<F> planes_of(T& t, const Step<F>& step, int part) {
  Planes<F> planes;
  if constexpr (F == WeightFormat::kBF16) {
    planes.of[0] = step.words[0];
  } else if constexpr (has_nibbles(F)) {
    // Behind 0x4300, the bf16 of 128, a nibble is one of the last digits: so 128 + code, in two.
    constexpr std::uint32_t kLess = nibble_offset(F) == 8 ? 0xc308c308u : 0xc300c300u;
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t more =
          t.and_or(step.words[0].v[part] >> (4 * i), 0x000f000fu, 0x43004300u);
      planes.of[0].v[i] = t.add_bf16(more, kLess);
    }
  } else {
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      // Columns 2 (i / 2) and the next of the lane's four, of row g or g + 8.
      float first, second;
      if constexpr (F == WeightFormat::kF32) {
        first = float_of_bits(step.words[i % 2].v[i / 2 * 2]);
        second = float_of_bits(step.words[i % 2].v[i / 2 * 2 + 1]);
      } else if constexpr (F == WeightFormat::kF16) {
        const std::uint32_t halves = step.words[0].v[i];
        first = t.half_to_float(static_cast<std::uint16_t>(halves & 0xffffu));
        second = t.half_to_float(static_cast<std::uint16_t>(halves >> 16));
      } else {
        const std::uint32_t codes = step.words[0].v[part * 2 + i % 2] >> (16 * (i / 2));
        first = static_cast<float>(static_cast<std::int8_t>(codes & 0xffu));
        second = static_cast<float>(static_cast<std::int8_t>(codes >> 8 & 0xffu));
      }
      FOREDRAFT_UNROLL
      for (int plane = 0; plane < kShape<F>.planes; ++plane) {
        const std::uint32_t pair = t.bf16_pair(first, second);
        planes.of[plane].v[i] = pair;
        first = t.add(first, -low_of(pair));
        second = t.add(second, -high_of(pair));
      }
    }
  }
  return planes;
}

/// Scales and biases of a group, for rows g and g + 8.
struct GroupScale {
  float scale[2] = {};
  float bias[2] = {};
};

/// They as they lie in memory.
template <WeightFormat F>
using ScaleEntry = std::conditional_t<kShape<F>.half, std::uint32_t,
                                      std::conditional_t<kShape<F>.biased, Four, Two>>;

/// @param tile   of the matrix
/// @param g      row of the tile, below 8
template <WeightFormat F>
FOREDRAFT_HOST_DEVICE const ScaleEntry<F>* scale_entry(const Weights& w, int tile, int group,
                                                       int g) {
  return reinterpret_cast<const ScaleEntry<F>*>(w.scales) +
         scale_place(w, tile * kTileRows + g, group);
}

template <WeightFormat F, typename T>
FOREDRAFT_DEVICE GroupScale scale_of(T& t, const ScaleEntry<F>& entry) {
  if constexpr (kShape<F>.half) {
    return {{t.half_to_float(static_cast<std::uint16_t>(entry & 0xffffu)),
             t.half_to_float(static_cast<std::uint16_t>(entry >> 16))},
            {}};
  } else if constexpr (kShape<F>.biased) {
    return {{entry.v[0], entry.v[1]}, {entry.v[2], entry.v[3]}};
  } else {
    return {{entry.v[0], entry.v[1]}, {}};
  }
}

/// One weight, for whoever wants a row and no product. It is the file's, to the bit.
template <WeightFormat F, typename T>
FOREDRAFT_DEVICE float weight_at(T& t, const Weights& w, int row, int column) {
  constexpr FormatShape kOf = kShape<F>;
  const Place place = place_of(w, row, column);
  const int load = F == WeightFormat::kF32 ? place.word % 2 : 0;
  const Words words = t.load(w.steps + place.at(kOf.loads, load));
  const int column_of_four = place.word / 2 * 2 + place.upper;
  if constexpr (F == WeightFormat::kF32) {
    return float_of_bits(words.v[column_of_four]);
  } else if constexpr (F == WeightFormat::kF16 || F == WeightFormat::kBF16) {
    const std::uint32_t half = words.v[place.word] >> (16 * place.upper) & 0xffffu;
    return F == WeightFormat::kF16 ? t.half_to_float(static_cast<std::uint16_t>(half))
                                   : float_of_bits(half << 16);
  } else {
    int code;
    if constexpr (has_nibbles(F)) {
      const std::uint32_t nibbles = words.v[place.part] >> (4 * place.word + 16 * place.upper);
      code = static_cast<int>(nibbles & 15u) - nibble_offset(F);
    } else {
      const std::uint32_t codes = words.v[place.part * 2 + place.word % 2];
      code = static_cast<std::int8_t>(codes >> (8 * column_of_four) & 0xffu);
    }
    const GroupScale of =
        scale_of<F>(t, t.load(scale_entry<F>(w, row / kTileRows, column / kOf.group, row % 8)));
    const bool second = row % kTileRows / 8 != 0;
    const float scale = second ? of.scale[1] : of.scale[0];
    const float bias = second ? of.bias[1] : of.bias[0];
    return t.add(t.mul(scale, static_cast<float>(code)), bias);
  }
}

}  // namespace foredraft::inline v0::cuda
