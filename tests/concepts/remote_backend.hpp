#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/host_states.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/state_cache.hpp>

#include "concepts/remote_pointer.hpp"

/// Backends whose memory only their own operators can read: weights, activations, keys, values and
/// states are behind pointers that nobody else can follow. A model that looks into one of them does
/// not compile. The operators are those of Reference, so what a model computes can be compared.
namespace archetype {

namespace fd = foredraft;

class RemoteMatrix {
 public:
  RemoteMatrix() = default;
  explicit RemoteMatrix(fd::Reference::Matrix values) : values_(std::move(values)) {}
  RemoteMatrix(RemoteMatrix&&) = default;
  RemoteMatrix& operator=(RemoteMatrix&&) = default;

 private:
  fd::Reference::Matrix values_;
};
static_assert(sizeof(RemoteMatrix) == sizeof(fd::Reference::Matrix));

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
  using Stored = fd::cpu::Rows<float>;
  enum class value_type : std::uint32_t {
  };

  class Layer {
    friend RemoteRows;
    Stored::Layer layer_;
  };

  RemoteRows() = default;
  RemoteRows(const fd::CacheShape& shape, int n_rows, bool at_once)
      : rows_(shape, n_rows, at_once) {}
  static double bytes(const fd::CacheShape& shape, int n_rows) {
    return Stored::bytes(shape, n_rows);
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
      std::ranges::copy(from, std::as_writable_bytes(std::span(to)).begin());
    };
    numbers(keys, k);
    numbers(values, v);
  }
  void append(int n, std::span<const value_type> k, std::span<const value_type> v) noexcept {
    rows_.append(n, std::as_bytes(k), std::as_bytes(v));
  }

 protected:
  explicit RemoteRows(Stored rows) : rows_(std::move(rows)) {}
  Stored rows_;
};
static_assert(fd::RowStorage<RemoteRows>);

/// The same, where layers with a window are rings.
class RemoteRings : public RemoteRows {
 public:
  RemoteRings() = default;
  RemoteRings(const fd::CacheShape& shape, int n_rows, bool at_once, int max_staged = 0)
      : RemoteRows(Stored(shape, n_rows, at_once, max_staged)) {}
  static double bytes(const fd::CacheShape& shape, int n_rows, int max_staged = 0) {
    return Stored::bytes(shape, n_rows, max_staged);
  }
  void stage(int n) noexcept { rows_.stage(n); }
  bool holds(int n) const noexcept { return rows_.holds(n); }
  bool keeps_all() const noexcept { return rows_.keeps_all(); }
};
static_assert(fd::RingStorage<RemoteRings>);

/// Storage of states, which are kept as V keeps them.
template <typename V>
class RemoteStates : V {
 public:
  using Stored = V;
  class Layer {
    friend RemoteStates;
    typename V::Layer layer_;
  };

  using V::bytes, V::copy_to, V::elements, V::replays, V::restore, V::V;
  Layer layer(int i) noexcept {
    Layer layer;
    layer.layer_ = V::layer(i);
    return layer;
  }
};
static_assert(fd::StateStorage<RemoteStates<fd::Replay>>);
static_assert(fd::StateStorage<RemoteStates<fd::Slots>>);

/// The operators that every model asks for. Their arguments are of a worker W, this one or one that
/// is made from it.
class RemoteWorker {
 public:
  using Matrix = RemoteMatrix;
  template <typename T>
  using Pointer = Remote<T>;

  explicit RemoteWorker(fd::Reference::Worker& here) : here_(here) {}

  int index() const noexcept { return 0; }
  int count() const noexcept { return 1; }
  void barrier() noexcept {}

  template <typename W>
  void embed(const fd::EmbedArgs<W>& args) noexcept {
    here_.embed(opened(args));
  }
  template <typename W, std::derived_from<RemoteRows> R>
  void qkv(const fd::QkvArgs<W, R>& args) noexcept {
    here_.qkv(opened(args));
  }
  template <typename W, std::derived_from<RemoteRows> R>
  void attend(const fd::AttendArgs<W, R>& args) noexcept {
    here_.attend(opened(args));
  }
  template <typename W>
  void feed_forward(const fd::FeedForwardArgs<W>& args) noexcept {
    here_.feed_forward(opened(args));
  }
  template <typename W>
  void tap(const fd::TapArgs<W>& args) noexcept {
    here_.tap(opened(args));
  }
  template <typename W>
  void head(const fd::HeadArgs<W>& args) noexcept {
    here_.head(opened(args));
  }

 protected:
  /// The arguments as Reference takes them. Pointers, matrices and layers hold nothing but what they
  /// hide, so both have the same bytes; and no member can be forgotten.
  template <template <typename...> typename Args, typename W, typename... S>
  static auto opened(const Args<W, S...>& args) noexcept {
    static_assert(((sizeof(typename S::Layer) == sizeof(typename S::Stored::Layer)) && ...));
    return std::bit_cast<Args<fd::Reference::Worker, typename S::Stored...>>(args);
  }

  fd::Reference::Worker& here_;
};

/// A worker with all operators there are.
class FullRemoteWorker : public RemoteWorker {
 public:
  template <typename T>
  using Pointer = MovingRemote<T>;
  static constexpr bool partial_layers = true;

  using RemoteWorker::RemoteWorker;

  template <typename W>
  void embed_layers(const fd::EmbedLayersArgs<W>& args) noexcept {
    here_.embed_layers(opened(args));
  }
  template <typename W>
  void mixture(const fd::MixtureArgs<W>& args) noexcept {
    here_.mixture(opened(args));
  }
  template <typename W, typename V>
  void short_conv(const fd::ShortConvArgs<W, RemoteStates<V>>& args) noexcept {
    here_.short_conv(opened(args));
  }
  template <typename W, typename V>
  void selective_scan(const fd::SelectiveScanArgs<W, RemoteStates<V>>& args) noexcept {
    here_.selective_scan(opened(args));
  }
  template <typename W, typename V>
  void gated_delta_net(const fd::GatedDeltaNetArgs<W, RemoteStates<V>>& args) noexcept {
    here_.gated_delta_net(opened(args));
  }
};

/// @tparam W  its worker
template <typename W>
class RemoteBackendOf {
 public:
  using Worker = W;
  template <typename S>
  using Rows = std::enable_if_t<std::same_as<S, fd::f16>, RemoteRings>;
  using States = RemoteStates<fd::Replay>;
  using Matrix = RemoteMatrix;
  using Vector = RemoteVector;
  template <typename T>
  using Buffer = RemoteBuffer<T>;

  RemoteBackendOf() = default;
  RemoteBackendOf(RemoteBackendOf&&) = delete;

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
using RemoteBackend = RemoteBackendOf<RemoteWorker>;
static_assert(fd::Backend<RemoteBackend>);
static_assert(fd::AttendsOver<RemoteWorker, RemoteRows>);
static_assert(!fd::AttendsOver<RemoteWorker, fd::cpu::Rows<float>>);
static_assert(fd::KeyValueCache<fd::LinearCache<RemoteRows>>);
static_assert(fd::NamesRows<RemoteBackend, fd::f16> && !fd::NamesRows<RemoteBackend, fd::q8_0>);
static_assert(!fd::NamesStates<RemoteBackend>);  // its worker has no recurrent layers

using FullRemoteBackend = RemoteBackendOf<FullRemoteWorker>;
static_assert(fd::Backend<FullRemoteBackend>);
static_assert(fd::MixesExperts<FullRemoteWorker> && fd::EmbedsLayers<FullRemoteWorker>);
static_assert(fd::RecursOver<FullRemoteWorker, RemoteStates<fd::Replay>>);
static_assert(!fd::RecursOver<FullRemoteWorker, fd::Replay>);
static_assert(fd::NamesStates<FullRemoteBackend>);
static_assert(fd::StateCache<fd::HybridCache<RemoteRings, RemoteStates<fd::Replay>>>);

}  // namespace archetype
