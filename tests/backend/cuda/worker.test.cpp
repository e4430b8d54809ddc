// Operators of the device that the host plays against the Reference, at odd shapes and every number
// of rows that kernels treat apart; and each row against the row alone, to the bit.

#include <foredraft/backend/cuda/worker.hpp>

#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/rotating.hpp>

#include "backend/cuda/layer_configs.hpp"
#include "backend/cuda/layer_on.hpp"
#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using fd::TensorType;
using on_device::Device;
using Backend = fd::CudaBackend<Device>;
template <typename K, typename V = K>
using Rows = fd::cuda::Rows<Device, K, V>;
using layer_on::Layer;
using layer_on::Outputs;
using namespace layer_configs;

namespace {

// Of a layer and its head, than those of attention; blocks of products make one row themselves.
constexpr std::size_t kOtherKernels = 16;

/// The greatest difference, relative to the values' own size.
template <typename T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0, greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::abs(static_cast<double>(a[i] - b[i])));
    greatest = std::fmax(greatest, std::abs(static_cast<double>(b[i])));
  }
  return worst / greatest;
}

/// @param bound  some tens of roundings
void check_near(const Outputs& ours, const Outputs& exact, double bound = 1e-5) {
  CHECK(distance(ours.embedded, exact.embedded) < 1e-7);
  CHECK(distance(ours.q, exact.q) < bound);
  CHECK(distance(ours.attended, exact.attended) < bound);
  CHECK(distance(ours.fed, exact.fed) < bound);
  CHECK(distance(ours.logits, exact.logits) < bound);
  CHECK(distance(ours.maxima, exact.maxima) < bound);
  CHECK(distance(ours.sums, exact.sums) < 10 * bound);
  CHECK(ours.argmax == exact.argmax);
}

template <typename T>
bool same_row(const std::vector<T>& all, std::size_t row, std::size_t n_rows,
              const std::vector<T>& one) {
  REQUIRE(all.size() == n_rows * one.size());
  return std::memcmp(all.data() + row * one.size(), one.data(), one.size() * sizeof(T)) == 0;
}

void check_row(const Outputs& all, std::size_t row, std::size_t n_rows, const Outputs& one) {
  CAPTURE(row, n_rows);
  CHECK(same_row(all.embedded, row, n_rows, one.embedded));
  CHECK(same_row(all.q, row, n_rows, one.q));
  CHECK(same_row(all.attended, row, n_rows, one.attended));
  CHECK(same_row(all.fed, row, n_rows, one.fed));
  CHECK(same_row(all.logits, row, n_rows, one.logits));
  CHECK(same_row(all.maxima, row, n_rows, one.maxima));
  CHECK(same_row(all.sums, row, n_rows, one.sums));
  CHECK(all.argmax[row] == one.argmax[0]);
}

}  // namespace

TEST_CASE("operators agree with the reference at every number of rows") {
  Backend cuda;
  fd::Reference reference;
  for (const Kind kind : {kOdd, kScaled, kMixed}) {
    const bool odd = kind == kOdd;
    const mini::Config config = config_of(kind);
    Layer<Backend, Rows<float>> ours(cuda, config);
    Layer<fd::Reference, float> exact(reference, config);
    const int before = odd ? 70 : 5;  // more than one part of attention
    ours.commit(tokens(before));
    exact.commit(tokens(before));
    for (const int n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64}) {
      if (!odd && n_rows > 9) continue;
      CAPTURE(kind, n_rows);
      for (const bool tree : {false, true}) {
        if (tree && (n_rows > 16 || n_rows % 2 == 0)) continue;
        const auto nodes =
            inside(tree ? mini::random_tree(n_rows, 7) : mini::chain(n_rows), config);
        check_near(ours.forward(nodes), exact.forward(nodes));
      }
    }
  }
}

TEST_CASE("keys and values in formats of their own agree with the reference") {
  Backend cuda;
  fd::Reference reference;
  const mini::Config config = wide_config();
  const auto check = [&]<typename K, typename V>() {
    Layer<Backend, Rows<K, V>> ours(cuda, config);
    Layer<fd::Reference, fd::cpu::Rows<K, V>> exact(reference, config);
    ours.commit(tokens(70));
    exact.commit(tokens(70));
    // Other roundings of a key may give it other codes.
    check_near(ours.forward(inside(mini::random_tree(5, 7), config)),
               exact.forward(inside(mini::random_tree(5, 7), config)), 5e-3);
  };
  check.operator()<fd::q8_0, fd::f16>();
  check.operator()<float, fd::q8_0>();
  check.operator()<fd::f16, float>();
  check.operator()<fd::bf16, fd::f16>();
  check.operator()<float, fd::bf16>();
}

TEST_CASE("attention in several steps computes what it computes in one") {
  const mini::Config config = odd_config();
  const auto nodes = inside(mini::random_tree(8, 7), config);
  constexpr std::size_t kOfRow = 4 * 2 * (2 + 20) * sizeof(float);  // heads, parts, dimensions
  std::optional<Outputs> expected;
  for (const std::size_t bytes : {std::size_t{1} << 20, 3 * kOfRow + 1, std::size_t{1}}) {
    Backend cuda{{.attention_bytes = bytes}};
    Layer<Backend, Rows<fd::f16>> layer(cuda, config);
    layer.commit(tokens(70));
    const on_device::Launches launches;
    const Outputs found = layer.forward(nodes);
    if (!expected) expected = found;
    CHECK(found.attended == expected->attended);
    CHECK(found.logits == expected->logits);
    const std::size_t steps = bytes == 1 ? 8 : bytes > 1000000 ? 1 : 4;  // of two rows, not three
    CHECK(launches.are(kOtherKernels + 2 * steps));
    const on_device::Launches of_one;
    (void)layer.forward({{1, fd::kCommitted}});
    CHECK(of_one.are(kOtherKernels + 2));
  }
}

TEMPLATE_TEST_CASE("a row is the row alone, to the bit", "", float, fd::f16, fd::bf16) {
  Backend cuda;
  for (const Kind kind : {kOdd, kScaled, kMixed}) {
    const bool odd = kind == kOdd;
    const mini::Config config = config_of(kind);
    Layer<Backend, Rows<TestType>> layer(cuda, config);
    layer.commit(tokens(odd ? 61 : 3));
    const auto before = layer.cache().snapshot();
    for (const int n_rows : {2, 5, 9, 17}) {
      if (!odd && n_rows > 5) continue;
      const auto nodes = inside(mini::random_tree(n_rows, 8), config);
      const Outputs all = layer.forward(nodes);
      for (int node = 0; node < n_rows; node += n_rows > 5 ? 4 : 1) {
        std::vector<fd::TokenId> path;  // all before the node itself
        for (int up = nodes[fd::idx(node)].parent; up >= 0; up = nodes[fd::idx(up)].parent) {
          path.insert(path.begin(), nodes[fd::idx(up)].token);
        }
        for (const fd::TokenId token : path) layer.commit({token});
        const Outputs one = layer.forward({{nodes[fd::idx(node)].token, fd::kCommitted}});
        check_row(all, fd::idx(node), fd::idx(n_rows), one);
        layer.cache().restore(before);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a ring with sinks computes what all rows compute, to the bit", "", float,
                   fd::q8_0) {
  using S = Rows<TestType>;
  Backend cuda;
  fd::Reference reference;
  const mini::Config config = wide_config();
  constexpr int kSinks = 3;
  Layer<Backend, S> all(cuda, config, kSinks);
  Layer<Backend, S, fd::RotatingCache<S>> ring(cuda, config, kSinks);
  Layer<fd::Reference, TestType> exact(reference, config, kSinks);
  const auto forward_all = [&](const std::vector<fd::Node>& nodes) {
    const Outputs ours = all.forward(nodes), rotated = ring.forward(nodes);
    CHECK(ours.fed == rotated.fed);
    CHECK(ours.logits == rotated.logits);
    // Other roundings of a key may give it other codes.
    check_near(ours, exact.forward(nodes), std::is_same_v<TestType, float> ? 1e-5 : 5e-3);
  };
  // Windows that reach the sinks, rings before and behind their first wrap, within a part and across.
  for (const int more : {2, 11, 48, 58, 70, 7}) {
    const std::vector<fd::TokenId> text = tokens(more);
    all.commit(text);
    ring.commit(text);
    exact.commit(text);
    CAPTURE(all.cache().size());
    forward_all(inside(mini::chain(3), config));
    forward_all(inside(mini::random_tree(9, 7), config));
  }
  CHECK_FALSE(ring.cache().holds(20));  // which has lost some
  const auto nodes = inside(mini::random_tree(5, 8), config);
  const Outputs together = ring.forward(nodes);
  const auto before = ring.cache().snapshot();
  for (int node = 0; node < 5; ++node) {
    std::vector<fd::TokenId> path;
    for (int up = nodes[fd::idx(node)].parent; up >= 0; up = nodes[fd::idx(up)].parent) {
      path.insert(path.begin(), nodes[fd::idx(up)].token);
    }
    for (const fd::TokenId token : path) ring.commit({token});
    check_row(together, fd::idx(node), 5,
              ring.forward({{nodes[fd::idx(node)].token, fd::kCommitted}}));
    ring.cache().restore(before);
  }
}

TEST_CASE(
    "rows of more sequences than a launch serves, in several formats, do not see each other") {
  // The operators know sequences by their rows alone, so 70 caches of one row each.
  constexpr int kMany = 70;
  Backend cuda;
  mini::Config config = odd_config();
  using R = fd::cuda::AnyRows<Device>;
  std::vector<R> rows;
  fd::CacheShape shape(1, 2, 20, 8);
  for (int i = 0; i < kMany; ++i) {
    using enum fd::RowFormat;
    shape.formats = {i % 3 == 0 ? kF32 : i % 3 == 1 ? kBF16 : kF16, i % 2 == 0 ? kF32 : kF16};
    rows.emplace_back(shape, 8, false);
  }
  std::vector<fd::SequenceRows> sequences;
  std::vector<R::Layer> kv;
  for (int i = 0; i < kMany; ++i) {
    sequences.push_back(
        {.first_row = i, .n_rows = 1, .first_node = 0, .size = 0, .path = {}, .path_begin = {}});
    kv.push_back(rows[fd::idx(i)].layer(0));
  }
  using W = Backend::Worker;
  const auto matrix = [&](int n_out, int n_in) {
    return cuda.pack(mini::weights(TensorType::kF32, n_out, n_in, 5).view());
  };
  const auto wq = matrix(80, 37), wk = matrix(40, 37), wv = matrix(40, 37), wo = matrix(37, 80);
  Backend::Buffer<float> x, q, ones, none;
  const std::vector<float> values = mini::normals(kMany * 37, 1);
  const auto norm = ones.write(std::vector<float>(37, 1.0f));
  std::vector<float> out[2];
  for (const bool together : {true, false}) {
    std::vector<float>& result = out[together];
    result.resize(values.size());
    (void)x.write(values);
    const auto room = x.reserve(0);
    const auto run = [&](std::span<const fd::SequenceRows> some, std::span<const R::Layer> their,
                         int first, int n) {
      std::vector<fd::SequenceRows> own(some.begin(), some.end());
      for (fd::SequenceRows& sequence : own) sequence.first_row -= first;
      const std::vector<float> part(values.begin() + first * 37, values.begin() + (first + n) * 37);
      (void)x.write(part);
      const auto to_q = q.reserve(fd::idx(n) * 80);
      std::vector<fd::Tap> taps;
      for (int i = 0; i < n; ++i) taps.push_back({i, result.data() + (first + i) * 37});
      cuda.run({.n_rows = n, .d_model = 37, .d_ff = 1, .d_q = 80, .d_kv = 40, .d_head = 20},
               [&](W& worker) noexcept {
                 worker.qkv(fd::QkvArgs<W, R>{.x = room,
                                              .n_rows = n,
                                              .norm = {norm, 1e-5f},
                                              .wq = &wq,
                                              .wk = &wk,
                                              .wv = &wv,
                                              .n_heads = 4,
                                              .n_kv_heads = 2,
                                              .d_head = 20,
                                              .sequences = own,
                                              .kv = their,
                                              .q = to_q});
                 worker.attend(fd::AttendArgs<W, R>{.q = to_q,
                                                    .n_rows = n,
                                                    .n_heads = 4,
                                                    .n_kv_heads = 2,
                                                    .d_head = 20,
                                                    .sequences = own,
                                                    .kv = their,
                                                    .wo = &wo,
                                                    .x = room});
                 worker.tap(fd::TapArgs<W>{.x = room, .d_model = 37, .taps = taps});
               });
    };
    if (together) {
      run(sequences, kv, 0, kMany);
    } else {
      for (int i = 0; i < kMany; ++i) {
        run(std::span(sequences).subspan(fd::idx(i), 1), std::span(kv).subspan(fd::idx(i), 1), i,
            1);
      }
    }
  }
  CHECK(out[0] == out[1]);
}

#ifndef __CUDACC__  // a GPU need not notice

TEST_CASE("what fails in a pass is thrown by run, and the next pass is whole") {
  Backend cuda;
  Layer<Backend, Rows<float>> layer(cuda, odd_config());
  layer.commit(tokens(3));
  const Outputs before = layer.forward(mini::chain(2));
  // A token that is not in the table: the kernel leaves its memory.
  CHECK(code_of([&] { (void)layer.forward({{100000, fd::kCommitted}}); }) ==
        fd::ErrorCode::kDevice);
  layer.cache().discard();
  CHECK(layer.forward(mini::chain(2)).logits == before.logits);
}

#endif
