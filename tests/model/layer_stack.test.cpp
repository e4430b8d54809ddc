#include <foredraft/model/layer_stack.hpp>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/scores.hpp>

#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kModel = 96;
using Cache = fd::LinearCache<float>;

/// Three layers, no two of them alike: heads, widths, activations and ways to turn.
const std::vector<fd::LayerShape> kShapes = {
    {{4, 2, 16, 64, 32, 0.25f, 0}, {fd::Activation::kSilu, 128}},
    {{2, 1, 64, 128, 64, 0.3f, 1}, {fd::Activation::kGeluTanh, 64}},
    {{6, 6, 16, 96, 96, 0.2f, 0}, {fd::Activation::kSilu, 160}},
};

std::vector<fd::RopeRotations> turns() {
  return {fd::RopeRotations({fd::RopeKind::kAdjacent, 16, 10000.0, 1.0}),
          fd::RopeRotations({fd::RopeKind::kHalves, 32, 100.0, 0.5})};
}

template <typename B>
fd::LayerWeights<B> weights(B& backend, const fd::LayerShape& shape, unsigned seed) {
  const auto matrix = [&](int n_out, int n_in) {
    return backend.pack(mini::weights(fd::TensorType::kF32, n_out, n_in, ++seed).view());
  };
  const auto vector = [&](int n, float around) {
    std::vector<float> values = mini::normals(fd::idx(n), ++seed, 0.1f);
    for (float& value : values) value += around;
    return values;
  };
  const fd::AttentionShape& a = shape.attention;
  const fd::FeedForwardShape& f = shape.feed_forward;
  return {.norm = vector(kModel, 1),
          .attention = {.wq = matrix(a.d_q, kModel),
                        .wk = matrix(a.d_kv, kModel),
                        .wv = matrix(a.d_kv, kModel),
                        .wo = matrix(kModel, a.d_q),
                        .q_bias = vector(a.d_q, 0),
                        .v_bias = vector(a.d_kv, 0)},
          .feed_forward = {.norm = vector(kModel, 1),
                           .gate = matrix(f.d_ff, kModel),
                           .up = matrix(f.d_ff, kModel),
                           .down = matrix(kModel, f.d_ff)}};
}

/// Layers first .. last - 1.
template <typename B>
fd::LayerStack<B> stack(B& backend, int first, int last) {
  std::vector<fd::LayerShape> shapes(kShapes.begin() + first, kShapes.begin() + last);
  std::vector<fd::LayerWeights<B>> of_layers;
  for (int i = first; i < last; ++i) {
    of_layers.push_back(weights(backend, kShapes[fd::idx(i)], static_cast<unsigned>(100 * i)));
  }
  return {kModel, 1e-5f, turns(), std::move(shapes), std::move(of_layers)};
}

Cache make_cache() {
  fd::CacheShape shape({}, 32);
  for (const auto& [attention, feed_forward, recurrent] : kShapes) {
    shape.layers.push_back({attention.n_kv_heads, attention.d_head});
  }
  return Cache(shape);
}

struct Part {
  int first, last;
};

/// A prompt of four rows, then a tree, through the layers cut into parts.
template <typename B>
std::vector<float> run(B& backend, const std::vector<Part>& parts) {
  Cache cache = make_cache();
  std::vector<float> x = mini::normals(9 * kModel, 7);
  const auto pass = [&](int n_rows, float* rows) {
    fd::Scores unread;
    fd::Request<Cache> request{&cache, 0, n_rows, {fd::RowNeed::kNothing, {}}, &unread};
    for (const auto [first, last] : parts) {
      const fd::LayerStack<B> layers = stack(backend, first, last);
      typename fd::LayerStack<B>::Workspace work(layers);
      const auto prepared = layers.prepare(std::span(&request, 1), work, first);
      fd::PassShape shape = layers.shape();
      shape.n_rows = n_rows;
      int between = 0;
      backend.run(shape, [&](auto& worker) noexcept {
        layers.run(worker, prepared, rows, [&](int layer) noexcept {
          if (worker.index() == 0) between += layer + 1;
        });
      });
      CHECK(between == (last - first) * (last - first + 1) / 2);
    }
  };
  cache.stage(mini::chain(4));
  pass(4, x.data());
  cache.commit(std::vector<fd::NodeIndex>{0, 1, 2, 3});
  cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, 0}, {3, 0}, {4, 1}, {5, 2}});
  pass(5, x.data() + 4 * kModel);
  return x;
}

}  // namespace

TEST_CASE("layers that differ in everything run one behind the other, like the reference's") {
  fd::Cpu cpu{{.threads = 2}};
  fd::Reference reference;
  const std::vector<float> ours = run(cpu, {{0, 3}});
  const std::vector<float> exact = run(reference, {{0, 3}});
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    worst = std::fmax(worst, std::abs(ours[i] - exact[i]));
  CHECK(worst < 1e-3);
  CHECK(worst > 0);
}

TEST_CASE("two stacks, one behind the other, are one stack to the bit") {
  fd::Cpu cpu{{.threads = 2}};
  CHECK(run(cpu, {{0, 1}, {1, 3}}) == run(cpu, {{0, 3}}));
}

TEST_CASE("a stack's shape has room for each of its layers") {
  fd::Reference reference;
  const fd::PassShape shape = stack(reference, 0, 3).shape();
  CHECK(shape.d_ff == 160);
  CHECK(shape.d_q == 128);
  CHECK(shape.d_kv == 96);
  CHECK(shape.d_head == 64);
  CHECK(shape.d_model == kModel);
}
