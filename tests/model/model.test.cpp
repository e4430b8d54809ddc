#include <foredraft/model/model.hpp>

#include <foredraft/backend/dequantized.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/models.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/instruction_sets.hpp"
#include "support/load_reference.hpp"
#include "support/runs.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;
using Cache = fd::LinearCache<fd::f16>;

namespace {

const std::vector<fd::TokenId> kText{72,  101, 108, 108, 111, 44,  32,  119, 111, 114,
                                     108, 100, 33,  10,  87,  104, 121, 63,  1,   2};

template <typename C, typename M>
C committed(M& model, std::span<const fd::TokenId> tokens) {
  C cache{model.shape()};
  cache.stage(chain_nodes(tokens));
  forward_rows(model, cache, 0, static_cast<int>(tokens.size()));
  std::vector<fd::NodeIndex> path(tokens.size());
  for (std::size_t i = 0; i < path.size(); ++i) path[i] = static_cast<int>(i);
  cache.commit(path);
  return cache;
}

}  // namespace

TEST_CASE("the CPU backend agrees with the reference") {
  // Float weights take float activations: only the order of sums differs. Quantized weights take
  // int8 activations, whose rounding (1/254 of the greatest value) a net of random weights
  // amplifies.
  for (const auto& [type, bound] :
       {std::pair{fd::TensorType::kF32, 1e-5}, std::pair{fd::TensorType::kQ8_0, 0.15}}) {
    for (const std::string family : {"llama", "qwen2", "gemma3"}) {
      TinyModel tiny;
      tiny.family = family;
      tiny.n_layers = family == "gemma3" ? 3 : 2;  // the third sees all positions
      tiny.type = type;
      const auto bytes = tiny.file();
      const fd::Gguf file = fd::Gguf::parse(bytes);
      fd::Cpu cpu{{.threads = 2}};
      fd::Reference reference;
      auto ours = fd::load(cpu, file);
      auto oracle = fd::load(reference, file);
      fd::LinearCache<float> a{ours.shape()}, b{oracle.shape()};
      a.stage(chain_nodes(kText));
      b.stage(chain_nodes(kText));
      const auto x = forward_rows(ours, a, 0, static_cast<int>(kText.size()));
      const auto y = forward_rows(oracle, b, 0, static_cast<int>(kText.size()));
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        for (std::size_t j = 0; j < x[i].size(); ++j) {
          error += std::pow(x[i][j] - y[i][j], 2);
          norm += std::pow(y[i][j], 2);
        }
      }
      CAPTURE(family, bound);
      CHECK(std::sqrt(error / norm) < bound);
    }
  }
}

TEST_CASE("every instruction set with a fused multiply-add computes the same bits") {
  std::vector<fd::cpu::Isa> isas = usable_isas();
#if defined(__x86_64__)
  std::erase(isas, fd::cpu::Isa::kPortable);  // it rounds the product first
#endif
  std::vector<std::pair<std::string, fd::TensorType>> files{{"gemma3", fd::TensorType::kQ4_K}};
  for (const fd::TensorType type : kernels_under_test::kTypes) files.push_back({"llama", type});
  for (const auto& [family, type] : files) {
    TinyModel tiny;
    tiny.family = family;
    tiny.type = type;
    tiny.d_model = 256;
    tiny.d_ff = 512;
    tiny.d_head = 64;
    const auto bytes = tiny.file();
    const fd::Gguf file = fd::Gguf::parse(bytes);
    std::vector<std::vector<float>> expected;
    for (const fd::cpu::Isa isa : isas) {
      CAPTURE(tiny.family, fd::layout_of(tiny.type)->name, fd::cpu::name_of(isa));
      fd::Cpu cpu{{.threads = 1, .isa = isa}};
      auto model = fd::load(cpu, file);
      // More positions than one block of attention, and rows of every size of tile.
      std::vector<fd::TokenId> text;
      for (int i = 0; i < 80; ++i) text.push_back(i * 37 % 250);
      Cache cache = committed<Cache>(model, text);
      cache.stage(chain_nodes(kText));
      const auto rows = forward_rows(model, cache, 0, static_cast<int>(kText.size()));
      if (expected.empty()) expected = rows;
      CHECK(rows == expected);
    }
  }
}

namespace {

/// Barriers of a forward pass over the first rows of kText, with two threads.
int barriers(TinyModel tiny, int n_layers, int n_rows) {
  tiny.n_layers = n_layers;
  const auto bytes = tiny.file();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  Cache cache{model.shape()};
  cache.stage(chain_nodes(std::span(kText).first(fd::idx(n_rows))));
  const std::uint32_t before = cpu.barriers();
  forward_rows(model, cache, 0, n_rows);
  return static_cast<int>(cpu.barriers() - before);
}

int barriers_of_a_layer(const TinyModel& tiny, int n_rows) {
  return barriers(tiny, 3, n_rows) - barriers(tiny, 2, n_rows);
}

}  // namespace

TEST_CASE("the barriers of a layer") {
  TinyModel narrow;
  CHECK(barriers_of_a_layer(narrow, 1) == 5);
  CHECK(barriers_of_a_layer(narrow, 20) == 5);

  TinyModel wide;
  wide.d_model = 2048;
  wide.d_ff = 4096;
  CHECK(barriers_of_a_layer(wide, 1) == 5);
  CHECK(barriers_of_a_layer(wide, 8) == 5);
  CHECK(barriers_of_a_layer(wide, 9) == 7);  // all workers norm the inputs of both parts together

  TinyModel uneven;  // three heads of Q, K and V on two workers
  uneven.n_heads = uneven.n_kv_heads = 1;
  uneven.d_head = 32;
  CHECK(barriers_of_a_layer(uneven, 1) == 6);
  TinyModel no_panels;  // a head ends within a panel
  no_panels.n_heads = 4;
  no_panels.d_head = 24;
  CHECK(barriers_of_a_layer(no_panels, 1) == 6);
  TinyModel norms_behind;
  norms_behind.family = "gemma3";
  CHECK(barriers_of_a_layer(norms_behind, 1) == 7);
}

TEST_CASE("a row is the same to the bit alone, in a chain and in a tree") {
  TinyModel tiny;
  tiny.family = GENERATE(as<std::string>{}, "llama", "gemma3");
  tiny.n_layers = 3;
  CAPTURE(tiny.family);
  const auto bytes = tiny.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, file);
  std::mt19937 random(3);
  for (int trial = 0; trial < 20; ++trial) {
    const std::size_t prompt = 1 + random() % 19;
    Cache base = committed<Cache>(model, std::span(kText).first(prompt));
    std::vector<fd::Node> nodes{{7, fd::kCommitted}};
    for (int i = 1; i < 24; ++i) {
      nodes.push_back({static_cast<fd::TokenId>(random() % 256),
                       static_cast<int>(random() % static_cast<unsigned>(i))});
    }
    base.stage(nodes);
    const auto tree = forward_rows(model, base, 0, 24);
    for (const int node : {0, 5, 13, 23}) {
      // The same path, token by token through a cache of its own.
      std::vector<fd::TokenId> path;
      for (int n = node; n >= 0; n = nodes[fd::idx(n)].parent) {
        path.insert(path.begin(), nodes[fd::idx(n)].token);
      }
      Cache alone = committed<Cache>(model, std::span(kText).first(prompt));
      std::vector<float> last;
      for (const fd::TokenId token : path) {
        alone.stage(std::vector<fd::Node>{{token, fd::kCommitted}});
        last = forward_rows(model, alone, 0, 1)[0];
        alone.commit(std::vector<fd::NodeIndex>{0});
      }
      CAPTURE(trial, node);
      CHECK(last == tree[fd::idx(node)]);
    }
  }
}

TEST_CASE("several sequences share a pass without touching one another") {
  const auto bytes = TinyModel{}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::Cpu cpu{{.threads = 1}};
  auto model = fd::load(cpu, file);
  Cache a = committed<Cache>(model, std::span(kText).first(5));
  Cache b = committed<Cache>(model, std::span(kText).first(11));
  Cache a_alone = committed<Cache>(model, std::span(kText).first(5));
  const std::vector<fd::Node> nodes{{50, fd::kCommitted}, {51, 0}, {52, 0}};
  a.stage(nodes);
  a_alone.stage(nodes);
  b.stage(std::vector<fd::Node>{{60, fd::kCommitted}});
  fd::Scores scores_a, scores_b;
  std::vector<fd::Request<Cache>> requests{{&a, 0, 3, {fd::RowNeed::kSums, {}, 0.7f}, &scores_a},
                                           {&b, 0, 1, {fd::RowNeed::kArgmax, {}}, &scores_b}};
  model.forward(std::span(requests));
  const auto alone = forward_rows(model, a_alone, 0, 3);
  for (int i = 0; i < 3; ++i) {
    const auto row = std::as_const(scores_a).logits(i);
    CHECK(std::vector<float>(row.begin(), row.end()) == alone[fd::idx(i)]);
    CHECK(std::as_const(scores_a).argmax(i) == fd::Scores::argmax_of(row));
    const RunsOf expected(row, 0.7f);
    const fd::Runs runs = scores_a.runs(i);
    CHECK(std::ranges::equal(runs.maxima, expected.all().maxima));
    CHECK(std::ranges::equal(runs.sums, expected.all().sums));
    CHECK(runs.temperature == 0.7f);
  }
  CHECK(std::as_const(scores_b).argmax(0) >= 0);
  CHECK(scores_b.runs(0).sums.empty());
}

namespace {

/// What a model says of the first rows of kText.
struct Tapped {
  std::vector<std::vector<std::vector<float>>> taps;  // [row][tap][d_model]
  std::vector<std::vector<float>> logits;             // [row][n_vocab]

  Tapped(const fd::Gguf& file, const std::vector<int>& wanted, int n_rows) {
    fd::Cpu cpu{{.threads = 2}};
    auto model = fd::load(cpu, file);
    Cache cache{model.shape()};
    cache.stage(chain_nodes(std::span(kText).first(fd::idx(n_rows))));
    fd::Scores scores;
    fd::Request<Cache> request{&cache, 0, n_rows, {fd::RowNeed::kLogits, wanted}, &scores};
    model.forward(std::span(&request, 1));
    for (int row = 0; row < n_rows; ++row) {
      auto& of_row = taps.emplace_back();
      for (const int layer : wanted) {
        const auto values = std::as_const(scores).tap(row, layer);
        of_row.emplace_back(values.begin(), values.end());
      }
      const auto values = std::as_const(scores).logits(row);
      logits.emplace_back(values.begin(), values.end());
    }
  }
};

}  // namespace

TEST_CASE("a tap is the residual stream behind its layer") {
  constexpr int kRows = 5;
  TinyModel tiny;
  tiny.type = fd::TensorType::kF32;
  const auto file_of = [&tiny](int n_layers) {
    tiny.n_layers = n_layers;
    return tiny.file();
  };
  const auto whole = file_of(3);
  const Tapped all{fd::Gguf::parse(whole), {2, 0, 1, 0}, kRows};
  for (int layer = 0; layer < 3; ++layer) {
    CAPTURE(layer);
    // Its first layers alone: what is behind the last of them goes to the head.
    const auto bytes = file_of(layer + 1);
    const fd::Gguf file = fd::Gguf::parse(bytes);
    const Tapped part{file, {layer}, kRows};
    const auto values = [&file](const char* name) {
      return fd::dequantized(file.view(*file.find_tensor(name)));
    };
    const std::vector<float> norm = values("output_norm.weight");
    const std::vector<float> head = values("token_embd.weight");
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::vector<float>& x = part.taps[row][0];
      const std::size_t place = layer == 2 ? 0 : fd::idx(layer) + 1;
      CHECK(all.taps[row][place] == x);
      double squares = 0;
      for (const float value : x) squares += static_cast<double>(value) * value;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
      for (std::size_t token = 0; token < part.logits[row].size(); ++token) {
        double logit = 0;
        for (std::size_t i = 0; i < x.size(); ++i)
          logit += scale * x[i] * norm[i] * head[token * x.size() + i];
        if (std::abs(part.logits[row][token] - logit) > 1e-4 * (1 + std::abs(logit)))
          FAIL("logit of row " << row << ", token " << token);
      }
    }
    CHECK(all.taps[0][1] == all.taps[0][3]);  // the same layer, asked for twice
  }
  for (const int none : {-1, 3})
    CHECK_THROWS_AS((Tapped{fd::Gguf::parse(whole), {0, none}, 1}), fd::Error);
}

TEST_CASE("taps of several requests of a pass are those of their own rows") {
  const auto bytes = TinyModel{}.file();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  const std::vector<int> taps{1};
  const fd::Want want{fd::RowNeed::kNothing, taps};
  const auto begin = std::span(kText).first(3);
  const auto rest = std::span(kText).subspan(3, 4);
  Cache a{model.shape()}, b{model.shape()}, c{model.shape()};
  a.stage(chain_nodes(begin));
  b.stage(chain_nodes(rest));
  c.stage(chain_nodes(rest));
  fd::Scores first, second, alone;
  std::vector<fd::Request<Cache>> both{{&a, 0, 3, want, &first}, {&b, 0, 4, want, &second}};
  fd::Request<Cache> one{&c, 0, 4, want, &alone};
  model.forward(std::span(both));
  model.forward(std::span(&one, 1));
  for (int row = 0; row < 4; ++row) {
    CHECK(std::ranges::equal(std::as_const(second).tap(row, 1), std::as_const(alone).tap(row, 1)));
  }
}

TEMPLATE_TEST_CASE("several requests of a pass may be of one cache", "", fd::Cpu, fd::Reference) {
  // Keys of 70 committed positions are put into two blocks by the pass, once.
  const auto bytes = TinyModel{}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  TestType backend;
  auto model = fd::load(backend, file);
  std::vector<fd::TokenId> prompt;
  for (int i = 0; i < 70; ++i) prompt.push_back(kText[fd::idx(i * 7 % 20)]);
  const std::vector<fd::Node> nodes{{50, fd::kCommitted}, {51, 0}, {52, 0}, {53, 2}, {54, 3}};
  Cache one = committed<Cache>(model, prompt);
  one.stage(nodes);
  const auto rows = forward_rows(model, one, 0, 5);
  Cache several = committed<Cache>(model, prompt);
  for (int pass = 0; pass < 2; ++pass) {  // the second one finds the keys in order
    several.stage(nodes);
    const fd::Want logits{fd::RowNeed::kLogits, {}};
    fd::Scores first, second, third;
    std::vector<fd::Request<Cache>> requests{{&several, 0, 1, logits, &first},
                                             {&several, 1, 2, {}, &second},
                                             {&several, 3, 2, logits, &third}};
    model.forward(std::span(requests));
    const auto same = [&rows](const fd::Scores& scores, int row, std::size_t node) {
      return std::ranges::equal(scores.logits(row), rows[node]);
    };
    CHECK(same(first, 0, 0));
    CHECK(second.argmax(1) == fd::Scores::argmax_of(rows[2]));
    CHECK(same(third, 0, 3));
    CHECK(same(third, 1, 4));
    several.discard();
  }
}

TEST_CASE("a token outside the vocabulary is refused before anything happens") {
  const auto bytes = TinyModel{}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::Cpu cpu{{.threads = 1}};
  auto model = fd::load(cpu, file);
  Cache cache{model.shape()};
  cache.stage(std::vector<fd::Node>{{307, fd::kCommitted}});
  CHECK_THROWS_AS(forward_rows(model, cache, 0, 1), fd::Error);
}

TEST_CASE("a pass of more activations than an int counts is refused before anything happens") {
  const TinyModel tiny;
  const auto bytes = tiny.file();
  fd::Reference reference;
  auto model = fd::load(reference, fd::Gguf::parse(bytes));
  fd::LinearCache<float> cache{model.shape(), 16, 8};
  cache.stage(chain_nodes(std::span(kText).first(4)));
  fd::Scores scores;
  const auto refused = [&](const std::vector<int>& counts) {
    std::vector<fd::Request<fd::LinearCache<float>>> requests;
    for (const int count : counts) {
      requests.push_back({&cache, 0, count, {fd::RowNeed::kNothing, {}}, &scores});
    }
    try {
      model.forward(std::span(requests));
    } catch (const fd::Error& error) {
      CHECK(cache.staged() == 4);
      return error.code() == fd::ErrorCode::kOutOfMemory;
    }
    return false;
  };
  const int most = std::numeric_limits<int>::max() / 96;  // d_q and d_ff are 96 wide
  CHECK(refused({most + 1}));
  CHECK(refused({most / 2 + 1, most / 2 + 1}));
  CHECK(refused({std::numeric_limits<int>::max(), std::numeric_limits<int>::max()}));
  CHECK(!refused({4}));
}

TEST_CASE("a model makes a cache for its layers") {
  const std::vector<fd::TokenId> prompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
  const auto text = [&](auto& model, auto cache) {
    fd::Decoder decoder{model, std::move(cache), fd::PromptLookup{{.min_match = 1}}, fd::Greedy{}};
    return decoder.generate(prompt, {.max_tokens = 60, .ignore_end = true}).tokens;
  };
  for (const char* family : {"llama", "gemma3", "qwen35"}) {
    CAPTURE(family);
    const auto bytes = TinyModel{.family = family}.file();
    fd::Cpu cpu{{.threads = 1}};
    auto model = fd::load(cpu, fd::Gguf::parse(bytes));
    CHECK(text(model, model.make_cache()) ==
          text(model, fd::HybridCache<fd::f16>{model.shape(), 100}));
    CHECK(text(model, model.make_cache<float, fd::Slots>()) ==
          text(model, fd::HybridCache<float>{model.shape()}));
    const auto small = model.make_cache({.n_ctx = 100, .max_staged = 7});
    CHECK(small.capacity() >= 100);
    CHECK(small.capacity() < model.make_cache().capacity());
    CHECK(small.max_staged() == 7);
  }
  const auto bytes = TinyModel{.family = "gemma3"}.file();
  fd::Cpu cpu{{.threads = 1}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  const auto with_sinks = text(model, model.make_cache({.sinks = 4}));
  CHECK(with_sinks == text(model, fd::RotatingCache<fd::f16>{model.shape(), 0, 512, 4}));
  CHECK(with_sinks != text(model, model.make_cache()));
}

TEST_CASE("a model writes no token that its file suppresses, with drafts or without") {
  const std::vector<fd::TokenId> prompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
  const auto text = [&](const TinyModel& tiny, int n_draft) {
    const auto bytes = tiny.file();
    fd::Cpu cpu{{.threads = 1}};
    auto model = fd::load(cpu, fd::Gguf::parse(bytes));
    fd::Decoder decoder{model, model.make_cache(), fd::PromptLookup{{.min_match = 1}},
                        fd::Greedy{}};
    return decoder.generate(prompt, {.max_tokens = 60, .n_draft = n_draft, .ignore_end = true})
        .tokens;
  };
  const auto free = text({}, 0);
  const TinyModel held{.suppressed = {free[0], free[10]}};
  const auto plain = text(held, 0);
  CHECK(std::ranges::find(plain, free[0]) == plain.end());
  CHECK(std::ranges::find(plain, free[10]) == plain.end());
  CHECK(text(held, 4) == plain);
}

TEST_CASE("experts whose gate and up are one tensor are those of two") {
  for (const char* family : {"qwen3moe", "qwen3next"}) {
    for (const auto type : {fd::TensorType::kF32, fd::TensorType::kQ4_0}) {
      CAPTURE(family);
      TinyModel tiny{.family = family, .type = type};
      const auto rows = [&] {
        const auto bytes = tiny.file();
        fd::Cpu cpu{{.threads = 2}};
        auto model = fd::load(cpu, fd::Gguf::parse(bytes));
        auto cache = model.make_cache();
        cache.stage(chain_nodes(kText));
        return forward_rows(model, cache, 0, static_cast<int>(kText.size()));
      };
      const auto apart = rows();
      tiny.one_tensor_of_experts = true;
      CHECK(rows() == apart);
    }
  }
}
