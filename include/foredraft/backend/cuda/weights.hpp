#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/weight_format.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/dequantize.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0::cuda {

/// A matrix as kernels read it: tiles of 16 rows, each cut into steps of some columns. A lane's part
/// of a step lies together, and so do the lanes of a warp: what a warp loads is 512 bytes in a row,
/// and already in the order in which mma() wants it (see Place). Rows and columns behind the last
/// one are zeros.
struct Weights {
  const Words* steps = nullptr;       // [n_tiles, n_steps, loads, 32 lanes]
  const std::byte* scales = nullptr;  // [n_tiles, n_groups, 8] of scale_bytes(), or null
  int n_out = 0;
  int n_in = 0;
  WeightFormat format = WeightFormat::kF32;

  FOREDRAFT_HOST_DEVICE int n_tiles() const { return parts_of(n_out, kTileRows); }
  FOREDRAFT_HOST_DEVICE int n_steps() const { return parts_of(n_in, shape_of(format).columns); }
  /// Whole groups of whole steps.
  FOREDRAFT_HOST_DEVICE int n_groups() const {
    const FormatShape shape = shape_of(format);
    return shape.group == 0 ? 0 : n_steps() * (shape.columns / shape.group);
  }
};

/// Memory of a device for a matrix. @units bytes
inline double bytes_of(TensorType type, std::size_t n_out, std::size_t n_in) noexcept {
  const FormatShape shape = shape_of(format_for(type));
  const auto whole = [](std::size_t n, int part) {
    return static_cast<double>((n + idx(part) - 1) / idx(part));
  };
  const double steps = whole(n_in, shape.columns);
  const double groups = shape.group == 0 ? 0 : steps * (shape.columns / shape.group);
  return whole(n_out, kTileRows) *
         (steps * shape.loads * kWarp * static_cast<double>(sizeof(Words)) +
          groups * 8 * shape.scale_bytes());
}

/// Where a weight lies. Which of a step's columns belongs to which k of mma() is free, as long as
/// both factors agree: lane 4 g + t has columns 4t .. 4t+3 of each 16, of rows g and g + 8, so that
/// those four lie side by side in a row of activations (Operand).
struct Place {
  std::size_t step;  // of all tiles
  int lane;
  int part;   // 16 columns, of the step
  int word;   // of mma()'s A: 0 and 2 are row g, 1 and 3 row g + 8
  int upper;  // 1: the upper half of it

  /// The 16 bytes that hold it. @param load  of 2 where a lane loads twice, else 0
  FOREDRAFT_HOST_DEVICE std::size_t at(int loads, int load = 0) const {
    return (step * idx(loads) + idx(load)) * kWarp + idx(lane);
  }
};

FOREDRAFT_HOST_DEVICE inline Place place_of(const Weights& w, int row, int column) {
  const int columns = shape_of(w.format).columns;
  const int in_step = column % columns;
  return {idx(row / kTileRows) * idx(w.n_steps()) + idx(column / columns),
          row % 8 * 4 + in_step % kTileColumns / 4, in_step / kTileColumns,
          row % kTileRows / 8 + in_step % 4 / 2 * 2, in_step % 2};
}
/// The entry of scales that a weight belongs to.
FOREDRAFT_HOST_DEVICE inline std::size_t scale_place(const Weights& w, int row, int group) {
  return (idx(row / kTileRows) * idx(w.n_groups()) + idx(group)) * 8 + idx(row % 8);
}

/// A matrix on its way to a device.
struct WeightBytes {
  std::vector<std::byte> steps;
  std::vector<std::byte> scales;
};

namespace detail {

/// Put a file's rows where kernels look for them.
class WeightPacker {
 public:
  explicit WeightPacker(const TensorView& file)
      : file_(file),
        shape_{nullptr, nullptr, counted(file.n_out), counted(file.n_in), format_for(file.type)},
        loads_(shape_of(shape_.format).loads) {
    const auto tiles = idx(shape_.n_tiles());
    const auto scales = idx(shape_.n_groups()) * 8 * idx(shape_of(shape_.format).scale_bytes());
    // A nibble of zeros is not everywhere the code of 0, but where it is not there is its scale.
    packed_.steps.resize(tiles * idx(shape_.n_steps()) * idx(loads_) * kWarp * sizeof(Words));
    packed_.scales.resize(tiles * scales);
  }

  /// Rows of a tile share bytes, so a thread takes whole tiles.
  WeightBytes packed(int n_threads) && {
    const int share = parts_of(shape_.n_tiles(), n_threads) * kTileRows;
    std::vector<std::jthread> others;
    for (int first = share; first < shape_.n_out; first += share) {
      const auto put = [this, first, share] { put_rows(first, first + share); };
      try {
        others.emplace_back(put);
      } catch (const std::system_error&) {  // there is no thread to be had
        put();
      }
    }
    put_rows(0, share);
    others.clear();  // they are done
    return std::move(packed_);
  }

 private:
  void put_rows(int first, int end) {
    const std::size_t row_size = *row_bytes(file_.type, file_.n_in);
    for (int row = first; row < end && row < shape_.n_out; ++row) {
      const std::byte* const bytes = file_.data.data() + idx(row) * row_size;
      if (shape_.n_groups() == 0) {
        put_floats(row, bytes, row_size / file_.n_in);
      } else {
        put_blocks(row, bytes);
      }
    }
  }

  static int counted(std::size_t n) {
    if (n <= std::size_t{std::numeric_limits<int>::max()}) return static_cast<int>(n);
    throw Error(ErrorCode::kShapeMismatch, "a dimension of " + std::to_string(n), "below 2^31", "");
  }

  void put_floats(int row, const std::byte* from, std::size_t size) {
    for (int k = 0; k < shape_.n_in; ++k, from += size) {
      const Place place = place_of(shape_, row, k);
      if (size == sizeof(float)) {
        // A load holds four columns of one row.
        std::memcpy(word(place, place.word % 2) + idx(place.word / 2 * 8 + place.upper * 4), from,
                    size);
      } else {
        std::memcpy(word(place) + idx(place.word * 4 + place.upper * 2), from, size);
      }
    }
  }

  void put_blocks(int row, const std::byte* from) {
    const TypeLayout layout = *layout_of(file_.type);
    const int elements = static_cast<int>(layout.elements);
    const int group = shape_of(shape_.format).group;
    QuantBlock block;
    for (int first = 0; first < shape_.n_in; first += elements, from += layout.bytes) {
      decode_block(file_.type, from, block);
      for (int k = 0; k < elements; ++k) put_code(row, first + k, block.code[k]);
      for (int k = 0; k < elements; k += group) put_scale(row, (first + k) / group, block, k);
    }
  }

  void put_code(int row, int k, std::uint8_t code) {
    const Place place = place_of(shape_, row, k);
    if (has_nibbles(shape_.format)) {
      // Nibbles `word` and `word` + 4 of a word are the two halves of one of mma()'s.
      std::byte* const byte = word(place) + idx(place.part * 4 + place.upper * 2 + place.word / 2);
      *byte |= std::byte(code << (place.word % 2 * 4));
    } else {
      // Word `row / 8` of a part, four columns.
      const int at = place.part * 8 + place.word % 2 * 4 + place.word / 2 * 2 + place.upper;
      *(word(place) + idx(at)) = std::byte(code - quant_geometry(file_.type).offset);
    }
  }

  /// @param k  first of the group in its block
  void put_scale(int row, int group, const QuantBlock& block, int k) {
    const FormatShape shape = shape_of(shape_.format);
    const bool second = row % kTileRows / 8 != 0;
    std::byte* const to =
        packed_.scales.data() + scale_place(shape_, row, group) * idx(shape.scale_bytes());
    if (shape.half) {
      std::memcpy(to + (second ? 2 : 0), &block.d, 2);
      return;
    }
    // Products of binary16 numbers with codes of 8 bits, which a float holds exactly.
    const int sub = k / quant_geometry(file_.type).sub;
    const bool scaled = file_.type != TensorType::kQ4_1 && file_.type != TensorType::kQ5_1;
    const float d = half_to_float(block.d);
    const float m = half_to_float(block.m);
    const float scale = scaled ? d * static_cast<float>(block.scale[sub]) : d;
    const float bias = scaled ? -m * static_cast<float>(block.min[sub % 8]) : m;
    std::memcpy(to + (second ? 4 : 0), &scale, 4);
    if (shape.biased) std::memcpy(to + (second ? 12 : 8), &bias, 4);
  }

  std::byte* word(const Place& place, int load = 0) {
    return packed_.steps.data() + place.at(loads_, load) * sizeof(Words);
  }

  const TensorView& file_;
  Weights shape_;  // without its memory
  int loads_;
  WeightBytes packed_;
};

}  // namespace detail

/// @errors kShapeMismatch as checked_bytes()
/// @cost some nanoseconds a weight, divided by threads
inline WeightBytes pack_weights(const TensorView& weights, int n_threads) {
  (void)checked_bytes(weights);
  return detail::WeightPacker(weights).packed(n_threads);
}
/// The same on as many threads as there are processors, where weights are many.
inline WeightBytes pack_weights(const TensorView& weights) {
  constexpr std::size_t kOfThread = std::size_t{1} << 20;
  const auto processors = std::max(std::size_t{1}, idx(std::thread::hardware_concurrency()));
  const std::size_t threads = std::clamp(weights.n_out * weights.n_in / kOfThread, std::size_t{1},
                                         std::min(processors, std::size_t{64}));
  return pack_weights(weights, static_cast<int>(threads));
}

}  // namespace foredraft::inline v0::cuda
