#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0::cpu {

/// Keys and values as the kernels of Cpu read them, in the host's memory. A head's rows follow each
/// other; keys of whole blocks of committed rows lie by dimensions, see key_blocks.hpp.
///
/// Layers with a window may be rings: row r lies in place r modulo the ring's length. That is whole
/// blocks, so a block of rows is never cut, and one block more than window and staged rows need,
/// because neither begins at a block's border. So no row that is written lies in a block of which
/// a committed row may still be read.
/// @cost commit O(1) until a block of 32 rows is whole, then a copy of its keys
template <typename T>
class Rows {
 public:
  using value_type = T;

  /// Keys and values of one layer. Row `r` of head `h` begins at
  /// `v + h * head_stride + place(r) * row_elements<T>(d_head)`, likewise in `k` where the row lies
  /// in no whole block of committed keys. Blocks of kKeyBlock rows begin at multiples of 64 bytes.
  struct Layer {
    T* k = nullptr;
    T* v = nullptr;
    std::size_t head_stride = 0;  // elements between two heads
    int size = 0;                 // committed rows
    int ring = 0;                 // rows that lie in the places of others; 0: each has its own

    /// The place in which row `row` lies.
    int place(int row) const noexcept { return ring == 0 ? row : row % ring; }

    // For backends that compute with floats, one row at a time. @shape key, value [d_head]
    void put(int head, int row, std::span<const float> key, std::span<const float> value) noexcept {
      store_row(key, k + element(head, row, key.size()));
      store_row(value, v + element(head, row, value.size()));
    }
    void get_key(int head, int row, std::span<float> key) const noexcept {
      const int d_head = static_cast<int>(key.size());
      if (row >= positions_in_key_blocks(size)) {
        return load_row(k + element(head, row, key.size()), key);
      }
      std::vector<T> rows(idx(kKeyBlock) * idx(row_elements<T>(d_head)));
      key_block_to_rows(k + element(head, row / kKeyBlock * kKeyBlock, key.size()), d_head,
                        rows.data());
      load_row(rows.data() + row % kKeyBlock * row_elements<T>(d_head), key);
    }
    void get_value(int head, int row, std::span<float> value) const noexcept {
      load_row(v + element(head, row, value.size()), value);
    }

   private:
    std::size_t element(int head, int row, std::size_t d_head) const noexcept {
      return idx(head) * head_stride +
             idx(place(row)) * idx(row_elements<T>(static_cast<int>(d_head)));
    }
  };

  Rows() noexcept = default;
  /// @param at_once in huge pages, where there are some: they take their memory as soon as a few
  /// rows are used
  /// @param max_staged  layers with a window are rings for passes of so many rows; 0: no rings
  /// @errors kInvalidOption (q8_0 also where d_head is no multiple of 64), kOutOfMemory
  Rows(const CacheShape& shape, int n_rows, bool at_once, int max_staged = 0) {
    std::optional<std::size_t> elements = 0;
    int widest = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      check(n_heads, d_head);
      const int row = row_elements<T>(d_head);
      const int ring = ring_of(window, max_staged, n_rows);
      // Whole blocks of rows, so that those of every head begin at cache lines.
      const std::size_t blocks = idx(ring > 0 ? ring : whole_blocks(n_rows)) / idx(kKeyBlock);
      const auto stride = checked_mul(blocks, idx(kKeyBlock) * idx(row));
      const auto all = stride ? checked_mul(idx(n_heads), *stride) : std::nullopt;
      if (!all || !elements) refuse(shape, n_rows, max_staged);
      layers_.push_back({n_heads, d_head, *elements, *stride, ring, window, 0});
      elements = checked_add(*elements, *all);
      widest = std::max(widest, row);
    }
    const auto bytes = elements ? checked_mul(*elements, sizeof(T)) : std::nullopt;
    k_ = bytes ? take_pages(*bytes, at_once) : nullptr;
    v_ = bytes ? take_pages(*bytes, at_once) : nullptr;
    if (k_ == nullptr || v_ == nullptr) refuse(shape, n_rows, max_staged);
    scratch_.resize(idx(kKeyBlock) * idx(widest));
  }
  Rows(Rows&& other) noexcept { swap(other); }
  Rows& operator=(Rows&& other) noexcept {
    Rows(std::move(other)).swap(*this);
    return *this;
  }
  ~Rows() = default;

  /// Bytes of n rows. @param max_staged  as in the constructor
  static double bytes(const CacheShape& shape, int n_rows, int max_staged = 0) noexcept {
    double elements = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      const int ring = ring_of(window, max_staged, n_rows);
      elements +=
          static_cast<double>(n_heads) * row_elements<T>(d_head) * (ring > 0 ? ring : n_rows);
    }
    return 2.0 * sizeof(T) * elements;
  }

  int size() const noexcept { return size_; }

  Layer layer(int i) noexcept {
    const Place& layer = layers_[idx(i)];
    return {keys() + layer.first, values() + layer.first, layer.head_stride, size_, layer.ring};
  }

  void commit(int n) noexcept {
    const int whole = positions_in_key_blocks(size_);
    size_ += n;
    for (int row = whole; row < positions_in_key_blocks(size_); row += kKeyBlock) {
      change_block(
          row, [](const T* rows, int d_head, T* block) { rows_to_key_block(rows, d_head, block); });
    }
  }

  void truncate(int n) noexcept {
    const int whole = positions_in_key_blocks(size_);
    size_ = std::clamp(n, 0, size_);
    if (size_ == 0) forget_rings();
    const int row = positions_in_key_blocks(size_);  // of the block that is incomplete now
    if (row == whole || row == size_) return;
    change_block(
        row, [](const T* block, int d_head, T* rows) { key_block_to_rows(block, d_head, rows); });
  }

  void move(int from, int to) noexcept {
    for_each_head([&](const Place& layer, std::size_t head) {
      const std::size_t row = layer.row();
      for (T* base : {keys() + head, values() + head}) {
        std::memcpy(base + layer.place(to) * row, base + layer.place(from) * row, row * sizeof(T));
      }
    });
  }

  /// The next n rows behind the committed ones may be written, n up to max_staged.
  void stage(int n) noexcept { written_ = std::max(written_, size_ + n); }

  /// Whether rings still hold what rows behind the first n read, of at most size().
  bool holds(int n) const noexcept {
    return n == 0 || std::all_of(layers_.begin(), layers_.end(), [&](const Place& layer) {
             return layer.ring == 0 || layer.first_kept(n) >= lowest(layer);
           });
  }

  std::size_t elements(int size) const noexcept {
    std::size_t sum = 0;
    const int n = std::max(size, 0);
    for (const Place& layer : layers_) {
      sum += idx(layer.n_heads) * layer.row() * idx(n - layer.first_kept(n));
    }
    return sum;
  }

  void copy_to(std::vector<T>& k, std::vector<T>& v) const {
    k.reserve(elements(size_));
    v.reserve(elements(size_));
    std::vector<T> in_rows(scratch_.size());
    for_each_head([&](const Place& layer, std::size_t head) {
      const std::size_t row = layer.row();
      for_each_part(layer, size_, [&](int block, int from, int n) {
        const std::size_t at = head + layer.place(block) * row;
        const T* rows = keys() + at;
        if (block < positions_in_key_blocks(size_)) {
          key_block_to_rows(rows, layer.d_head, in_rows.data());
          rows = in_rows.data();
        }
        k.insert(k.end(), rows + idx(from) * row, rows + idx(from + n) * row);
        const T* const first = values() + at + idx(from) * row;
        v.insert(v.end(), first, first + idx(n) * row);
      });
    });
  }

  /// @shape k, v [elements(size)]
  void restore(int size, std::span<const T> k, std::span<const T> v) noexcept {
    std::size_t begin = 0;
    for_each_head([&](const Place& layer, std::size_t head) {
      for_each_part(layer, size, [&](int block, int from, int n) {
        T* const rows = keys() + head + layer.place(block) * layer.row();
        const std::size_t at = head + layer.place(block + from) * layer.row();
        const std::size_t count = idx(n) * layer.row();
        std::copy_n(k.data() + begin, count, keys() + at);
        std::copy_n(v.data() + begin, count, values() + at);
        begin += count;
        if (block < positions_in_key_blocks(size)) {
          change(layer, rows, [](const T* from_rows, int d_head, T* to) {
            rows_to_key_block(from_rows, d_head, to);
          });
        }
      });
    });
    size_ = written_ = size;
    for (Place& layer : layers_) layer.first_restored = layer.first_kept(size);
  }

 private:
  /// Where a layer lies.
  struct Place {
    int n_heads;
    int d_head;
    std::size_t first;        // its first element
    std::size_t head_stride;  // elements between two heads
    int ring;                 // as in Layer
    int window;
    int first_restored;  // rows before it were not in the snapshot
    std::size_t row() const noexcept { return idx(row_elements<T>(d_head)); }
    std::size_t place(int row) const noexcept { return idx(ring == 0 ? row : row % ring); }
    /// The first row that a snapshot of `size` rows has: all that holds(size) vouches for, no more.
    int first_kept(int size) const noexcept {
      return ring == 0 ? 0 : std::max(0, size - window + 1);
    }
  };

  static int whole_blocks(int n_rows) noexcept {
    return (n_rows + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
  }
  /// Length of a layer's ring; 0 where it has none, or would save nothing.
  static int ring_of(int window, int max_staged, int n_rows) noexcept {
    if (window == 0 || max_staged == 0) return 0;
    const int ring = whole_blocks(window + max_staged) + kKeyBlock;
    return ring < n_rows ? ring : 0;
  }

  /// The first row of a layer that nothing has been written over.
  int lowest(const Place& layer) const noexcept {
    if (layer.ring == 0) return 0;
    return std::max(layer.first_restored, whole_blocks(written_) - layer.ring);
  }

  /// f(block, from, n) for the rows that a snapshot of `size` rows has, block by block: rows
  /// block + from .. block + from + n - 1.
  template <typename F>
  static void for_each_part(const Place& layer, int size, F&& f) {
    for (int row = layer.first_kept(size); row < size;) {
      const int from = row % kKeyBlock;
      const int n = std::min(kKeyBlock - from, size - row);
      f(row - from, from, n);
      row += n;
    }
  }

  static void check(int n_heads, int d_head) {
    if (n_heads < 1 || d_head < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    if (d_head % kHeadMultiple<T> != 0) {
      throw Error(ErrorCode::kInvalidOption,
                  "heads of " + std::to_string(d_head) + " dimensions in a quantized cache",
                  "a multiple of " + std::to_string(kHeadMultiple<T>), "use a cache of f16");
    }
  }
  [[noreturn]] static void refuse(const CacheShape& shape, int n_rows, int max_staged) {
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for a cache of " + std::to_string(n_rows) + " positions",
                std::to_string(bytes(shape, n_rows, max_staged) / 1e6) + " MB",
                "use a smaller context");
  }

  void swap(Rows& other) noexcept {
    layers_.swap(other.layers_);
    k_.swap(other.k_);
    v_.swap(other.v_);
    scratch_.swap(other.scratch_);
    std::swap(size_, other.size_);
    std::swap(written_, other.written_);
  }

  // T is an implicit-lifetime type, so raw memory needs no constructor.
  T* keys() const noexcept { return reinterpret_cast<T*>(k_.get()); }
  T* values() const noexcept { return reinterpret_cast<T*>(v_.get()); }

  /// f(layer, its head's first element), in the order in which they lie.
  template <typename F>
  void for_each_head(F&& f) const {
    for (const Place& layer : layers_) {
      for (int head = 0; head < layer.n_heads; ++head) {
        f(layer, layer.first + idx(head) * layer.head_stride);
      }
    }
  }

  /// Rewrite the keys of the block that begins at `row`, in all layers and heads.
  template <typename F>
  void change_block(int row, F&& f) noexcept {
    for_each_head([&](const Place& layer, std::size_t head) {
      change(layer, keys() + head + layer.place(row) * layer.row(), f);
    });
  }
  template <typename F>
  void change(const Place& layer, T* block, F&& f) noexcept {
    std::copy_n(block, idx(kKeyBlock) * layer.row(), scratch_.data());
    f(scratch_.data(), layer.d_head, block);
  }

  void forget_rings() noexcept {
    written_ = 0;
    for (Place& layer : layers_) layer.first_restored = 0;
  }

  std::vector<Place> layers_;
  Pages k_;
  Pages v_;
  std::vector<T> scratch_;  // a block of the widest layer
  int size_ = 0;
  int written_ = 0;  // one behind the last row that may have been written
};

}  // namespace foredraft::inline v0::cpu

namespace foredraft::inline v0 {
static_assert(RingStorage<cpu::Rows<float>>);
static_assert(RingStorage<cpu::Rows<f16>>);
static_assert(RingStorage<cpu::Rows<q8_0>>);
}  // namespace foredraft::inline v0
