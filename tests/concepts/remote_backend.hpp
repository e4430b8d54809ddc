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

/// A backend whose memory only its own operators can read: weights, activations, keys and values
/// are behind pointers that nobody else can follow. A model that looks into one of them does not
/// compile. The operators are those of Reference, so what a model computes over it can be compared.
namespace archetype {

namespace fd = foredraft;

class RemoteWorker;

/// A pointer into remote memory. It can be null, copied and made const, and nothing else.
template <typename T>
class Remote {
 public:
  Remote(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor)
  explicit Remote(T* place) : place_(place) {}
  operator Remote<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return Remote<const T>(place_);
  }

 private:
  friend RemoteWorker;
  T* place_ = nullptr;
};

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
    here_.embed({&a.table->values_, a.tokens, a.scale, a.x.place_});
  }
  void qkv(const fd::QkvArgs<RemoteWorker, RemoteRows>& a) noexcept {
    const auto kv = layers(a.kv);
    here_.qkv(
        fd::QkvArgs<Here, Stored>{a.x.place_,
                                  a.n_rows,
                                  norm(a.norm),
                                  &a.wq->values_,
                                  &a.wk->values_,
                                  &a.wv->values_,
                                  a.q_bias.place_,
                                  a.k_bias.place_,
                                  a.v_bias.place_,
                                  a.n_heads,
                                  a.n_kv_heads,
                                  a.d_head,
                                  {a.rope.kind, a.rope.n_rot, a.rope.cos.place_, a.rope.sin.place_},
                                  a.sequences,
                                  kv,
                                  a.q.place_,
                                  norm(a.q_norm),
                                  norm(a.k_norm)});
  }
  void attend(const fd::AttendArgs<RemoteWorker, RemoteRows>& a) noexcept {
    const auto kv = layers(a.kv);
    here_.attend(fd::AttendArgs<Here, Stored>{a.q.place_, a.n_rows, a.n_heads, a.n_kv_heads,
                                              a.d_head, a.scale, a.sequences, kv, &a.wo->values_,
                                              a.x.place_, a.window, norm(a.post_norm)});
  }
  void feed_forward(const fd::FeedForwardArgs<RemoteWorker>& a) noexcept {
    here_.feed_forward({a.x.place_, a.n_rows, norm(a.norm), a.activation, &a.gate->values_,
                        &a.up->values_, &a.down->values_, norm(a.post_norm)});
  }
  void tap(const fd::TapArgs<RemoteWorker>& a) noexcept {
    here_.tap({a.x.place_, a.d_model, a.taps});
  }
  void head(const fd::HeadArgs<RemoteWorker>& a) noexcept {
    here_.head(
        {a.x.place_, a.rows, norm(a.norm), &a.w->values_, a.argmax, a.logits, a.maxima, a.sums});
  }

 private:
  static fd::RmsNorm<Here> norm(const fd::RmsNorm<RemoteWorker>& norm) {
    return {norm.weight.place_, norm.epsilon};
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
