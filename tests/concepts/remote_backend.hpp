#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/linear.hpp>

#include "concepts/remote_pointer.hpp"

/// A backend whose memory only its own operators can read: weights, activations, keys and values
/// are behind pointers that nobody else can follow. A model that looks into one of them does not
/// compile. The operators are those of Reference, so what a model computes over it can be compared.
namespace archetype {

namespace fd = foredraft;

class RemoteMatrix {
 public:
  RemoteMatrix() = default;
  explicit RemoteMatrix(fd::Reference::Matrix values) : values_(std::move(values)) {}
  RemoteMatrix(RemoteMatrix&&) = default;
  RemoteMatrix& operator=(RemoteMatrix&&) = default;

 private:
  friend RemoteWorker;
  fd::Reference::Matrix values_;
};

class RemoteVector {
 public:
  RemoteVector() = default;
  explicit RemoteVector(std::vector<float> values) : values_(std::move(values)) {}
  RemoteVector(RemoteVector&&) = default;
  RemoteVector& operator=(RemoteVector&&) = default;
  Remote<const float> data() const { return Remote<const float>(values_.data()); }
  bool empty() const { return values_.empty(); }

 private:
  std::vector<float> values_;
};

template <typename T>
class RemoteBuffer {
 public:
  RemoteBuffer() = default;
  RemoteBuffer(RemoteBuffer&&) = default;
  Remote<T> reserve(std::size_t n) { return Remote<T>(memory_.reserve(n)); }
  Remote<const T> write(std::span<const T> values) {
    return Remote<const T>(memory_.write(values));
  }

 private:
  fd::HostBuffer<T> memory_;
};

/// Storage of keys and values. What of it is copied to the host is numbers without a meaning there.
class RemoteRows {
 public:
  enum class value_type : std::uint32_t {
  };

  class Layer {
    friend RemoteRows;
    friend RemoteWorker;
    fd::cpu::Rows<float>::Layer layer_;
  };

  RemoteRows() = default;
  RemoteRows(const fd::CacheShape& shape, int n_rows, bool at_once)
      : rows_(shape, n_rows, at_once) {}
  static double bytes(const fd::CacheShape& shape, int n_rows) {
    return fd::cpu::Rows<float>::bytes(shape, n_rows);
  }
  int size() const noexcept { return rows_.size(); }
  void commit(int n) noexcept { rows_.commit(n); }
  void truncate(int n) noexcept { rows_.truncate(n); }
  void move(int from, int to) noexcept { rows_.move(from, to); }
  Layer layer(int i) noexcept {
    Layer layer;
    layer.layer_ = rows_.layer(i);
    return layer;
  }
  std::size_t key_elements(int size) const { return rows_.key_elements(size) / sizeof(value_type); }
  std::size_t value_elements(int size) const {
    return rows_.value_elements(size) / sizeof(value_type);
  }
  void copy_to(int begin, int end, std::vector<value_type>& k, std::vector<value_type>& v) const {
    std::vector<std::byte> keys, values;
    rows_.copy_to(begin, end, keys, values);
    const auto numbers = [](const std::vector<std::byte>& from, std::vector<value_type>& to) {
      to.resize(from.size() / sizeof(value_type));
      std::memcpy(to.data(), from.data(), from.size());
    };
    numbers(keys, k);
    numbers(values, v);
  }
  void append(int n, std::span<const value_type> k, std::span<const value_type> v) noexcept {
    rows_.append(n, std::as_bytes(k), std::as_bytes(v));
  }

 private:
  fd::cpu::Rows<float> rows_;
};
static_assert(fd::RowStorage<RemoteRows>);

/// The operators of Reference, with arguments that lead them to the memory.
class RemoteWorker {
  using Here = fd::Reference::Worker;
  using Stored = fd::cpu::Rows<float>;

 public:
  using Matrix = RemoteMatrix;
  template <typename T>
  using Pointer = Remote<T>;

  explicit RemoteWorker(Here& here) : here_(here) {}

  int index() const noexcept { return 0; }
  int count() const noexcept { return 1; }
  void barrier() noexcept {}

  void embed(const fd::EmbedArgs<RemoteWorker>& a) noexcept {
    here_.embed({.table = matrix(a.table), .tokens = a.tokens, .scale = a.scale, .x = a.x.place_});
  }
  void qkv(const fd::QkvArgs<RemoteWorker, RemoteRows>& a) noexcept {
    const auto kv = layers(a.kv);
    here_.qkv(fd::QkvArgs<Here, Stored>{.x = a.x.place_,
                                        .n_rows = a.n_rows,
                                        .norm = norm(a.norm),
                                        .wq = matrix(a.wq),
                                        .wk = matrix(a.wk),
                                        .wv = matrix(a.wv),
                                        .q_bias = a.q_bias.place_,
                                        .k_bias = a.k_bias.place_,
                                        .v_bias = a.v_bias.place_,
                                        .n_heads = a.n_heads,
                                        .n_kv_heads = a.n_kv_heads,
                                        .d_head = a.d_head,
                                        .rope = {.kind = a.rope.kind,
                                                 .n_rot = a.rope.n_rot,
                                                 .cos = a.rope.cos.place_,
                                                 .sin = a.rope.sin.place_},
                                        .sequences = a.sequences,
                                        .kv = kv,
                                        .q = a.q.place_,
                                        .q_norm = norm(a.q_norm),
                                        .k_norm = norm(a.k_norm),
                                        .norms_all_heads = a.norms_all_heads,
                                        .v_norm = norm(a.v_norm),
                                        .w_gate = matrix(a.w_gate),
                                        .gate = a.gate.place_});
  }
  void attend(const fd::AttendArgs<RemoteWorker, RemoteRows>& a) noexcept {
    const auto kv = layers(a.kv);
    here_.attend(fd::AttendArgs<Here, Stored>{.q = a.q.place_,
                                              .n_rows = a.n_rows,
                                              .n_heads = a.n_heads,
                                              .n_kv_heads = a.n_kv_heads,
                                              .d_head = a.d_head,
                                              .scale = a.scale,
                                              .sequences = a.sequences,
                                              .kv = kv,
                                              .wo = matrix(a.wo),
                                              .x = a.x.place_,
                                              .window = a.window,
                                              .post_norm = norm(a.post_norm),
                                              .softcap = a.softcap,
                                              .residual = a.residual,
                                              .gate = a.gate.place_});
  }
  void feed_forward(const fd::FeedForwardArgs<RemoteWorker>& a) noexcept {
    here_.feed_forward({.x = a.x.place_,
                        .n_rows = a.n_rows,
                        .norm = norm(a.norm),
                        .activation = a.activation,
                        .gate = matrix(a.gate),
                        .up = matrix(a.up),
                        .down = matrix(a.down),
                        .post_norm = norm(a.post_norm),
                        .residual = a.residual,
                        .factor = a.factor.place_,
                        .factor_stride = a.factor_stride,
                        .output_scale = a.output_scale});
  }
  void tap(const fd::TapArgs<RemoteWorker>& a) noexcept {
    here_.tap({.x = a.x.place_, .d_model = a.d_model, .taps = a.taps});
  }
  void head(const fd::HeadArgs<RemoteWorker>& a) noexcept {
    here_.head({.x = a.x.place_,
                .rows = a.rows,
                .norm = norm(a.norm),
                .w = matrix(a.w),
                .argmax = a.argmax,
                .logits = a.logits,
                .maxima = a.maxima,
                .sums = a.sums,
                .scale = a.scale,
                .softcap = a.softcap});
  }

 private:
  static const Here::Matrix* matrix(const RemoteMatrix* matrix) {
    return matrix == nullptr ? nullptr : &matrix->values_;
  }
  static fd::RmsNorm<Here> norm(const fd::RmsNorm<RemoteWorker>& norm) {
    return {.weight = norm.weight.place_, .epsilon = norm.epsilon};
  }
  static std::vector<Stored::Layer> layers(std::span<const RemoteRows::Layer> kv) {
    std::vector<Stored::Layer> layers;
    for (const RemoteRows::Layer& layer : kv) layers.push_back(layer.layer_);
    return layers;
  }

  Here& here_;
};

class RemoteBackend {
 public:
  using Worker = RemoteWorker;
  using Matrix = RemoteMatrix;
  using Vector = RemoteVector;
  template <typename T>
  using Buffer = RemoteBuffer<T>;

  RemoteBackend() = default;
  RemoteBackend(RemoteBackend&&) = delete;

  Matrix pack(const fd::TensorView& weights) { return Matrix(reference_.pack(weights)); }
  Vector vector(const fd::TensorView& weights) { return Vector(reference_.vector(weights)); }
  template <typename Body>
  void run(const fd::PassShape& shape, Body&& body) {
    reference_.run(shape, [&](auto& here) noexcept {
      Worker worker(here);
      body(worker);
    });
  }

 private:
  fd::Reference reference_;
};
static_assert(fd::Backend<RemoteBackend>);
static_assert(fd::AttendsOver<RemoteWorker, RemoteRows>);
static_assert(!fd::AttendsOver<RemoteWorker, fd::cpu::Rows<float>>);
static_assert(fd::KeyValueCache<fd::LinearCache<RemoteRows>>);

}  // namespace archetype
