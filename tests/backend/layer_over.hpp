#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>

/// A layer with the rows of a test, which operators then read and write.
/// @shape k, v [n_heads, head_rows, row_elements(d_head)]
template <typename T>
class LayerOver {
 public:
  LayerOver(T* k, T* v, int d_head, int head_rows, int size, int n_heads = 1)
      : k_(k), v_(v), d_head_(d_head), head_rows_(head_rows), size_(size), n_heads_(n_heads) {
    keys_.resize(foredraft::idx(n_heads) * head_bytes());
    values_.resize(keys_.size());
    write();
  }

  std::vector<foredraft::cpu::AnyRows::Layer> layers() {
    const auto rows = [&](std::vector<std::byte>& of) {
      return foredraft::cpu::HeadRows{of.data(), foredraft::kFormatOf<T>, row_bytes(),
                                      head_bytes()};
    };
    return {{rows(keys_), rows(values_), size_}};
  }

  /// From the test's rows, and back to them.
  void write() {
    const auto layer = layers()[0];
    for_each_row([&](int head, int row, std::byte* key, std::byte* value) {
      layer.put_key(head, row, d_head_, key);
      std::copy_n(value, row_bytes(), layer.v.row(head, row));
    });
  }
  void read() {
    const auto layer = layers()[0];
    for_each_row([&](int head, int row, std::byte* key, std::byte* value) {
      foredraft::cpu::load_key<T>(layer.k.block(head, row), row % foredraft::cpu::kKeyBlock,
                                  d_head_, key);
      std::copy_n(layer.v.row(head, row), row_bytes(), value);
    });
  }

 private:
  std::size_t row_bytes() const { return foredraft::row_bytes(foredraft::kFormatOf<T>, d_head_); }
  std::size_t head_bytes() const {
    constexpr int kBlock = foredraft::cpu::kKeyBlock;
    return foredraft::idx((head_rows_ + kBlock - 1) / kBlock * kBlock) * row_bytes();
  }

  template <typename F>
  void for_each_row(F&& f) {
    for (int head = 0; head < n_heads_; ++head) {
      for (int row = 0; row < head_rows_; ++row) {
        const std::size_t at = foredraft::idx(head * head_rows_ + row) * row_bytes();
        f(head, row, reinterpret_cast<std::byte*>(k_) + at, reinterpret_cast<std::byte*>(v_) + at);
      }
    }
  }

  T* k_;
  T* v_;
  int d_head_;
  int head_rows_;
  int size_;
  int n_heads_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
};
