#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/ring_place.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cuda {

/// Where the rows of a layer lie: what kernels know of a RowRing.
struct Ring {
  int length = 0;  // 0: each row has a place of its own
  int pinned = 0;  // rows before it

  FOREDRAFT_HOST_DEVICE int place(int row) const { return ring_place(row, pinned, length); }
};

/// Keys, or values, of one layer of one sequence, in a format of their own.
struct StoredRows {
  std::byte* data = nullptr;
  std::size_t head_bytes = 0;  // between two heads
  int row_bytes = 0;           // between two rows
  RowFormat format = RowFormat::kF32;

  /// The elements of a row in its place. @tparam S  those of the format
  template <typename S>
  FOREDRAFT_HOST_DEVICE S* row(int head, int place) const {
    return reinterpret_cast<S*>(data + idx(head) * head_bytes + idx(place) * idx(row_bytes));
  }

  /// Chunks of a row: see kInChunk.
  FOREDRAFT_HOST_DEVICE int chunks(int d_head) const {
    const int bits = format == RowFormat::kF32 ? 2 : 3;  // a division would take long
    return (d_head + (1 << bits) - 1) >> bits;
  }
  /// Whether each lies where 16 bytes can be loaded at once.
  FOREDRAFT_HOST_DEVICE bool aligned() const {
    return format != RowFormat::kQ8_0 &&
           (reinterpret_cast<std::uintptr_t>(data) | head_bytes | idx(row_bytes)) % 16 == 0;
  }
};

/// Both, as kernels reach them.
struct KeyValues {
  StoredRows k;
  StoredRows v;
  Ring ring = {};
  int sinks = 0;  // first positions that a row with a window sees besides
};

/// Sequences that one launch serves: their layers travel with its arguments. More sequences take
/// more launches.
inline constexpr int kSequences = 32;

struct SequenceLayers {
  KeyValues of[kSequences] = {};
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

/// with_element() on a device: f(Element<S>()) with the element type of a format, which is one for all
/// threads of a block.
template <typename F>
FOREDRAFT_DEVICE void with_element_of(RowFormat format, F&& f) {
  switch (format) {
    case RowFormat::kF32: return f(Element<float>());
    case RowFormat::kF16: return f(Element<f16>());
    case RowFormat::kBF16: return f(Element<bf16>());
    case RowFormat::kQ8_0: break;
  }
  f(Element<q8_0>());
}

/// Values of a chunk: what a thread loads of a row at once, 16 bytes of it. Of q8_0 it is eight codes, in
/// words 0 and 1, and their scale in word 2.
template <typename S>
inline constexpr int kInChunk = 16 / static_cast<int>(sizeof(S));
template <>
inline constexpr int kInChunk<q8_0> = 8;

/// Chunk i of a row whose chunks lie anywhere; zeros behind the row's end.
/// @see StoredRows::aligned
template <typename T>
FOREDRAFT_DEVICE Words load_apart(T& t, const StoredRows& rows, const std::byte* row, int i) {
  Words chunk = {};
  const auto load_half = [&](const std::byte* from, int at) {
    const auto half = t.load(reinterpret_cast<const std::uint16_t*>(from + at));
    chunk.v[at / 4] |= std::uint32_t{half} << at % 4 * 8;
  };
  if (rows.format == RowFormat::kQ8_0) {
    const std::byte* const block = row + i / 4 * static_cast<int>(sizeof(q8_0));
    FOREDRAFT_UNROLL
    for (int at = 0; at < 8; at += 2) load_half(block + 2 + i % 4 * 8, at);
    chunk.v[2] = t.load(reinterpret_cast<const std::uint16_t*>(block));
    return chunk;
  }
  const int bytes = rows.row_bytes - i * 16;
  FOREDRAFT_UNROLL
  for (int at = 0; at < 16; at += 2) {
    if (at < bytes) load_half(row + i * 16, at);
  }
  return chunk;
}

/// Values 4 i .. 4 i + 3 of a chunk in f32 or q8_0.
template <typename S, typename T>
FOREDRAFT_DEVICE Four four_of(T& t, const Words& chunk, int i) {
  Four four;
  FOREDRAFT_UNROLL
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<S, float>) {
      four.v[j] = float_of_bits(chunk.v[j]);
    } else {
      static_assert(std::is_same_v<S, q8_0>);
      const auto code = static_cast<std::int8_t>(chunk.v[i] >> j * 8);
      four.v[j] =
          t.mul(t.half_to_float(static_cast<std::uint16_t>(chunk.v[2])), static_cast<float>(code));
    }
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
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, bf16* row, int d, float value) {
  t.store(reinterpret_cast<std::uint16_t*>(row) + d,
          static_cast<std::uint16_t>(t.bf16_pair(value, 0.0f)));
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

/// Likewise for a row in the format of its storage.
template <typename T>
FOREDRAFT_DEVICE void store_element(T& t, const StoredRows& rows, int head, int place, int d,
                                    float value) {
  with_element_of(rows.format, [&]<typename S>(Element<S>) {
    store_element(t, rows.row<S>(head, place), d, value);
  });
}

/// Rows that change their place, in all layers and heads of a storage, keys and values, one move after
/// the other. A thread makes all moves of its own column, two bytes of a row, so their order holds
/// without a barrier.
struct MoveRows {
  static constexpr const char* kName = "move_rows";
  static constexpr int kThreads = 128;
  static constexpr int kMost = 64;   // moves of one launch
  static constexpr int kColumn = 2;  // bytes, which every format's rows are multiples of

  /// Keys, or values, of a layer.
  struct Part {
    std::byte* data;
    std::size_t head_bytes;
    int row_bytes;
    int first_column;  // columns of the parts before it
    Ring ring;
  };
  struct Args {
    const Part* parts;  // [n_parts]
    int n_parts;
    int n_columns;  // of all parts
    int n_moves;
    int from[kMost];
    int to[kMost];
  };

  static Grid grid(int n_columns) noexcept { return {parts_of(n_columns, kThreads)}; }

  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int column = t.block_x() * kThreads + t.thread();
    if (column >= a.n_columns) return;
    int i = 0;
    while (i + 1 < a.n_parts && t.load(&a.parts[i + 1].first_column) <= column) ++i;
    const int inside = column - t.load(&a.parts[i].first_column);
    const int columns = t.load(&a.parts[i].row_bytes) / kColumn;  // of a row
    const Ring ring = t.load(&a.parts[i].ring);
    auto* const head = reinterpret_cast<std::uint16_t*>(
        t.load(&a.parts[i].data) + idx(inside / columns) * t.load(&a.parts[i].head_bytes));
    const auto place = [&](int row) {
      return head + idx(ring.place(row)) * idx(columns) + inside % columns;
    };
    for (int move = 0; move < a.n_moves; ++move) {
      t.store(place(a.to[move]), t.load(place(a.from[move])));
    }
  }
};

}  // namespace foredraft::inline v0::cuda
