#include <foredraft/backend/cuda/recurrent.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/model/layer_stack.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using on_device::Device;
using Backend = fd::CudaBackend<Device>;
using Slots = fd::cuda::Slots<Device>;
using Replay = fd::cuda::Replay<Device>;
static_assert(fd::RecursOver<Backend::Worker, Slots> && fd::RecursOver<Backend::Worker, Replay>);
static_assert(!fd::RecursOver<Backend::Worker, fd::Slots>);

namespace {

constexpr int kModel = 64;

/// Two groups of scans, more heads of values than of keys, and sizes that are multiples of no
/// block's.
struct Shapes {
  fd::ShortConvShape conv{.width = 160, .kernel = 3};
  fd::SelectiveScanShape scan{
      .width = 96, .n_heads = 6, .d_head = 16, .d_state = 37, .n_groups = 2, .kernel = 4};
  fd::GatedDeltaNetShape delta{
      .width = 160, .n_heads = 4, .n_key_heads = 2, .d_key = 20, .d_value = 40, .kernel = 4};
  int only = -1;  // one of the three layers, or all of them

  std::vector<fd::LayerShape> all() const {
    std::vector<fd::LayerShape> layers{
        {.recurrent = conv}, {.recurrent = scan}, {.recurrent = delta}};
    if (only >= 0) return {layers[fd::idx(only)]};
    return layers;
  }
};

template <typename B>
fd::LayerStack<B> stack(B& backend, const Shapes& of, fd::TensorType type) {
  unsigned seed = 0;
  const auto matrix = [&](int n_out, int n_in) {
    return backend.pack(mini::weights(type, n_out, n_in, ++seed).view());
  };
  const auto vector = [&](int n, float around, float spread = 0.1f) {
    std::vector<float> values = mini::normals(fd::idx(n), ++seed, spread);
    for (float& value : values) value += around;
    return backend.vector(
        {fd::TensorType::kF32, 1, values.size(), std::as_bytes(std::span<const float>(values))});
  };
  std::vector<fd::LayerWeights<B>> layers(3);
  layers[0].norm = vector(kModel, 1);
  layers[0].recurrent =
      fd::ShortConvWeights<B>{.in = matrix(of.conv.d_in(), kModel),
                              .kernel = vector(int{of.conv.kernel} * int{of.conv.width}, 0, 0.6f),
                              .out = matrix(kModel, of.conv.width)};
  layers[1].norm = vector(kModel, 1);
  layers[1].recurrent = fd::SelectiveScanWeights<B>{
      .in = matrix(of.scan.d_in(), kModel),
      .kernel = vector(int{of.scan.kernel} * int{of.scan.d_conv()}, 0, 0.5f),
      .conv_bias = vector(of.scan.d_conv(), 0),
      .dt_bias = vector(of.scan.n_heads, -1),
      .decay = vector(of.scan.n_heads, -1),
      .skip = vector(of.scan.n_heads, 1),
      .group_norm = vector(of.scan.width, 1),
      .out = matrix(kModel, of.scan.width)};
  layers[2].norm = vector(kModel, 1);
  layers[2].recurrent = fd::GatedDeltaNetWeights<B>{
      .qkv = matrix(of.delta.d_conv(), kModel),
      .gate = matrix(of.delta.width, kModel),
      .beta = matrix(of.delta.n_heads, kModel),
      .alpha = matrix(of.delta.n_heads, kModel),
      .kernel = vector(int{of.delta.kernel} * int{of.delta.d_conv()}, 0, 0.5f),
      .dt_bias = vector(of.delta.n_heads, -1),
      .decay = vector(of.delta.n_heads, -0.5f),
      .head_norm = vector(of.delta.d_value, 1),
      .out = matrix(kModel, of.delta.width)};
  if (of.only >= 0) {
    std::swap(layers[0], layers[fd::idx(of.only)]);
    layers.resize(1);
  }
  return {kModel, 1e-5f, {}, of.all(), std::move(layers)};
}

/// How a test reads keys and values on a backend: there are none, but a cache asks.
template <typename B>
using RowsOf = std::conditional_t<std::same_as<B, Backend>, fd::cuda::Rows<Device, float>, float>;

/// Passes over layers, of rows whose inputs are those of a long random text.
template <typename B, typename V>
class Layers {
 public:
  using Cache = fd::HybridCache<RowsOf<B>, V>;
  using Worker = typename B::Worker;

  Layers(B& backend, const Shapes& shapes, fd::TensorType type)
      : backend_(backend), shapes_(shapes), layers_(stack(backend, shapes, type)), work_(layers_) {}

  Cache cache() const {
    fd::CacheShape shape({}, 64);
    for (const fd::LayerShape& layer : shapes_.all()) shape.states.push_back(state_shape(layer));
    return Cache(shape, 64, 16);
  }

  /// @param rows  of the text, for the rows of all requests
  std::vector<float> pass(std::vector<fd::Request<Cache>> requests, const std::vector<int>& rows) {
    std::vector<float> x;
    for (const int row : rows) {
      x.insert(x.end(), text_.begin() + row * kModel, text_.begin() + (row + 1) * kModel);
    }
    const auto prepared = layers_.prepare(std::span(requests), work_);
    fd::PassShape shape = layers_.shape();
    shape.n_rows = prepared.n_rows;
    (void)x_.write(x);
    const fd::Out<Worker> in_out = x_.reserve(0);
    std::vector<fd::Tap> taps;
    for (int i = 0; i < prepared.n_rows; ++i) taps.push_back({i, x.data() + i * kModel});
    backend_.run(shape, [&](Worker& worker) noexcept {
      layers_.run(worker, prepared, in_out, [](int) noexcept {});
      worker.tap(fd::TapArgs<Worker>{.x = in_out, .d_model = kModel, .taps = taps});
    });
    for (const auto& request : requests) request.cache->applied();
    return x;
  }

 private:
  static fd::StateShape state_shape(const fd::LayerShape& layer) {
    return std::visit(
        [](const auto& recurrent) {
          if constexpr (requires { recurrent.state(); }) return recurrent.state();
          return fd::StateShape{};
        },
        layer.recurrent);
  }

  B& backend_;
  Shapes shapes_;
  fd::LayerStack<B> layers_;
  typename fd::LayerStack<B>::Workspace work_;
  typename B::template Buffer<float> x_;
  std::vector<float> text_ = mini::normals(20 * kModel, 77);
};

std::vector<int> numbers(int first, int n) {
  std::vector<int> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(first + i);
  return numbers;
}

/// A prompt in passes of `block`, of which the last also has the rows of a second sequence; then a
/// tree behind both, in two requests of one pass; then a part of it.
/// @return [rows, kModel] of the first sequence and of the tree
template <typename V, typename B>
std::vector<float> run(B& backend, const Shapes& shapes, fd::TensorType type, int block) {
  Layers<B, V> layers(backend, shapes, type);
  auto one = layers.cache();
  auto other = layers.cache();
  std::vector<float> result;
  const auto keep = [&](const std::vector<float>& x, int n) {
    result.insert(result.end(), x.begin(), x.begin() + n * kModel);
  };
  for (int first = 0; first < 8; first += block) {
    const int n = std::min(block, 8 - first);
    one.stage(mini::chain(n));
    std::vector<int> rows = numbers(first, n);
    std::vector<fd::Request<decltype(one)>> requests{{&one, 0, n, {}, nullptr}};
    if (first + n == 8) {
      other.stage(mini::chain(3));
      requests.push_back({&other, 0, 3, {}, nullptr});
      for (const int row : numbers(12, 3)) rows.push_back(row);
    }
    keep(layers.pass(std::move(requests), rows), n);
    one.commit(fd::first_nodes(n));
  }
  one.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 0}, {4, 1}, {5, 2}});
  keep(layers.pass({{&one, 0, 3, {}, nullptr}, {&one, 3, 2, {}, nullptr}}, numbers(8, 5)), 5);
  // The path {0, 2} is committed; node 4 stays, and gets a child.
  one.commit(std::vector<fd::NodeIndex>{0, 2});
  one.stage(std::vector<fd::Node>{{6, 0}});
  keep(layers.pass({{&one, 1, 1, {}, nullptr}}, {13}), 1);
  return result;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0, greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    greatest = std::fmax(greatest, std::abs(static_cast<double>(b[i])));
  }
  return worst / greatest;
}

}  // namespace

TEST_CASE("recurrent layers compute what the reference does") {
  Backend cuda;
  fd::Reference reference;
  Shapes small;
  Shapes odd;  // nothing begins at whole fours
  odd.delta = {.width = 27, .n_heads = 3, .n_key_heads = 3, .d_key = 7, .d_value = 9, .kernel = 2};
  Shapes large;  // more than one register of everything, and heads that share keys far apart
  large.scan.d_state = 150;
  large.delta.d_key = 70;
  large.delta.tiled = true;
  for (Shapes shapes : {small, odd, large}) {
    for (shapes.only = 0; shapes.only < 3; ++shapes.only) {
      CAPTURE(shapes.only);
      const auto exact = run<fd::Slots>(reference, shapes, fd::TensorType::kF32, 8);
      const auto ours = run<Slots>(cuda, shapes, fd::TensorType::kF32, 8);
      CHECK(distance(ours, exact) < 1e-5);
      CHECK(distance(ours, exact) > 0);
    }
  }
}

TEST_CASE("a row is the same to the bit in every pass, with slots and with replay") {
  Backend cuda;
  for (const auto type : {fd::TensorType::kF32, fd::TensorType::kQ8_0}) {
    const auto expected = run<Slots>(cuda, {}, type, 1);
    for (const int block : {1, 2, 3, 5, 8}) {
      CAPTURE(block);
      CHECK(run<Slots>(cuda, {}, type, block) == expected);
      CHECK(run<Replay>(cuda, {}, type, block) == expected);
    }
  }
}

TEST_CASE("sequences that share a launch, or take several, do not see each other") {
  constexpr int kMany = 40;
  Backend cuda;
  Layers<Backend, Replay> layers(cuda, {}, fd::TensorType::kQ8_0);
  using Cache = Layers<Backend, Replay>::Cache;
  std::vector<Cache> caches;
  std::vector<fd::Request<Cache>> requests;
  for (int i = 0; i < kMany; ++i) caches.push_back(layers.cache());
  std::vector<int> rows;
  for (int i = 0; i < kMany; ++i) {
    caches[fd::idx(i)].stage(mini::chain(1 + i % 2));
    requests.push_back({&caches[fd::idx(i)], 0, 1 + i % 2, {}, nullptr});
    for (const int row : numbers(i % 7, 1 + i % 2)) rows.push_back(row);
  }
  const std::vector<float> together = layers.pass(requests, rows);
  std::size_t at = 0;
  for (int i = 0; i < kMany; ++i) {
    Cache alone = layers.cache();
    alone.stage(mini::chain(1 + i % 2));
    const auto one = layers.pass({{&alone, 0, 1 + i % 2, {}, nullptr}}, numbers(i % 7, 1 + i % 2));
    CHECK(std::equal(one.begin(), one.end(), together.begin() + static_cast<std::ptrdiff_t>(at)));
    at += one.size();
  }
  CHECK(at == together.size());
}

#ifndef __CUDACC__

TEST_CASE("what no kernel was made for is refused") {
  Backend cuda;
  Shapes shapes;
  shapes.scan.d_state = 600;
  CHECK(code_of([&] { (void)run<Slots>(cuda, shapes, fd::TensorType::kF32, 8); }) ==
        fd::ErrorCode::kUnsupportedModel);
  Shapes others;
  others.delta.d_key = 300;
  CHECK(code_of([&] { (void)run<Replay>(cuda, others, fd::TensorType::kF32, 8); }) ==
        fd::ErrorCode::kUnsupportedModel);
}

#endif
