#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0::cuda {

/// Where the rows of a layer lie: what kernels know of a RowRing.
struct Ring {
  int length = 0;  // 0: each row has a place of its own
  int pinned = 0;  // rows before it

  FOREDRAFT_HOST_DEVICE int place(int row) const {
    return length == 0 || row < pinned ? row : pinned + (row - pinned) % length;
  }
};

/// Keys and values of one layer of one sequence, as kernels reach them: the row in place `p` of head
/// `h` begins at element h * head_stride + p * d_head; in q8_0, p * d_head / 32.
/// @tparam S  float, f16 or q8_0
template <typename S>
struct KeyValues {
  S* k = nullptr;
  S* v = nullptr;
  std::size_t head_stride = 0;  // elements between two heads
  Ring ring = {};
  int sinks = 0;  // first positions that a row with a window sees besides

  FOREDRAFT_HOST_DEVICE std::size_t at(int head, int place, int d_head) const {
    return static_cast<std::size_t>(head) * head_stride +
           static_cast<std::size_t>(place) *
               static_cast<std::size_t>(d_head / kValuesPerElement<S>);
  }
};

/// Sequences that one launch serves: their layers travel with its arguments. More sequences take
/// more launches.
inline constexpr int kSequences = 32;

template <typename S>
struct SequenceLayers {
  KeyValues<S> of[kSequences] = {};
};

/// What kernels know of a row of the pass: SequenceRows, written out for each row.
struct RowPlace {
  int row;       // of the pass
  int sequence;  // of those in the launch
  int own_row;   // of the storage, for its own key and value
  int size;      // committed positions of the sequence
  int visible;   // positions that it sees, without a window
  int path;      // in the nodes of all paths, first of its own; -1 where staged nodes are a chain
};

/// The storage row of a position that a row sees.
/// @param nodes  of all paths of the pass
template <typename T>
FOREDRAFT_DEVICE int storage_row(T& t, const RowPlace& row, const int* nodes, int position) {
  if (position < row.size || row.path < 0) return position;
  return row.size + t.load(nodes + row.path + position - row.size);
}

/// Value d of a row.
template <typename T>
FOREDRAFT_DEVICE float load_element(T& t, const float* row, int d) {
  return t.load(row + d);
}
template <typename T>
FOREDRAFT_DEVICE float load_element(T& t, const f16* row, int d) {
  return t.half_to_float(t.load(reinterpret_cast<const std::uint16_t*>(row) + d));
}
template <typename T>
FOREDRAFT_DEVICE float load_element(T& t, const q8_0* row, int d) {
  const q8_0* const block = row + d / q8_0::kValues;
  const float scale = t.half_to_float(t.load(&block->scale.bits));
  return t.mul(scale, static_cast<float>(t.load(block->codes + d % q8_0::kValues)));
}
/// Values d .. d + 3 of a row of n, as of a row of floats.
template <typename T>
FOREDRAFT_DEVICE Four load_elements(T& t, const f16* row, int d, int n) {
  struct alignas(8) Halves {
    std::uint16_t v[4];
  } halves = {};
  const auto* const from = reinterpret_cast<const std::uint16_t*>(row) + d;
  if (n % 4 == 0 && d < n) {
    halves = t.load(reinterpret_cast<const Halves*>(from));
  } else {
    FOREDRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (d + i < n) halves.v[i] = t.load(from + i);
    }
  }
  Four four;
  FOREDRAFT_UNROLL
  for (int i = 0; i < 4; ++i) four.v[i] = t.half_to_float(halves.v[i]);
  return four;
}

/// A row in q8_0 is whole blocks, so d is in it. Codes are aligned like the scale: by two bytes.
template <typename T>
FOREDRAFT_DEVICE Four load_elements(T& t, const q8_0* row, int d, int /*n*/) {
  const q8_0* const block = row + d / q8_0::kValues;
  const float scale = t.half_to_float(t.load(&block->scale.bits));
  const auto* const from = reinterpret_cast<const std::uint16_t*>(block->codes + d % q8_0::kValues);
  const std::uint16_t pairs[2] = {t.load(from), t.load(from + 1)};
  Four four;
  FOREDRAFT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto code = static_cast<std::int8_t>(pairs[i / 2] >> i % 2 * 8);
    four.v[i] = t.mul(scale, static_cast<float>(code));
  }
  return four;
}

/// Store value d of a row. Lane l of a warp has d = l modulo 32, and all of them take part.
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, float* row, int d, float value) {
  t.store(row + d, value);
}
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, f16* row, int d, float value) {
  t.store(reinterpret_cast<std::uint16_t*>(row) + d, t.float_to_half(value));
}
/// The warp's values become a block, that of q8_0(values) to the bit: see quantize_q8_0().
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, q8_0* row, int d, float value) {
  constexpr float kMost = 127.0f * 65504.0f;
  constexpr std::uint16_t kNotANumber = 0x7e00;
  const float magnitude = value < 0.0f ? -value : value;
  const bool held = t.ballot(!(magnitude <= kMost)) == 0;
  const float greatest = t.warp_max(magnitude);
  std::uint16_t bits = t.float_to_half(t.divide(greatest, 127.0f));
  if (greatest > t.mul(127.5f, t.half_to_float(bits))) ++bits;
  const float scale = t.half_to_float(bits);
  const float inverse = scale == 0.0f ? 0.0f : t.divide(1.0f, scale);
  const float shifted = held ? t.add(t.mul(value, inverse), 128.5f) : 128.0f;
  int code = static_cast<int>(shifted) - 128;
  code = code < -127 ? -127 : code;
  code = code > 127 ? 127 : code;
  const auto low = static_cast<std::uint32_t>(code) & 0xffu;
  const std::uint32_t high = t.shuffle_xor(low, 1);
  q8_0* const block = row + d / q8_0::kValues;
  const int lane = d % q8_0::kValues;
  if (lane == 0) t.store(&block->scale.bits, held ? bits : kNotANumber);
  if (lane % 2 != 0) return;
  t.store(reinterpret_cast<std::uint16_t*>(block->codes) + lane / 2,
          static_cast<std::uint16_t>(low | high << 8));
}

/// Rows that change their place, in all layers and heads of a storage, one move after the other. A
/// thread makes all moves of its own column, so their order holds without a barrier.
template <typename S>
struct MoveRows {
  static constexpr const char* kName = "move_rows";
  static constexpr int kThreads = 128;
  static constexpr int kMost = 64;  // moves of one launch

  struct Layer {
    std::size_t first;  // element of the layer's first head, in keys and in values
    std::size_t head_stride;
    int n_heads;
    int row_elements;
    int first_column;  // columns of the layers before it
    Ring ring;
  };
  struct Args {
    S* k;
    S* v;
    const Layer* layers;  // [n_layers]
    int n_layers;
    int n_columns;  // of all layers: heads times elements of a row
    int n_moves;
    int from[kMost];
    int to[kMost];
  };

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int column = t.block_x() * kThreads + t.thread();
    if (column >= a.n_columns) return;
    int i = 0;
    while (i + 1 < a.n_layers && t.load(&a.layers[i + 1].first_column) <= column) ++i;
    const int inside = column - t.load(&a.layers[i].first_column);
    const int row = t.load(&a.layers[i].row_elements);
    const Ring ring = t.load(&a.layers[i].ring);
    const std::size_t at =
        t.load(&a.layers[i].first) +
        static_cast<std::size_t>(inside / row) * t.load(&a.layers[i].head_stride) +
        static_cast<std::size_t>(inside % row);
    for (int move = 0; move < a.n_moves; ++move) {
      const std::size_t from =
          at + static_cast<std::size_t>(ring.place(a.from[move])) * static_cast<std::size_t>(row);
      const std::size_t to =
          at + static_cast<std::size_t>(ring.place(a.to[move])) * static_cast<std::size_t>(row);
      t.store(a.k + to, t.load(a.k + from));
      t.store(a.v + to, t.load(a.v + from));
    }
  }
  static Grid grid(int n_columns) noexcept { return {parts_of(n_columns, kThreads)}; }
};

}  // namespace foredraft::inline v0::cuda
