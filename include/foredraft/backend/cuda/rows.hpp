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

/// Keys and values in a device's memory: `[layers][n_kv_heads][places][d_head]`. Layers with a window
/// may be rings: see RowRing.
/// @tparam S  float, f16 or q8_0 (heads of a multiple of 32 dimensions), of keys and values
/// @cost commit: one kernel where rows change their place, else nothing
template <typename S, Device D>
class Rows {
 public:
  using value_type = S;
  using Layer = KeyValues<S>;

  Rows() noexcept = default;
  /// @param max_staged  layers with a window are rings for passes of so many rows; 0: no rings
  /// @errors kInvalidOption, kOutOfMemory
  Rows(const CacheShape& shape, int n_rows, bool /*at_once*/, int max_staged = 0)
      : device_(&D::current()) {
    std::optional<std::size_t> elements = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      check(n_heads, d_head);
      const RowRing ring = RowRing::of(window, shape.sinks, max_staged, n_rows);
      const int row = d_head / kValuesPerElement<S>;
      const std::size_t stride = idx(ring.places) * idx(row);
      const auto all = checked_mul(idx(n_heads), stride);
      const auto columns = checked_product(n_heads, row);
      if (!all || !elements || !columns || n_columns_ > Dim::kMost) {
        refuse(shape, n_rows, max_staged);
      }
      layers_.push_back({*elements, stride, n_heads, row, n_columns_, {ring.ring, ring.pinned}});
      rings_.push_back(ring);
      n_columns_ += int{*columns};
      elements = checked_add(*elements, *all);
    }
    if (!elements || !checked_mul(*elements, sizeof(S))) refuse(shape, n_rows, max_staged);
    k_ = DeviceMemory<D, S>(*elements);
    v_ = DeviceMemory<D, S>(*elements);
    on_device_ = DeviceMemory<D, Place>(layers_.size());
    device_->upload(reinterpret_cast<std::byte*>(on_device_.data()),
                    reinterpret_cast<const std::byte*>(layers_.data()),
                    layers_.size() * sizeof(Place));
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
      const int row = d_head / kValuesPerElement<S>;
      elements += static_cast<double>(n_heads) * row *
                  RowRing::of(window, shape.sinks, max_staged, n_rows).places;
    }
    return 2.0 * sizeof(S) * elements;
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
    for (RowRing& ring : rings_) ring.first_restored = 0;
  }

  /// Noted, and made by the next commit together with others.
  void move(int from, int to) noexcept {
    if (n_moves_ == Moves::kMost) make_moves();
    from_[n_moves_] = from;
    to_[n_moves_++] = to;
  }

  /// The next n rows behind the committed ones may be written, n up to max_staged.
  void stage(int n) noexcept { written_ = std::max(written_, size_ + n); }

  /// Whether rings still hold what rows behind the first n read, of at most size().
  bool holds(int n) const noexcept {
    return n == 0 || std::all_of(rings_.begin(), rings_.end(),
                                 [&](const RowRing& ring) { return ring.holds(n, written_); });
  }

  bool keeps_all() const noexcept {
    return std::all_of(rings_.begin(), rings_.end(),
                       [](const RowRing& ring) { return ring.ring == 0; });
  }

  Layer layer(int i) noexcept {
    make_moves();
    const Place& layer = layers_[idx(i)];
    return {k_.data() + layer.first, v_.data() + layer.first, layer.head_stride, layer.ring,
            rings_[idx(i)].sinks};
  }

  std::size_t key_elements(int n) const noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      sum += idx(layers_[i].n_heads) * idx(layers_[i].row_elements) *
             idx(rings_[i].kept(std::max(n, 0)));
    }
    return sum;
  }
  std::size_t value_elements(int n) const noexcept { return key_elements(n); }

  void copy_to(int begin_row, int end_row, std::vector<S>& k, std::vector<S>& v) const {
    make_moves();
    k.resize(key_elements(end_row - begin_row));
    v.resize(value_elements(end_row - begin_row));
    for_each_part(begin_row, end_row, [&](std::size_t at, std::size_t begin, std::size_t n) {
      device_->download(reinterpret_cast<std::byte*>(k.data() + begin),
                        reinterpret_cast<const std::byte*>(k_.data() + at), n * sizeof(S));
      device_->download(reinterpret_cast<std::byte*>(v.data() + begin),
                        reinterpret_cast<const std::byte*>(v_.data() + at), n * sizeof(S));
    });
  }

  /// @shape k, v [key_elements(n_rows)]. An error of the device is noted, and thrown by the next pass.
  void append(int n_rows, std::span<const S> k, std::span<const S> v) noexcept {
    n_moves_ = 0;
    const int first_row = std::exchange(size_, size_ + n_rows);
    written_ = size_;
    for (RowRing& ring : rings_) ring.first_restored = ring.first_kept(size_);
    guarded([&] {
      for_each_part(first_row, size_, [&](std::size_t at, std::size_t begin, std::size_t n) {
        device_->upload(reinterpret_cast<std::byte*>(k_.data() + at),
                        reinterpret_cast<const std::byte*>(k.data() + begin), n * sizeof(S));
        device_->upload(reinterpret_cast<std::byte*>(v_.data() + at),
                        reinterpret_cast<const std::byte*>(v.data() + begin), n * sizeof(S));
      });
    });
  }

 private:
  using Moves = MoveRows<S>;
  using Place = typename Moves::Layer;

  static void check(int n_heads, int d_head) {
    if (n_heads < 1 || d_head < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    if (d_head % kValuesPerElement<S> != 0) {
      throw Error(ErrorCode::kInvalidOption,
                  "heads of " + std::to_string(d_head) + " dimensions in a quantized cache",
                  "a multiple of " + std::to_string(kValuesPerElement<S>), "use a cache of f16");
    }
  }
  [[noreturn]] static void refuse(const CacheShape& shape, int n_rows, int max_staged) {
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for a cache of " + std::to_string(n_rows) + " positions",
                std::to_string(bytes(shape, n_rows, max_staged) / 1e6) + " MB",
                "use a smaller context");
  }

  void swap(Rows& other) noexcept {
    std::swap(device_, other.device_);
    layers_.swap(other.layers_);
    rings_.swap(other.rings_);
    k_.swap(other.k_);
    v_.swap(other.v_);
    on_device_.swap(other.on_device_);
    std::swap(n_columns_, other.n_columns_);
    std::swap(size_, other.size_);
    std::swap(written_, other.written_);
    std::swap(n_moves_, other.n_moves_);
    std::swap(from_, other.from_);
    std::swap(to_, other.to_);
  }

  /// f(first element on the device, first element of a copy, how many) for those of some rows that a
  /// copy has, head after head: as many rows at once as lie together.
  template <typename F>
  void for_each_part(int begin_row, int end_row, F&& f) const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t in_row = idx(layers_[i].row_elements);
      const RowRing& ring = rings_[i];
      std::size_t head = layers_[i].first;
      const auto copy = [&](int row, int end) {
        while (row < end) {
          const int n = ring.together(row, end);
          f(head + idx(ring.place(row)) * in_row, begin, idx(n) * in_row);
          begin += idx(n) * in_row;
          row += n;
        }
      };
      for (int h = 0; h < layers_[i].n_heads; ++h, head += layers_[i].head_stride) {
        ring.for_each_kept(begin_row, end_row, copy);
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
    typename Moves::Args args{.k = k_.data(),
                              .v = v_.data(),
                              .layers = on_device_.data(),
                              .n_layers = static_cast<int>(layers_.size()),
                              .n_columns = n_columns_,
                              .n_moves = n_moves_,
                              .from = {},
                              .to = {}};
    std::copy_n(from_, n_moves_, args.from);
    std::copy_n(to_, n_moves_, args.to);
    n_moves_ = 0;
    guarded([&] { device_->template launch<Moves>(Moves::grid(n_columns_), 0, args); });
  }

  D* device_ = nullptr;
  std::vector<Place> layers_;
  std::vector<RowRing> rings_;  // of the layers
  DeviceMemory<D, S> k_;
  DeviceMemory<D, S> v_;
  DeviceMemory<D, Place> on_device_;  // the same as layers_
  int n_columns_ = 0;                 // of all layers: heads times elements of a row
  int size_ = 0;
  int written_ = 0;          // one behind the last row that may have been written
  mutable int n_moves_ = 0;  // noted, and not made yet
  int from_[Moves::kMost] = {};
  int to_[Moves::kMost] = {};
};

}  // namespace foredraft::inline v0::cuda
