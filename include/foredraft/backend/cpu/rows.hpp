#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/ring_place.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/backend/row_ring.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Keys, or values, of all heads in one layer. Row r of head h begins at row(h, r). Blocks of
/// kKeyBlock rows begin at multiples of 64 bytes.
struct HeadRows {
  std::byte* data = nullptr;
  RowFormat format = RowFormat::kF32;
  std::size_t row_bytes = 0;   // between two rows
  std::size_t head_bytes = 0;  // between two heads

  std::byte* row(int head, int place) const noexcept {
    return data + idx(head) * head_bytes + idx(place) * row_bytes;
  }
  /// Of keys: the block of place `place`.
  std::byte* block(int head, int place) const noexcept { return row(head, key_block_of(place)); }
};

/// Keys and values as the kernels of Cpu read them, in the host's memory, each in a format of its
/// own: the one that the shape asks for. A head's rows follow each other; of keys, blocks of them,
/// see key_blocks.hpp.
///
/// Layers with a window may be rings: see RowRing.
/// @cost commit and truncate O(1), and a copy of the rows that change their place
/// @see Rows, whose formats belong to the type
class AnyRows {
 public:
  // Of snapshots.
  using value_type = std::byte;

  /// Keys and values of one layer. A row lies in its place(), in `k` as a key of that place's block.
  struct Layer {
    HeadRows k;
    HeadRows v;
    int size = 0;    // committed rows
    int ring = 0;    // rows that lie in the places of others; 0: each has its own
    int sinks = 0;   // first rows that others see besides those in their window
    int pinned = 0;  // rows before the ring, whole blocks

    RowFormats formats() const noexcept { return {k.format, v.format}; }
    /// The place in which row `row` lies.
    int place(int row) const noexcept { return ring_place(row, pinned, ring); }

    // For backends that compute with floats, one row at a time. @shape key, value [d_head]
    void put(int head, int row, std::span<const float> key, std::span<const float> value) noexcept {
      std::vector<std::byte> stored(k.row_bytes);
      store_row(k.format, key, stored.data());
      put_key(head, row, static_cast<int>(key.size()), stored.data());
      store_row(v.format, value, v.row(head, place(row)));
    }
    void get_key(int head, int row, std::span<float> key) const noexcept {
      std::vector<std::byte> stored(k.row_bytes);
      const int at = place(row);
      with_element(k.format, [&]<typename T>(Element<T>) {
        load_key<T>(k.block(head, at), at % kKeyBlock, static_cast<int>(key.size()), stored.data());
      });
      load_row(k.format, stored.data(), key);
    }
    /// A key as it is stored.
    void put_key(int head, int row, int d_head, const std::byte* key) const noexcept {
      const int at = place(row);
      with_element(k.format, [&]<typename T>(Element<T>) {
        store_key<T>(key, d_head, k.block(head, at), at % kKeyBlock);
      });
    }
    void get_value(int head, int row, std::span<float> value) const noexcept {
      load_row(v.format, v.row(head, place(row)), value);
    }
  };

  AnyRows() noexcept = default;
  /// @param at_once in huge pages, where there are some: the first rows of all heads, which may be
  /// most of the memory, take theirs now
  /// @param max_staged  layers with a window are rings for passes of so many rows; 0: no rings
  /// @errors kInvalidOption (q8_0 also where d_head is no multiple of 64), kOutOfMemory
  AnyRows(const CacheShape& shape, int n_rows, bool at_once, int max_staged = 0)
      : AnyRows(shape.formats, shape, n_rows, at_once, max_staged) {}
  AnyRows(AnyRows&& other) noexcept { swap(other); }
  AnyRows& operator=(AnyRows&& other) noexcept {
    AnyRows(std::move(other)).swap(*this);
    return *this;
  }
  ~AnyRows() = default;

  /// Bytes of n rows. @param max_staged  as in the constructor
  static double bytes(const CacheShape& shape, int n_rows, int max_staged = 0) noexcept {
    return bytes(shape.formats, shape, n_rows, max_staged);
  }

  int size() const noexcept { return size_; }

  Layer layer(int i) noexcept {
    const Place& layer = layers_[idx(i)];
    const RowRing& ring = layer.ring;
    return {
        rows_of(keys_, layer), rows_of(values_, layer), size_, ring.ring, ring.sinks, ring.pinned};
  }

  void commit(int n) noexcept {
    make_moves();
    size_ += n;
  }

  void truncate(int n) noexcept {
    size_ = std::clamp(n, 0, size_);
    if (size_ == 0) forget_rings();
  }

  /// Noted, and made by the next commit together with others: head by head.
  void move(int from, int to) noexcept {
    if (n_moves_ == kMostMoves) make_moves();
    moves_[idx(n_moves_++)] = {from, to};
  }

  /// The next n rows behind the committed ones may be written, n up to max_staged.
  void stage(int n) noexcept { written_ = std::max(written_, size_ + n); }

  /// Whether rings still hold what rows behind the first n read, of at most size().
  bool holds(int n) const noexcept {
    return n == 0 || std::all_of(layers_.begin(), layers_.end(),
                                 [&](const Place& layer) { return layer.ring.holds(n, written_); });
  }

  RowFormats formats() const noexcept { return {keys_.format, values_.format}; }

  bool keeps_all() const noexcept {
    return std::all_of(layers_.begin(), layers_.end(),
                       [](const Place& layer) { return layer.ring.ring == 0; });
  }

  std::size_t key_elements(int n) const noexcept { return kept_bytes(keys_, n); }
  std::size_t value_elements(int n) const noexcept { return kept_bytes(values_, n); }

  void copy_to(int begin, int end, std::vector<std::byte>& k, std::vector<std::byte>& v) const {
    k.reserve(key_elements(end - begin));
    v.reserve(value_elements(end - begin));
    std::vector<std::byte> in_rows(scratch_.size());
    for_each_head([&](const Place& layer, int head) {
      const HeadRows keys = rows_of(keys_, layer);
      const HeadRows values = rows_of(values_, layer);
      for_each_part(layer, begin, end, [&](int block, int from, int n) {
        load_block(keys, layer, head, block, in_rows.data());
        const std::byte* const rows = in_rows.data() + idx(from) * keys.row_bytes;
        k.insert(k.end(), rows, rows + idx(n) * keys.row_bytes);
        const std::byte* const first = values.row(head, layer.ring.place(block + from));
        v.insert(v.end(), first, first + idx(n) * values.row_bytes);
      });
    });
  }

  /// @shape k [key_elements(n_rows)], v [value_elements(n_rows)]
  void append(int n_rows, std::span<const std::byte> k, std::span<const std::byte> v) noexcept {
    const int end = size_ + n_rows;
    const std::byte* next_k = k.data();
    const std::byte* next_v = v.data();
    for_each_head([&](const Place& layer, int head) {
      const HeadRows keys = rows_of(keys_, layer);
      const HeadRows values = rows_of(values_, layer);
      const auto take = [](const std::byte*& from, std::size_t bytes, std::byte* to) {
        std::memcpy(to, from, bytes);
        from += bytes;
      };
      for_each_part(layer, size_, end, [&](int block, int from, int n) {
        take(next_v, idx(n) * values.row_bytes, values.row(head, layer.ring.place(block + from)));
        if (n < kKeyBlock) load_block(keys, layer, head, block, scratch_.data());
        take(next_k, idx(n) * keys.row_bytes, scratch_.data() + idx(from) * keys.row_bytes);
        with_element(keys.format, [&]<typename T>(Element<T>) {
          store_keys<T>(scratch_.data(), layer.d_head, keys.row(head, layer.ring.place(block)));
        });
      });
    });
    size_ = written_ = end;
    for (Place& layer : layers_) layer.ring.first_restored = layer.ring.first_kept(end);
  }

 protected:
  AnyRows(RowFormats formats, const CacheShape& shape, int n_rows, bool at_once, int max_staged) {
    keys_.format = formats.k;
    values_.format = formats.v;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      check(formats, n_heads, d_head);
      const RowRing ring = RowRing::of(window, shape.sinks, max_staged, n_rows);
      layers_.push_back(
          {ring, n_heads, d_head, RowRing::whole_blocks(ring.places), keys_.first.size()});
      if (!keys_.add(layers_.back()) || !values_.add(layers_.back())) {
        refuse(formats, shape, n_rows, max_staged);
      }
    }
    if (!keys_.take(at_once) || !values_.take(at_once)) refuse(formats, shape, n_rows, max_staged);
    if (at_once) touch_first_rows();
    std::size_t widest = 0;
    for (const Place& layer : layers_) {
      widest = std::max(widest, row_bytes(formats.k, layer.d_head));
    }
    scratch_.resize(idx(kKeyBlock) * widest);
  }

  static double bytes(RowFormats formats, const CacheShape& shape, int n_rows,
                      int max_staged) noexcept {
    double sum = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      const std::size_t row = row_bytes(formats.k, d_head) + row_bytes(formats.v, d_head);
      sum += static_cast<double>(n_heads) * static_cast<double>(row) *
             RowRing::of(window, shape.sinks, max_staged, n_rows).places;
    }
    return sum;
  }

 private:
  /// A layer, as far as keys and values lie alike.
  struct Place {
    RowRing ring;
    int n_heads;
    int d_head;
    int head_rows;  // between two heads: whole blocks, so that those of each begin at cache lines
    std::size_t index;
  };
  static_assert(RowRing::kBlock % kKeyBlock == 0);

  /// The keys, or the values, of all layers.
  struct Half {
    RowFormat format = RowFormat::kF32;
    std::vector<std::size_t> first = {};  // byte at which each layer begins
    std::size_t bytes = 0;
    Pages memory = {};

    /// @return whether so many bytes can be counted
    bool add(const Place& layer) {
      const auto head = checked_mul(idx(layer.head_rows), row_bytes(format, layer.d_head));
      const auto all = head ? checked_mul(idx(layer.n_heads), *head) : std::nullopt;
      const auto end = all ? checked_add(bytes, *all) : std::nullopt;
      if (!end) return false;
      first.push_back(bytes);
      bytes = *end;
      return true;
    }
    bool take(bool at_once) {
      memory = take_pages(bytes, at_once);
      return memory != nullptr;
    }
  };

  /// The system clears a page when it is first written to. With huge pages that takes long enough to
  /// be blamed on the first pass, and a draft model would seem slow.
  void touch_first_rows() noexcept {
    for (const Place& layer : layers_) {
      for (int head = 0; head < layer.n_heads && layer.head_rows > 0; ++head) {
        *rows_of(keys_, layer).row(head, 0) = std::byte{0};
        *rows_of(values_, layer).row(head, 0) = std::byte{0};
      }
    }
  }

  static HeadRows rows_of(const Half& half, const Place& layer) noexcept {
    const std::size_t row = row_bytes(half.format, layer.d_head);
    return {reinterpret_cast<std::byte*>(half.memory.get()) + half.first[layer.index], half.format,
            row, idx(layer.head_rows) * row};
  }

  /// Of what a snapshot of `size` rows has.
  std::size_t kept_bytes(const Half& half, int size) const noexcept {
    std::size_t sum = 0;
    const int n = std::max(size, 0);
    for (const Place& layer : layers_) {
      sum += idx(layer.n_heads) * row_bytes(half.format, layer.d_head) * idx(layer.ring.kept(n));
    }
    return sum;
  }

  /// f(block, from, n) for the rows of begin .. end - 1 that a snapshot has, block by block: rows
  /// block + from .. block + from + n - 1.
  template <typename F>
  static void for_each_part(const Place& layer, int begin, int end, F&& f) {
    layer.ring.for_each_kept(begin, end, [&](int row, int last) {
      while (row < last) {
        const int from = row % kKeyBlock;
        const int n = std::min(kKeyBlock - from, last - row);
        f(row - from, from, n);
        row += n;
      }
    });
  }

  static void check(RowFormats formats, int n_heads, int d_head) {
    if (n_heads < 1 || d_head < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    const int multiple = std::max(head_multiple(formats.k), head_multiple(formats.v));
    if (d_head % multiple != 0) {
      throw Error(ErrorCode::kInvalidOption,
                  "heads of " + std::to_string(d_head) + " dimensions in a quantized cache",
                  "a multiple of " + std::to_string(multiple), "use a cache of f16");
    }
  }
  [[noreturn]] static void refuse(RowFormats formats, const CacheShape& shape, int n_rows,
                                  int max_staged) {
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for a cache of " + std::to_string(n_rows) + " positions",
                std::to_string(bytes(formats, shape, n_rows, max_staged) / 1e6) + " MB",
                "use a smaller context");
  }

  void swap(AnyRows& other) noexcept {
    std::swap(layers_, other.layers_);
    std::swap(keys_, other.keys_);
    std::swap(values_, other.values_);
    std::swap(scratch_, other.scratch_);
    std::swap(size_, other.size_);
    std::swap(written_, other.written_);
    std::swap(moves_, other.moves_);
    std::swap(n_moves_, other.n_moves_);
  }

  /// f(layer, head), in the order in which they lie.
  template <typename F>
  void for_each_head(F&& f) const {
    for (const Place& layer : layers_) {
      for (int head = 0; head < layer.n_heads; ++head) f(layer, head);
    }
  }

  /// The keys of a block, as rows.
  static void load_block(const HeadRows& keys, const Place& layer, int head, int block,
                         std::byte* rows) noexcept {
    with_element(keys.format, [&]<typename T>(Element<T>) {
      load_keys<T>(keys.row(head, layer.ring.place(block)), layer.d_head, rows);
    });
  }

  void make_moves() noexcept {
    if (n_moves_ == 0) return;
    const std::span<const Move> moves(moves_.data(), idx(std::exchange(n_moves_, 0)));
    for_each_head([&](const Place& layer, int head) {
      const HeadRows keys = rows_of(keys_, layer);
      const HeadRows values = rows_of(values_, layer);
      for (const auto [from_row, to_row] : moves) {
        const int from = layer.ring.place(from_row);
        const int to = layer.ring.place(to_row);
        std::memcpy(values.row(head, to), values.row(head, from), values.row_bytes);
        with_element(keys.format, [&]<typename T>(Element<T>) {
          copy_key<T>(keys.block(head, from), from % kKeyBlock, layer.d_head, keys.block(head, to),
                      to % kKeyBlock);
        });
      }
    });
  }

  void forget_rings() noexcept {
    written_ = 0;
    for (Place& layer : layers_) layer.ring.first_restored = 0;
  }

  struct Move {
    int from;
    int to;
  };
  static constexpr int kMostMoves = 64;

  std::vector<Place> layers_;
  Half keys_;
  Half values_;
  std::vector<std::byte> scratch_;  // a block of the widest layer's keys
  int size_ = 0;
  int written_ = 0;  // one behind the last row that may have been written
  std::array<Move, kMostMoves> moves_{};
  int n_moves_ = 0;
};

/// The same with formats that belong to the type: keys of K, values of V.
template <typename K, typename V = K>
class Rows : public AnyRows {
 public:
  static constexpr RowFormats kFormats{kFormatOf<K>, kFormatOf<V>};

  Rows() noexcept = default;
  Rows(const CacheShape& shape, int n_rows, bool at_once, int max_staged = 0)
      : AnyRows(kFormats, shape, n_rows, at_once, max_staged) {}
  static double bytes(const CacheShape& shape, int n_rows, int max_staged = 0) noexcept {
    return AnyRows::bytes(kFormats, shape, n_rows, max_staged);
  }
};

}  // namespace foredraft::inline v0::cpu

namespace foredraft::inline v0 {
static_assert(RingStorage<cpu::AnyRows>);
static_assert(RingStorage<cpu::Rows<float>>);
static_assert(RingStorage<cpu::Rows<q8_0, f16>>);
}  // namespace foredraft::inline v0
