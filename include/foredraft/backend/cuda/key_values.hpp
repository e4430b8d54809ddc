#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/half.hpp>

namespace foredraft::inline v0::cuda {

/// Keys and values of one layer of one sequence, as kernels reach them: row `r` of head `h` begins at
/// h * head_stride + r * d_head.
template <typename S>
struct KeyValues {
  S* k = nullptr;
  S* v = nullptr;
  std::size_t head_stride = 0;  // elements between two heads

  FOREDRAFT_HOST_DEVICE std::size_t at(int head, int row, int d_head) const {
    return static_cast<std::size_t>(head) * head_stride +
           static_cast<std::size_t>(row) * static_cast<std::size_t>(d_head);
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
  int place;     // row of the storage for its own key and value
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

template <typename T>
FOREDRAFT_DEVICE float load_element(T& t, const float* from) {
  return t.load(from);
}
template <typename T>
FOREDRAFT_DEVICE float load_element(T& t, const f16* from) {
  return t.half_to_float(t.load(reinterpret_cast<const std::uint16_t*>(from)));
}
/// Likewise of floats that are stored as halves.
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

template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, float* to, float value) {
  t.store(to, value);
}
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, f16* to, float value) {
  t.store(reinterpret_cast<std::uint16_t*>(to), t.float_to_half(value));
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
    int d_head;
    int first_column;  // columns of the layers before it
  };
  struct Args {
    S* k;
    S* v;
    const Layer* layers;  // [n_layers]
    int n_layers;
    int n_columns;  // of all layers: heads times dimensions
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
    const int d_head = t.load(&a.layers[i].d_head);
    const std::size_t at =
        t.load(&a.layers[i].first) +
        static_cast<std::size_t>(inside / d_head) * t.load(&a.layers[i].head_stride) +
        static_cast<std::size_t>(inside % d_head);
    for (int move = 0; move < a.n_moves; ++move) {
      const std::size_t from =
          at + static_cast<std::size_t>(a.from[move]) * static_cast<std::size_t>(d_head);
      const std::size_t to =
          at + static_cast<std::size_t>(a.to[move]) * static_cast<std::size_t>(d_head);
      t.store(a.k + to, t.load(a.k + from));
      t.store(a.v + to, t.load(a.v + from));
    }
  }
  static Grid grid(int n_columns) noexcept { return {parts_of(n_columns, kThreads)}; }
};

}  // namespace foredraft::inline v0::cuda
