#include <foredraft/backend/backend.hpp>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/cpu/scratch.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/mini_model.hpp"
#include "support/catch.hpp"
#include "support/instruction_sets.hpp"

// The promises that every backend makes, on a small model with random weights.

namespace fd = foredraft;
using fd::TensorType;

namespace {

const std::vector<std::vector<TensorType>> kMixes = {
    std::vector<TensorType>(9, TensorType::kF32),
    // as files of "Q4_K_M" mix them, and one input in two formats
    {TensorType::kQ4_K, TensorType::kQ4_K, TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ4_K,
     TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kQ6_K},
    {TensorType::kF16, TensorType::kQ4_0, TensorType::kQ6_K, TensorType::kF16, TensorType::kQ5_1,
     TensorType::kQ8_0, TensorType::kQ5_0, TensorType::kQ4_1, TensorType::kBF16},
};

/// A model with all that a layer may have besides norms and a window.
mini::Config with_scales(const std::vector<TensorType>& types) {
  mini::Config config = mini::with_types(types);
  config.scales = true;
  return config;
}

/// A model with norms and a window.
mini::Config with_more_steps(const std::vector<TensorType>& types) {
  mini::Config config = mini::with_types(types);
  config.norms = true;
  config.window = 11;
  config.activation = fd::Activation::kGeluTanh;
  return config;
}

/// Two layers that lack what layers may lack.
mini::Config with_partial_layers(const std::vector<TensorType>& types) {
  mini::Config config = mini::with_types(types);
  config.partial = true;
  config.n_layers = 2;
  config.activation = fd::Activation::kReluSquared;
  return config;
}

template <typename B, typename T>
void prefill(mini::Model<B>& model, mini::Sequence<T>& sequence, int n) {
  sequence.nodes = mini::chain(n, 3);
  mini::forward(model, std::vector{&sequence}, false);
  std::vector<int> path;
  for (int i = 0; i < n; ++i) path.push_back(i);
  sequence.commit(path);
}

/// What a node's row is when everything before it is forwarded token by token.
template <typename B, typename T>
mini::Output alone(mini::Model<B>& model, const mini::Sequence<T>& before, int node) {
  mini::Sequence<T> sequence = before;
  mini::Output output;
  for (const int ancestor : before.ancestors(node)) {
    sequence.nodes = {{before.nodes[fd::idx(ancestor)].token, fd::kCommitted}};
    output = mini::forward(model, std::vector{&sequence}, false);
    sequence.commit({0});
  }
  return output;
}

void check_row(const mini::Output& all, std::size_t row, const mini::Output& one,
               std::size_t at = 0) {
  const std::size_t n = one.logits[at].size();
  CHECK(std::memcmp(all.logits[row].data(), one.logits[at].data(), n * sizeof(float)) == 0);
  CHECK(all.argmax[row] == one.argmax[at]);
}

template <typename B, typename T>
void check_row_exact(B& backend, const mini::Config& config) {
  mini::Model<B> model(backend, config);
  unsigned seed = 0;
  for (const int size : {0, 13, 31, 33}) {
    CAPTURE(size);
    mini::Sequence<T> sequence(config);
    if (size > 0) prefill(model, sequence, size);
    for (const bool tree : {true, false}) {
      CAPTURE(tree);
      sequence.nodes = tree ? mini::random_tree(11, ++seed) : mini::chain(16);
      const mini::Output all = mini::forward(model, std::vector{&sequence}, tree);
      for (int node = 0; node < static_cast<int>(sequence.nodes.size()); node += tree ? 2 : 5) {
        CAPTURE(node);
        check_row(all, fd::idx(node), alone(model, sequence, node));
      }
    }
  }
}

/// Chains and a tree in passes of many sizes, on one to four workers, against each row alone on
/// one.
template <typename T>
void check_rows_and_workers(fd::cpu::Isa isa, const mini::Config& config) {
  constexpr int kRows = 33;  // several tiles, and more than one tile of AMX
  const std::vector<fd::Node> grown = mini::random_tree(kRows, 4);
  std::vector<mini::Output> chain, tree;  // each row alone, with one worker
  for (int threads = 1; threads <= 4; ++threads) {
    CAPTURE(fd::cpu::name_of(isa), sizeof(T), threads);
    fd::Cpu cpu{{.threads = threads, .isa = isa}};
    mini::Model<fd::Cpu> model(cpu, config);
    mini::Sequence<T> sequence(config);
    prefill(model, sequence, 39);
    if (threads == 1) {
      mini::Sequence<T> one_by_one = sequence;
      for (const fd::Node& node : mini::chain(kRows)) {
        one_by_one.nodes = {{node.token, fd::kCommitted}};
        chain.push_back(mini::forward(model, std::vector{&one_by_one}, false));
        one_by_one.commit({0});
      }
      sequence.nodes = grown;
      for (int node = 0; node < kRows; ++node) tree.push_back(alone(model, sequence, node));
    }
    // Around the sizes of tiles, the rows from which AMX multiplies, and those whose inputs all
    // workers make together.
    for (const int n_rows : {1, 2, 5, 6, 8, 9, 16, 17, kRows}) {
      CAPTURE(n_rows);
      sequence.nodes = mini::chain(n_rows);
      const mini::Output all = mini::forward(model, std::vector{&sequence}, false);
      for (std::size_t row = 0; row < all.logits.size(); ++row) check_row(all, row, chain[row]);
    }
    // Parents stand before their children, so the first nodes are a tree as well.
    for (const int n_nodes : {9, kRows}) {
      CAPTURE(n_nodes);
      sequence.nodes = {grown.begin(), grown.begin() + n_nodes};
      const mini::Output all = mini::forward(model, std::vector{&sequence});
      for (std::size_t node = 0; node < all.logits.size(); ++node) check_row(all, node, tree[node]);
    }
  }
}

}  // namespace

TEST_CASE("Cpu: a row is the row alone, to the bit, for any instruction set") {
  for (const fd::cpu::Isa isa : usable_isas()) {
    fd::Cpu cpu{{.threads = 2, .isa = isa}};
    for (const std::vector<TensorType>& mix : kMixes) {
      CAPTURE(fd::cpu::name_of(isa), &mix - kMixes.data());
      check_row_exact<fd::Cpu, fd::f16>(cpu, mini::with_types(mix));
    }
    check_row_exact<fd::Cpu, fd::q8_0>(cpu, mini::with_types(kMixes[1]));
    check_row_exact<fd::Cpu, fd::f16>(cpu, with_more_steps(kMixes[1]));
    check_row_exact<fd::Cpu, fd::f16>(cpu, with_partial_layers(kMixes[1]));
    check_row_exact<fd::Cpu, fd::q8_0>(cpu, with_more_steps(kMixes[1]));
  }
  fd::Cpu cpu{{.threads = 2}};
  check_row_exact<fd::Cpu, float>(cpu, mini::with_types(kMixes[1]));
}

TEMPLATE_TEST_CASE("Reference: a row is the row alone, to the bit", "", fd::f16, fd::bf16,
                   fd::q8_0) {
  fd::Reference reference;
  mini::Config config = with_more_steps(kMixes[2]);
  config.shape.d_ff = 256;
  mini::Model<fd::Reference> model(reference, config);
  mini::Sequence<TestType> sequence(config);
  prefill(model, sequence, 35);
  sequence.nodes = mini::random_tree(6, 1);
  const mini::Output all = mini::forward(model, std::vector{&sequence});
  for (int node = 0; node < 6; ++node) check_row(all, fd::idx(node), alone(model, sequence, node));
}

TEST_CASE("Cpu: neither the number of rows nor that of workers changes a row") {
  // Odd sizes: shares are uneven, and heads do not end with panels.
  mini::Config odd;
  odd.shape = {.n_rows = 40, .d_model = 96, .d_ff = 200, .d_q = 240, .d_kv = 120, .d_head = 40};
  odd.n_vocab = 307;
  odd.rope = fd::RopeKind::kAdjacent;
  odd.activation = fd::Activation::kGeluTanh;
  odd.bias = false;
  std::vector<mini::Config> configs{odd};
  for (const std::vector<TensorType>& mix : kMixes) configs.push_back(mini::with_types(mix));
  configs.push_back(with_more_steps(kMixes[1]));
  configs.push_back(with_scales(kMixes[1]));
  configs.push_back(with_partial_layers(kMixes[1]));
  configs[2].shape.d_model = 512;  // 33 rows are more than a worker norms for itself
  REQUIRE(!fd::cpu::Scratch::own_inputs(33, 512));
  for (const fd::cpu::Isa isa : usable_isas()) {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      CAPTURE(i);
      check_rows_and_workers<fd::f16>(isa, configs[i]);
    }
    check_rows_and_workers<fd::q8_0>(isa, configs[2]);
    check_rows_and_workers<float>(isa, configs[2]);
  }
}

TEMPLATE_TEST_CASE("Cpu and Reference agree on a cache of either kind", "", float, fd::q8_0) {
  fd::Cpu cpu;
  fd::Reference reference;
  mini::Config config;  // float weights
  const int steps = GENERATE(0, 1, 2, 3);
  CAPTURE(steps);
  config.norms = steps == 1;
  config.window = config.norms ? 9 : 0;
  config.scales = steps == 2;
  constexpr bool kFloats = std::is_same_v<TestType, float>;
  if (steps == 3) {
    config = with_partial_layers(config.types);
    // A square in the next layer would make more of what 8 bits round.
    if (!kFloats) config.activation = fd::Activation::kGeluTanh;
  }
  mini::Model<fd::Cpu> ours(cpu, config);
  mini::Model<fd::Reference> exact(reference, config);
  mini::Sequence<TestType> by_cpu(config);
  mini::Sequence<TestType> by_reference(config);
  const int prompt = GENERATE(20, 40);  // a row sees no whole block of positions, or one
  CAPTURE(prompt);
  prefill(ours, by_cpu, prompt);
  prefill(exact, by_reference, prompt);
  by_cpu.nodes = by_reference.nodes = mini::random_tree(6, 8);
  const mini::Output a = mini::forward(ours, std::vector{&by_cpu});
  const mini::Output b = mini::forward(exact, std::vector{&by_reference});
  // Queries of 8 bits where keys have 8 bits; a code may be rounded the other way. In whole blocks
  // weights have 7 bits, which the reference does not round.
  const double bound = kFloats ? 1e-5 : (prompt == 20 ? 2e-2 : 6e-2) * config.n_layers;
  double worst = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < a.logits[row].size(); ++i)
      worst = std::fmax(worst, std::abs(a.logits[row][i] - b.logits[row][i]));
  }
  CHECK(worst < bound);
  CHECK(worst > 0);
}

TEMPLATE_TEST_CASE("two sequences in one pass do not see each other", "", fd::Cpu, fd::Reference) {
  TestType backend;
  mini::Config config;
  config.shape.d_ff = 256;
  mini::Model<TestType> model(backend, config);
  mini::Sequence<fd::f16> a(config);
  mini::Sequence<fd::f16> b(config);
  prefill(model, a, 7);
  prefill(model, b, 18);
  a.nodes = mini::random_tree(5, 2);
  b.nodes = mini::random_tree(4, 3);
  mini::Sequence<fd::f16> a_only = a;
  mini::Sequence<fd::f16> b_only = b;
  const mini::Output both = mini::forward(model, std::vector{&a, &b});
  const mini::Output first = mini::forward(model, std::vector{&a_only});
  const mini::Output second = mini::forward(model, std::vector{&b_only});
  for (std::size_t row = 0; row < 5; ++row) check_row(both, row, first, row);
  for (std::size_t row = 0; row < 4; ++row) check_row(both, 5 + row, second, row);
}

TEMPLATE_TEST_CASE("an infinite logit has argmax -1, on whichever worker", "", fd::Cpu,
                   fd::Reference) {
  TestType backend;
  const std::vector<float> norm(16, 1.0f);
  const std::vector<float> x(16, 1.0f);
  const std::vector<std::int32_t> rows{0};
  for (const std::size_t at : {0u, 199u, 399u}) {
    std::vector<float> values(400 * 16, 1.0f);
    values[at * 16] = std::numeric_limits<float>::infinity();
    const typename TestType::Matrix w =
        backend.pack({TensorType::kF32, 400, 16, std::as_bytes(std::span<const float>(values))});
    std::vector<fd::TokenId> argmax(1);
    backend.run({.n_rows = 1, .d_model = 16, .d_ff = 16, .d_q = 16, .d_kv = 16, .d_head = 16},
                [&](auto& worker) noexcept {
                  worker.head(fd::HeadArgs<typename TestType::Worker>{
                      x.data(), rows, {norm.data(), 1e-5f}, &w, argmax, {}});
                });
    CHECK(argmax[0] == -1);
  }
}

TEMPLATE_TEST_CASE("a NaN stays in its row, and its argmax is -1", "", fd::Cpu, fd::Reference) {
  TestType backend;
  const std::vector<float> norm(64, 1.0f);
  const auto file = mini::weights(TensorType::kF32, 50, 64, 1);
  const typename TestType::Matrix w = backend.pack(file.view());
  std::vector<float> x = mini::normals(3 * 64, 2);
  x[64 + 5] = std::nanf("");
  std::vector<fd::TokenId> argmax(3, 7);
  std::vector<float> row2(50);
  const std::vector<float*> logits{nullptr, nullptr, row2.data()};
  const std::vector<std::int32_t> rows{0, 1, 2};
  backend.run({.n_rows = 3, .d_model = 64, .d_ff = 64, .d_q = 64, .d_kv = 64, .d_head = 64},
              [&](auto& worker) noexcept {
                worker.head(fd::HeadArgs<typename TestType::Worker>{
                    x.data(), rows, {norm.data(), 1e-5f}, &w, argmax, logits});
              });
  CHECK(argmax[0] >= 0);
  CHECK(argmax[1] == -1);
  CHECK(row2[fd::idx(argmax[2])] == *std::max_element(row2.begin(), row2.end()));
}

TEMPLATE_TEST_CASE("ties go to the lowest id, wherever they lie", "", fd::Cpu, fd::Reference) {
  TestType backend;
  // Every row of the matrix is the same, except for a few that are all negative.
  std::vector<float> values(400 * 16, 1.0f);
  for (const int row : {0, 1, 2, 17}) {
    for (int i = 0; i < 16; ++i) values[fd::idx(row * 16 + i)] = -1.0f;
  }
  const typename TestType::Matrix w =
      backend.pack({TensorType::kF32, 400, 16, std::as_bytes(std::span<const float>(values))});
  const std::vector<float> x(16, 2.0f);
  const std::vector<float> norm(16, 1.0f);
  std::vector<fd::TokenId> argmax(1);
  const std::vector<std::int32_t> rows{0};
  backend.run({.n_rows = 1, .d_model = 16, .d_ff = 16, .d_q = 16, .d_kv = 16, .d_head = 16},
              [&](auto& worker) noexcept {
                worker.head(fd::HeadArgs<typename TestType::Worker>{
                    x.data(), rows, {norm.data(), 1e-5f}, &w, argmax, {}});
              });
  CHECK(argmax[0] == 3);
}

TEMPLATE_TEST_CASE("vectors and views that do not fit", "", fd::Cpu, fd::Reference) {
  TestType backend;
  const std::vector<std::uint16_t> halves{fd::float_to_half(1.5f), fd::float_to_half(-2.0f)};
  const auto bytes = std::as_bytes(std::span<const std::uint16_t>(halves));
  CHECK(backend.vector({TensorType::kF16, 1, 2, bytes}) == std::vector<float>{1.5f, -2.0f});
  CHECK_THROWS_AS(backend.vector({TensorType::kF16, 2, 1, bytes}), fd::Error);
  CHECK_THROWS_AS(backend.vector({TensorType::kF16, 1, 3, bytes}), fd::Error);
  CHECK_THROWS_AS(backend.pack({TensorType::kF16, 2, 2, bytes}), fd::Error);
  CHECK_THROWS_AS(backend.pack({TensorType::kQ4_0, 1, 4, bytes}), fd::Error);
}
