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
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Keys and values in a device's memory: `[layers][n_kv_heads][n_rows][d_head]`, every row in a place
/// of its own. Layers with a window keep all their rows.
/// @tparam S  float or f16
/// @cost commit: one kernel where rows change their place, else nothing
template <typename S, Device D>
class Rows {
 public:
  using value_type = S;
  using Layer = KeyValues<S>;

  Rows() noexcept = default;
  /// @errors kInvalidOption, kOutOfMemory
  Rows(const CacheShape& shape, int n_rows, bool /*at_once*/) : device_(&D::current()) {
    std::optional<std::size_t> elements = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      if (n_heads < 1 || d_head < 1) {
        throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache",
                    "all dimensions >= 1", "take the shape from Model::shape()");
      }
      if (window > 0 && shape.sinks > 0) {
        throw Error(ErrorCode::kInvalidOption, "sinks in a cache on a device", "none",
                    "use a cache in the host's memory");
      }
      const std::size_t stride = idx(n_rows) * idx(d_head);
      const auto all = checked_mul(idx(n_heads), stride);
      const auto columns = checked_product(n_heads, d_head);
      if (!all || !elements || !columns || n_columns_ > Dim::kMost) refuse(shape, n_rows);
      layers_.push_back({*elements, stride, n_heads, d_head, n_columns_});
      n_columns_ += int{*columns};
      elements = checked_add(*elements, *all);
    }
    if (!elements || !checked_mul(*elements, sizeof(S))) refuse(shape, n_rows);
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

  /// Bytes of n rows.
  static double bytes(const CacheShape& shape, int n_rows) noexcept {
    double elements = 0;
    for (const auto& [n_heads, d_head, window] : shape.layers) {
      elements += static_cast<double>(n_heads) * d_head * n_rows;
    }
    return 2.0 * sizeof(S) * elements;
  }

  int size() const noexcept { return size_; }
  void commit(int n) noexcept {
    size_ += n;
    make_moves();
  }
  void truncate(int n) noexcept { size_ = std::clamp(n, 0, size_); }

  /// Noted, and made by the next commit together with others.
  void move(int from, int to) noexcept {
    if (n_moves_ == Moves::kMost) make_moves();
    from_[n_moves_] = from;
    to_[n_moves_++] = to;
  }

  Layer layer(int i) noexcept {
    make_moves();
    const Place& layer = layers_[idx(i)];
    return {k_.data() + layer.first, v_.data() + layer.first, layer.head_stride};
  }

  std::size_t key_elements(int n) const noexcept { return idx(n_columns_) * idx(std::max(n, 0)); }
  std::size_t value_elements(int n) const noexcept { return key_elements(n); }

  void copy_to(int begin_row, int end_row, std::vector<S>& k, std::vector<S>& v) const {
    make_moves();
    k.resize(key_elements(end_row - begin_row));
    v.resize(value_elements(end_row - begin_row));
    for_each_head(begin_row, end_row, [&](std::size_t at, std::size_t begin, std::size_t n) {
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
    guarded([&] {
      for_each_head(first_row, size_, [&](std::size_t at, std::size_t begin, std::size_t n) {
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

  [[noreturn]] static void refuse(const CacheShape& shape, int n_rows) {
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for a cache of " + std::to_string(n_rows) + " positions",
                std::to_string(bytes(shape, n_rows) / 1e6) + " MB", "use a smaller context");
  }

  void swap(Rows& other) noexcept {
    std::swap(device_, other.device_);
    layers_.swap(other.layers_);
    k_.swap(other.k_);
    v_.swap(other.v_);
    on_device_.swap(other.on_device_);
    std::swap(n_columns_, other.n_columns_);
    std::swap(size_, other.size_);
    std::swap(n_moves_, other.n_moves_);
    std::swap(from_, other.from_);
    std::swap(to_, other.to_);
  }

  /// f(first element on the device, first element of a copy, how many) for some rows, head after head.
  template <typename F>
  void for_each_head(int begin_row, int end_row, F&& f) const {
    std::size_t begin = 0;
    for (const Place& layer : layers_) {
      const std::size_t before = idx(begin_row) * idx(layer.d_head);
      const std::size_t n = idx(end_row - begin_row) * idx(layer.d_head);
      for (int head = 0; head < layer.n_heads; ++head, begin += n) {
        f(layer.first + idx(head) * layer.head_stride + before, begin, n);
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
  DeviceMemory<D, S> k_;
  DeviceMemory<D, S> v_;
  DeviceMemory<D, Place> on_device_;  // the same as layers_
  int n_columns_ = 0;                 // of all layers: heads times dimensions
  int size_ = 0;
  mutable int n_moves_ = 0;  // noted, and not made yet
  int from_[Moves::kMost] = {};
  int to_[Moves::kMost] = {};
};

}  // namespace foredraft::inline v0::cuda
