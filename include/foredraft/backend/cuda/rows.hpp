#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/backend/row_ring.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Keys and values in a device's memory, each in a format of its own: the one that the shape asks for.
/// Both are `[layers][n_kv_heads][places]` rows. Layers with a window may be rings: see RowRing.
/// @cost commit: one kernel where rows change their place, else nothing
/// @see Rows, whose formats belong to the type
template <Device D>
class AnyRows {
 public:
  // Of snapshots.
  using value_type = std::byte;
  using Layer = KeyValues;

  AnyRows() noexcept = default;
  /// @param max_staged  layers with a window are rings for passes of so many rows; 0: no rings
  /// @errors kInvalidOption (q8_0 also where d_head is no multiple of 32), kOutOfMemory
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
  void commit(int n) noexcept {
    size_ += n;
    make_moves();
  }
  void truncate(int n) noexcept {
    size_ = std::clamp(n, 0, size_);
    if (size_ > 0) return;
    written_ = 0;
    for (OfLayer& layer : layers_) layer.ring.first_restored = 0;
  }

  /// Noted, and made by the next commit together with others.
  void move(int from, int to) noexcept {
    if (n_moves_ == MoveRows::kMost) make_moves();
    from_[n_moves_] = from;
    to_[n_moves_++] = to;
  }

  /// The next n rows behind the committed ones may be written, n up to max_staged.
  void stage(int n) noexcept { written_ = std::max(written_, size_ + n); }

  /// Whether rings still hold what rows behind the first n read, of at most size().
  bool holds(int n) const noexcept {
    return n == 0 || std::all_of(layers_.begin(), layers_.end(), [&](const OfLayer& layer) {
             return layer.ring.holds(n, written_);
           });
  }

  RowFormats formats() const noexcept { return {keys_.format, values_.format}; }

  bool keeps_all() const noexcept {
    return std::all_of(layers_.begin(), layers_.end(),
                       [](const OfLayer& layer) { return layer.ring.ring == 0; });
  }

  Layer layer(int i) noexcept {
    make_moves();
    const OfLayer& layer = layers_[idx(i)];
    return {stored(keys_, layer, i),
            stored(values_, layer, i),
            {layer.ring.ring, layer.ring.pinned},
            layer.ring.sinks};
  }

  /// In bytes.
  std::size_t key_elements(int n) const noexcept { return kept_bytes(keys_, n); }
  std::size_t value_elements(int n) const noexcept { return kept_bytes(values_, n); }

  void copy_to(int begin_row, int end_row, std::vector<std::byte>& k,
               std::vector<std::byte>& v) const {
    make_moves();
    const auto copy = [&](const Half& half, std::vector<std::byte>& to) {
      to.resize(kept_bytes(half, end_row - begin_row));
      for_each_part(half, begin_row, end_row,
                    [&](std::size_t at, std::size_t begin, std::size_t n) {
                      device_->download(to.data() + begin, half.memory.data() + at, n);
                    });
    };
    copy(keys_, k);
    copy(values_, v);
  }

  /// @shape k, v [key_elements(n_rows)], [value_elements(n_rows)]. An error of the device is noted, and
  /// thrown by the next pass.
  void append(int n_rows, std::span<const std::byte> k, std::span<const std::byte> v) noexcept {
    n_moves_ = 0;
    const int first_row = std::exchange(size_, size_ + n_rows);
    written_ = size_;
    for (OfLayer& layer : layers_) layer.ring.first_restored = layer.ring.first_kept(size_);
    const auto restore = [&](const Half& half, std::span<const std::byte> from) {
      for_each_part(half, first_row, size_, [&](std::size_t at, std::size_t begin, std::size_t n) {
        device_->upload(half.memory.data() + at, from.data() + begin, n);
      });
    };
    guarded([&] {
      restore(keys_, k);
      restore(values_, v);
    });
  }

 protected:
  AnyRows(RowFormats formats, const CacheShape& shape, int n_rows, bool /*at_once*/, int max_staged)
      : device_(&device_of<D>(shape)), keys_{.format = formats.k}, values_{.format = formats.v} {
    const Chosen<D> here(*device_);
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      check(n_heads, d_head, formats);
      layers_.push_back(
          {RowRing::of(window, shape.sinks, max_staged, n_rows), int{n_heads}, int{d_head}});
    }
    std::vector<MoveRows::Part> parts;
    bool fits = true;
    for (Half* half : {&keys_, &values_}) fits = fits && lay_out(*half, parts);
    if (!fits) {
      throw Error(ErrorCode::kOutOfMemory,
                  "no memory for a cache of " + std::to_string(n_rows) + " positions",
                  std::to_string(bytes(formats, shape, n_rows, max_staged) / 1e6) + " MB",
                  "use a smaller context");
    }
    parts_ = DeviceMemory<D, MoveRows::Part>(parts.size());
    device_->upload(reinterpret_cast<std::byte*>(parts_.data()),
                    reinterpret_cast<const std::byte*>(parts.data()),
                    parts.size() * sizeof(MoveRows::Part));
  }

  static double bytes(RowFormats formats, const CacheShape& shape, int n_rows,
                      int max_staged) noexcept {
    double bytes = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      bytes += static_cast<double>(n_heads) *
               static_cast<double>(row_bytes(formats.k, d_head) + row_bytes(formats.v, d_head)) *
               RowRing::of(window, shape.sinks, max_staged, n_rows).places;
    }
    return bytes;
  }

 private:
  struct OfLayer {
    RowRing ring;
    int n_heads;
    int d_head;
  };
  /// Keys or values.
  struct Half {
    RowFormat format = RowFormat::kF16;
    DeviceMemory<D, std::byte> memory = {};
    std::vector<std::size_t> first = {};  // of each layer
  };

  static void check(int n_heads, int d_head, RowFormats formats) {
    if (n_heads < 1 || d_head < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    for (const RowFormat format : {formats.k, formats.v}) {
      if (d_head % values_in_element(format) == 0) continue;
      throw Error(ErrorCode::kInvalidOption,
                  "heads of " + std::to_string(d_head) + " dimensions in a quantized cache",
                  "a multiple of " + std::to_string(values_in_element(format)),
                  "use a cache of f16");
    }
  }

  /// Memory for all layers, each at a multiple of what a device aligns. @return false: there is none
  bool lay_out(Half& half, std::vector<MoveRows::Part>& parts) {
    constexpr std::size_t kAlignment = 256;
    std::size_t end = 0;
    for (const OfLayer& layer : layers_) {
      half.first.push_back(end);
      const std::size_t row = row_bytes(half.format, layer.d_head);
      const auto head = checked_mul(row, idx(layer.ring.places));
      const auto all = head ? checked_mul(*head, idx(layer.n_heads)) : std::nullopt;
      const auto next = all ? checked_add(end, *all + kAlignment - 1) : std::nullopt;
      if (!next || *all > *next) return false;
      end = *next / kAlignment * kAlignment;
      const auto columns = checked_mul(row / MoveRows::kColumn, idx(layer.n_heads));
      if (!columns || *columns > idx(Dim::kMost) - idx(n_columns_)) return false;
      parts.push_back({nullptr,
                       *head,
                       static_cast<int>(row),
                       n_columns_,
                       {layer.ring.ring, layer.ring.pinned}});
      n_columns_ += static_cast<int>(*columns);
    }
    half.memory = DeviceMemory<D, std::byte>(end);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      parts[parts.size() - layers_.size() + i].data = half.memory.data() + half.first[i];
    }
    return true;
  }

  StoredRows stored(const Half& half, const OfLayer& layer, int i) const noexcept {
    const std::size_t row = row_bytes(half.format, layer.d_head);
    return {half.memory.data() + half.first[idx(i)], row * idx(layer.ring.places),
            static_cast<int>(row), half.format};
  }

  std::size_t kept_bytes(const Half& half, int n) const noexcept {
    std::size_t sum = 0;
    for (const OfLayer& layer : layers_) {
      sum += idx(layer.n_heads) * row_bytes(half.format, layer.d_head) *
             idx(layer.ring.kept(std::max(n, 0)));
    }
    return sum;
  }

  void swap(AnyRows& other) noexcept {
    std::swap(device_, other.device_);
    layers_.swap(other.layers_);
    std::swap(keys_, other.keys_);
    std::swap(values_, other.values_);
    parts_.swap(other.parts_);
    std::swap(n_columns_, other.n_columns_);
    std::swap(size_, other.size_);
    std::swap(written_, other.written_);
    std::swap(n_moves_, other.n_moves_);
    std::swap(from_, other.from_);
    std::swap(to_, other.to_);
  }

  /// f(first byte on the device, first byte of a copy, how many) for those of some rows that a copy has,
  /// head after head: as many rows at once as lie together.
  template <typename F>
  void for_each_part(const Half& half, int begin_row, int end_row, F&& f) const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const OfLayer& layer = layers_[i];
      const std::size_t in_row = row_bytes(half.format, layer.d_head);
      std::size_t head = half.first[i];
      const auto copy = [&](int row, int end) {
        while (row < end) {
          const int n = layer.ring.together(row, end);
          f(head + idx(layer.ring.place(row)) * in_row, begin, idx(n) * in_row);
          begin += idx(n) * in_row;
          row += n;
        }
      };
      for (int h = 0; h < layer.n_heads; ++h, head += idx(layer.ring.places) * in_row) {
        layer.ring.for_each_kept(begin_row, end_row, copy);
      }
    }
  }

  template <typename F>
  void guarded(F&& f) const noexcept {
    try {
      f();
    } catch (...) {
      device_->note(std::current_exception());
    }
  }

  void make_moves() const noexcept {
    if (n_columns_ == 0) n_moves_ = 0;  // no layer has keys
    if (n_moves_ == 0) return;
    MoveRows::Args args{.parts = parts_.data(),
                        .n_parts = static_cast<int>(2 * layers_.size()),
                        .n_columns = n_columns_,
                        .n_moves = n_moves_,
                        .from = {},
                        .to = {}};
    std::copy_n(from_, n_moves_, args.from);
    std::copy_n(to_, n_moves_, args.to);
    n_moves_ = 0;
    guarded([&] { device_->template launch<MoveRows>(MoveRows::grid(n_columns_), 0, args); });
  }

  D* device_ = nullptr;
  std::vector<OfLayer> layers_;
  Half keys_;
  Half values_;
  DeviceMemory<D, MoveRows::Part> parts_;  // keys of all layers, then values
  int n_columns_ = 0;                      // of all parts
  int size_ = 0;
  int written_ = 0;          // one behind the last row that may have been written
  mutable int n_moves_ = 0;  // noted, and not made yet
  int from_[MoveRows::kMost] = {};
  int to_[MoveRows::kMost] = {};
};

/// The same with formats that belong to the type: keys of K, values of V.
template <Device D, typename K, typename V = K>
class Rows : public AnyRows<D> {
 public:
  static constexpr RowFormats kFormats{kFormatOf<K>, kFormatOf<V>};

  Rows() noexcept = default;
  Rows(const CacheShape& shape, int n_rows, bool at_once, int max_staged = 0)
      : AnyRows<D>(kFormats, shape, n_rows, at_once, max_staged) {}
  static double bytes(const CacheShape& shape, int n_rows, int max_staged = 0) noexcept {
    return AnyRows<D>::bytes(kFormats, shape, n_rows, max_staged);
  }
};

}  // namespace foredraft::inline v0::cuda
