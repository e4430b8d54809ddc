#include <foredraft/backend/cpu/recurrent.hpp>

#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/model/layer_stack.hpp>

#include "backend/cpu/for_each_table.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kModel = 96;

/// Widths that a quantized matrix takes, and a state that is no multiple of a vector and is computed in
/// two parts; two groups, and nothing behind the second layer.
const fd::ShortConvShape kConv{.width = 96, .kernel = 3};
const fd::SelectiveScanShape kScan{
    .width = 96, .n_heads = 6, .d_head = 16, .d_state = 300, .n_groups = 2, .kernel = 4};

/// Keys of neighbours, and states that are not square; heads are no multiple of a vector, and are computed
/// in two parts.
const fd::GatedDeltaNetShape kDelta{
    .width = 288, .n_heads = 4, .n_key_heads = 2, .d_key = 20, .d_value = 72, .kernel = 4};

std::vector<fd::LayerShape> shapes() {
  return {{.feed_forward = {fd::Activation::kSilu, 128}, .recurrent = kConv},
          {.recurrent = kScan},
          {.recurrent = kDelta}};
}

template <typename B>
fd::LayerStack<B> stack(B& backend, fd::TensorType type) {
  unsigned seed = 0;
  const auto matrix = [&](int n_out, int n_in) {
    return backend.pack(mini::weights(type, n_out, n_in, ++seed).view());
  };
  const auto vector = [&](int n, float around, float spread = 0.1f) {
    std::vector<float> values = mini::normals(fd::idx(n), ++seed, spread);
    for (float& value : values) value += around;
    return values;
  };
  std::vector<fd::LayerWeights<B>> layers(3);
  layers[0].norm = vector(kModel, 1);
  fd::ShortConvWeights<B> conv{.in = matrix(kConv.d_in(), kModel),
                               .kernel = vector(3 * int{kConv.width}, 0, 0.6f),
                               .out = matrix(kModel, kConv.width)};
  layers[0].recurrent = std::move(conv);
  layers[0].feed_forward.norm = vector(kModel, 1);
  layers[0].feed_forward.gate = matrix(128, kModel);
  layers[0].feed_forward.up = matrix(128, kModel);
  layers[0].feed_forward.down = matrix(kModel, 128);
  layers[1].norm = vector(kModel, 1);
  fd::SelectiveScanWeights<B> scan{.in = matrix(kScan.d_in(), kModel),
                                   .kernel = vector(4 * int{kScan.d_conv()}, 0, 0.5f),
                                   .conv_bias = vector(kScan.d_conv(), 0),
                                   .dt_bias = vector(kScan.n_heads, -1),
                                   .decay = vector(kScan.n_heads, -1),
                                   .skip = vector(kScan.n_heads, 1),
                                   .group_norm = vector(kScan.width, 1),
                                   .out = matrix(kModel, kScan.width)};
  layers[1].recurrent = std::move(scan);
  layers[2].norm = vector(kModel, 1);
  fd::GatedDeltaNetWeights<B> delta{.qkv = matrix(kDelta.d_conv(), kModel),
                                    .gate = matrix(kDelta.width, kModel),
                                    .beta = matrix(kDelta.n_heads, kModel),
                                    .alpha = matrix(kDelta.n_heads, kModel),
                                    .kernel = vector(4 * int{kDelta.d_conv()}, 0, 0.5f),
                                    .dt_bias = vector(kDelta.n_heads, -1),
                                    .decay = vector(kDelta.n_heads, -0.5f),
                                    .head_norm = vector(kDelta.d_value, 1),
                                    .out = matrix(kModel, kDelta.width)};
  layers[2].recurrent = std::move(delta);
  return {kModel, 1e-5f, {}, shapes(), std::move(layers)};
}

template <typename C>
C cache() {
  fd::CacheShape shape({}, 64);
  shape.states = {kConv.state(), kScan.state(), kDelta.state()};
  return C(shape, 64, 16);
}

/// A prompt in passes of `block`, of which the last also has the rows of a second sequence; then a
/// tree behind both. @return [rows of the first sequence and of the tree, kModel]
template <typename V, typename B>
std::vector<float> run(B& backend, fd::TensorType type, int block) {
  using Cache = fd::HybridCache<float, V>;
  const fd::LayerStack<B> layers = stack(backend, type);
  typename fd::LayerStack<B>::Workspace work(layers);
  Cache one = cache<Cache>();
  Cache other = cache<Cache>();
  const std::vector<float> inputs = mini::normals(20 * kModel, 77);
  std::vector<float> result;
  const auto pass = [&](std::vector<fd::Request<Cache>> requests, std::vector<float> x) {
    const auto prepared = layers.prepare(std::span(requests), work);
    fd::PassShape shape = layers.shape();
    shape.n_rows = prepared.n_rows;
    backend.run(shape, [&](auto& worker) noexcept {
      layers.run(worker, prepared, x.data(), [](int) noexcept {});
    });
    for (const auto& request : requests) request.cache->applied();
    return x;
  };
  const auto rows = [&](int first, int n) {
    return std::vector<float>(inputs.begin() + first * kModel,
                              inputs.begin() + (first + n) * kModel);
  };
  const auto keep = [&](const std::vector<float>& x, int n) {
    result.insert(result.end(), x.begin(), x.begin() + n * kModel);
  };
  for (int first = 0; first < 8; first += block) {
    const int n = std::min(block, 8 - first);
    one.stage(mini::chain(n));
    std::vector<float> x = rows(first, n);
    std::vector<fd::Request<Cache>> requests{{&one, 0, n, {}, nullptr}};
    const bool last = first + n == 8;
    if (last) {
      other.stage(mini::chain(3));
      requests.push_back({&other, 0, 3, {}, nullptr});
      for (const float value : rows(12, 3)) x.push_back(value);
    }
    keep(pass(requests, std::move(x)), n);
    one.commit(fd::first_nodes(n));
  }
  // In two requests of one pass, where the second begins behind nodes of the first.
  one.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 0}, {4, 1}, {5, 2}});
  keep(pass({{&one, 0, 3, {}, nullptr}, {&one, 3, 2, {}, nullptr}}, rows(8, 5)), 5);
  // The path {0, 2} is committed; node 4 stays, and gets a child.
  one.commit(std::vector<fd::NodeIndex>{0, 2});
  one.stage(std::vector<fd::Node>{{6, 0}});
  keep(pass({{&one, 1, 1, {}, nullptr}}, rows(13, 1)), 1);
  return result;
}

}  // namespace

TEST_CASE("recurrent layers compute what the reference does, with every instruction set") {
  fd::Reference reference;
  const std::vector<float> exact = run<fd::Slots>(reference, fd::TensorType::kF32, 8);
  CHECK(run<fd::Replay>(reference, fd::TensorType::kF32, 3) == exact);
  for_each_table([&](const fd::cpu::KernelTable& table) {
    fd::Cpu cpu{{.threads = 2, .isa = table.isa}};
    const std::vector<float> ours = run<fd::Slots>(cpu, fd::TensorType::kF32, 8);
    REQUIRE(ours.size() == exact.size());
    double worst = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      worst = std::fmax(worst, std::abs(ours[i] - exact[i]));
    CHECK(worst < 1e-4);
    CHECK(worst > 0);
  });
}

TEST_CASE(
    "a row is the same to the bit in every pass, with slots and with replay, on any threads") {
  for_each_table([&](const fd::cpu::KernelTable& table) {
    for (const auto type : {fd::TensorType::kF32, fd::TensorType::kQ8_0}) {
      fd::Cpu one{{.threads = 1, .isa = table.isa}};
      const std::vector<float> expected = run<fd::Slots>(one, type, 1);
      for (const int threads : {1, 3}) {
        fd::Cpu cpu{{.threads = threads, .isa = table.isa}};
        for (const int block : {1, 2, 3, 5, 8}) {
          CAPTURE(threads, block);
          CHECK(run<fd::Slots>(cpu, type, block) == expected);
          CHECK(run<fd::Replay>(cpu, type, block) == expected);
        }
      }
    }
  });
}
