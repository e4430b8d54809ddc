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
/// @cost commit O(1) until a block of 32 rows is whole, then a copy of its keys
template <typename T>
class Rows {
 public:
  using value_type = T;

  /// Keys and values of one layer. Row `r` of head `h` begins at
  /// `v + h * head_stride + r * row_elements<T>(d_head)`, likewise in `k` where the row lies in no
  /// whole block of committed keys. Every block of kKeyBlock rows begins at a multiple of 64 bytes.
  struct Layer {
    T* k = nullptr;
    T* v = nullptr;
    std::size_t head_stride = 0;  // elements between two heads
    int size = 0;                 // committed rows

    // For backends that compute with floats, one row at a time. @shape key, value [d_head]
    void put(int head, int row, std::span<const float> key, std::span<const float> value) noexcept {
      store_row(key, k + place(head, row, key.size()));
      store_row(value, v + place(head, row, value.size()));
    }
    void get_key(int head, int row, std::span<float> key) const noexcept {
      const int d_head = static_cast<int>(key.size());
      if (row >= positions_in_key_blocks(size)) {
        return load_row(k + place(head, row, key.size()), key);
      }
      std::vector<T> rows(idx(kKeyBlock) * idx(row_elements<T>(d_head)));
      key_block_to_rows(k + place(head, row / kKeyBlock * kKeyBlock, key.size()), d_head,
                        rows.data());
      load_row(rows.data() + row % kKeyBlock * row_elements<T>(d_head), key);
    }
    void get_value(int head, int row, std::span<float> value) const noexcept {
      load_row(v + place(head, row, value.size()), value);
    }

   private:
    std::size_t place(int head, int row, std::size_t d_head) const noexcept {
      return idx(head) * head_stride + idx(row) * idx(row_elements<T>(static_cast<int>(d_head)));
    }
  };

  Rows() noexcept = default;
  /// @param at_once in huge pages, where there are some: they take their memory as soon as a few
  /// rows are used
  /// @errors kInvalidOption (q8_0 also where d_head is no multiple of 64), kOutOfMemory
  Rows(const CacheShape& shape, int n_rows, bool at_once) {
    // Whole blocks of rows, so that those of every head begin at cache lines.
    const std::size_t blocks = (idx(n_rows) + kKeyBlock - 1) / std::size_t{kKeyBlock};
    std::optional<std::size_t> elements = 0;
    int widest = 0;
    for (const KeyValueShape& layer : shape.layers) {
      const auto [n_heads, d_head] = std::pair(layer.n_kv_heads, layer.d_head);
      check(n_heads, d_head);
      const int row = row_elements<T>(d_head);
      const auto stride = checked_mul(blocks, idx(kKeyBlock) * idx(row));
      const auto all = stride ? checked_mul(idx(n_heads), *stride) : std::nullopt;
      if (!all || !elements) refuse(shape, n_rows);
      layers_.push_back({n_heads, d_head, *elements, *stride});
      elements = checked_add(*elements, *all);
      widest = std::max(widest, row);
    }
    const auto bytes = elements ? checked_mul(*elements, sizeof(T)) : std::nullopt;
    k_ = bytes ? take_pages(*bytes, at_once) : nullptr;
    v_ = bytes ? take_pages(*bytes, at_once) : nullptr;
    if (k_ == nullptr || v_ == nullptr) refuse(shape, n_rows);
    scratch_.resize(idx(kKeyBlock) * idx(widest));
  }
  Rows(Rows&& other) noexcept { swap(other); }
  Rows& operator=(Rows&& other) noexcept {
    Rows(std::move(other)).swap(*this);
    return *this;
  }
  ~Rows() = default;

  /// Bytes of n rows.
  static double bytes(const CacheShape& shape, int n_rows) noexcept {
    double elements = 0;
    for (const KeyValueShape& layer : shape.layers) {
      elements += static_cast<double>(layer.n_kv_heads) * row_elements<T>(layer.d_head);
    }
    return 2.0 * sizeof(T) * elements * n_rows;
  }

  int size() const noexcept { return size_; }

  Layer layer(int i) noexcept {
    const Place& layer = layers_[idx(i)];
    return {keys() + layer.first, values() + layer.first, layer.head_stride, size_};
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
    const int row = positions_in_key_blocks(size_);  // of the block that is incomplete now
    if (row == whole || row == size_) return;
    change_block(
        row, [](const T* block, int d_head, T* rows) { key_block_to_rows(block, d_head, rows); });
  }

  void move(int from, int to) noexcept {
    for_each_head([&](const Place& layer, std::size_t head) {
      const std::size_t row = layer.row();
      for (T* base : {keys() + head, values() + head}) {
        std::memcpy(base + idx(to) * row, base + idx(from) * row, row * sizeof(T));
      }
    });
  }

  std::size_t elements(int size) const noexcept {
    std::size_t sum = 0;
    for (const Place& layer : layers_) sum += idx(layer.n_heads) * layer.row();
    return sum * idx(std::max(size, 0));
  }

  void copy_to(std::vector<T>& k, std::vector<T>& v) const {
    k.reserve(elements(size_));
    v.reserve(elements(size_));
    for_each_head([&](const Place& layer, std::size_t head) {
      const std::size_t n = idx(size_) * layer.row();
      const std::size_t begin = k.size();
      k.insert(k.end(), keys() + head, keys() + head + n);
      v.insert(v.end(), values() + head, values() + head + n);
      for (int row = 0; row < positions_in_key_blocks(size_); row += kKeyBlock) {
        const std::size_t block = idx(row) * layer.row();
        key_block_to_rows(keys() + head + block, layer.d_head, k.data() + begin + block);
      }
    });
  }

  /// @shape k, v [elements(size)]
  void restore(int size, std::span<const T> k, std::span<const T> v) noexcept {
    std::size_t begin = 0;
    for_each_head([&](const Place& layer, std::size_t head) {
      const std::size_t n = idx(size) * layer.row();
      std::copy_n(k.data() + begin, n, keys() + head);
      std::copy_n(v.data() + begin, n, values() + head);
      begin += n;
    });
    size_ = 0;
    commit(size);
  }

 private:
  /// Where a layer lies.
  struct Place {
    int n_heads;
    int d_head;
    std::size_t first;        // its first element
    std::size_t head_stride;  // elements between two heads
    std::size_t row() const noexcept { return idx(row_elements<T>(d_head)); }
  };

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
  [[noreturn]] static void refuse(const CacheShape& shape, int n_rows) {
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for a cache of " + std::to_string(n_rows) + " positions",
                std::to_string(bytes(shape, n_rows) / 1e6) + " MB", "use a smaller context");
  }

  void swap(Rows& other) noexcept {
    layers_.swap(other.layers_);
    k_.swap(other.k_);
    v_.swap(other.v_);
    scratch_.swap(other.scratch_);
    std::swap(size_, other.size_);
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
  void change_block(int row, F&& change) noexcept {
    for_each_head([&](const Place& layer, std::size_t head) {
      T* const block = keys() + head + idx(row) * layer.row();
      std::copy_n(block, idx(kKeyBlock) * layer.row(), scratch_.data());
      change(scratch_.data(), layer.d_head, block);
    });
  }

  std::vector<Place> layers_;
  Pages k_;
  Pages v_;
  std::vector<T> scratch_;  // a block of the widest layer
  int size_ = 0;
};

}  // namespace foredraft::inline v0::cpu

namespace foredraft::inline v0 {
static_assert(RowStorage<cpu::Rows<float>>);
static_assert(RowStorage<cpu::Rows<f16>>);
static_assert(RowStorage<cpu::Rows<q8_0>>);
}  // namespace foredraft::inline v0
