// A model with layers that see a window computes the same bits from a RotatingCache as from a
// LinearCache, whatever is staged, accepted and rejected around the places where its rings wrap.

#include <foredraft/models.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/for_each_table.hpp"
#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/instruction_sets.hpp"
#include "support/load_reference.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

using Logits = std::vector<std::vector<float>>;

constexpr int kWindow = 8;

TinyModel tiny_gemma(int window = kWindow) {
  TinyModel tiny;
  tiny.family = "gemma3";
  tiny.n_layers = 4;
  tiny.window = window;
  tiny.d_head = 64;  // what a quantized cache can hold
  tiny.n_heads = 2;
  tiny.n_kv_heads = 1;
  return tiny;
}

fd::TokenId token_at(int position) { return (position * 37 + position / 7) % 250; }

/// Forward and commit n tokens of the text, each pass a chain.
template <typename M, typename C>
Logits read(M& model, C& cache, int n) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({token_at(cache.size() + i), i - 1});
  cache.stage(nodes);
  Logits rows = forward_rows(model, cache, 0, n);
  cache.commit(fd::first_nodes(n));
  return rows;
}

/// Rows of the text's first n tokens, one pass each, from a cache that keeps everything.
template <typename T, typename M>
Logits one_by_one(M& model, int n) {
  fd::LinearCache<T> cache{model.shape()};
  Logits rows;
  while (cache.size() < n) rows.push_back(read(model, cache, 1)[0]);
  return rows;
}

/// The first n positions of each.
void truncate_all(int n, auto&... caches) { (caches.truncate(n), ...); }

template <typename T, typename M>
void check_blocks(M& model, int n_tokens) {
  const Logits expected = one_by_one<T>(model, n_tokens);
  for (int block = 1; block <= kWindow + 1; ++block) {
    CAPTURE(block);
    fd::RotatingCache<T> cache{model.shape(), 500, block};
    Logits rows;
    while (cache.size() < n_tokens) {
      for (auto& row : read(model, cache, std::min(block, n_tokens - cache.size())))
        rows.push_back(std::move(row));
    }
    CHECK(rows == expected);
  }
  // All at once: what a prompt does.
  fd::RotatingCache<T> prompt{model.shape(), 500};
  CHECK(read(model, prompt, n_tokens) == expected);
}

}  // namespace

TEMPLATE_TEST_CASE("blocks of one token, up to more than the window, are tokens one by one", "",
                   float, fd::f16, fd::q8_0) {
  const auto bytes = tiny_gemma().file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  for_each_table([&](const fd::cpu::KernelTable& table) {
    fd::Cpu cpu{{.threads = 2, .isa = table.isa}};
    auto model = fd::load(cpu, file);
    check_blocks<TestType>(model, 150);
  });
  fd::Reference reference;
  auto model = fd::load(reference, file);
  check_blocks<TestType>(model, 80);
}

TEMPLATE_TEST_CASE("every accepted length, in every place of the wrap", "", fd::f16, fd::q8_0) {
  constexpr int kDepth = 6;
  constexpr int kTokens = 120;
  const auto bytes = tiny_gemma().file();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  const Logits expected = one_by_one<TestType>(model, kTokens + kDepth + 1);
  for (int accepted = 0; accepted <= kDepth; ++accepted) {
    CAPTURE(accepted);
    fd::RotatingCache<TestType> cache{model.shape(), 500, kDepth + 1};
    int wrong = 0;
    while (cache.size() < kTokens) {
      // An anchor and a draft that is right for so many tokens, and then leads astray.
      std::vector<fd::Node> nodes;
      for (int i = 0; i <= kDepth; ++i) {
        const fd::TokenId right = token_at(cache.size() + i);
        nodes.push_back({i <= accepted ? right : (right + 1 + i) % 250, i - 1});
      }
      cache.stage(nodes);
      const Logits rows = forward_rows(model, cache, 0, kDepth + 1);
      for (int i = 0; i <= accepted; ++i)
        wrong += rows[fd::idx(i)] != expected[fd::idx(cache.size() + i)];
      cache.commit(fd::first_nodes(accepted + 1));
      cache.discard();
    }
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("trees: a row is the row alone, and a path leaves what its tokens leave", "",
                   fd::f16, fd::q8_0) {
  const auto bytes = tiny_gemma(5).file();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  std::mt19937 random(9);
  fd::RotatingCache<TestType> ring{model.shape(), 500, 24};
  fd::LinearCache<TestType> linear{model.shape(), 500, 24};
  std::vector<fd::TokenId> text;
  const auto behind = [&](std::span<const fd::TokenId> path) {
    fd::LinearCache<TestType> alone{model.shape()};
    std::vector<fd::TokenId> all = text;
    all.insert(all.end(), path.begin(), path.end());
    std::vector<float> last;
    for (const fd::TokenId token : all) {
      alone.stage(std::vector<fd::Node>{{token, fd::kCommitted}});
      last = forward_rows(model, alone, 0, 1)[0];
      alone.commit(fd::first_nodes(1));
    }
    return last;
  };
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const int n = 1 + static_cast<int>(random() % 24);
    std::vector<fd::Node> nodes;
    for (int i = 0; i < n; ++i) {
      nodes.push_back({static_cast<fd::TokenId>(random() % 250),
                       static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1});
    }
    ring.stage(nodes);
    linear.stage(nodes);
    const Logits rows = forward_rows(model, ring, 0, n);
    CHECK(rows == forward_rows(model, linear, 0, n));
    std::vector<fd::NodeIndex> path;
    for (int node = static_cast<int>(random() % fd::idx(n)); node >= 0;
         node = nodes[fd::idx(node)].parent)
      path.insert(path.begin(), node);
    std::vector<fd::TokenId> tokens;
    for (const fd::NodeIndex node : path) tokens.push_back(nodes[fd::idx(node)].token);
    if (round % 8 == 0) CHECK(rows[fd::idx(path.back())] == behind(tokens));
    text.insert(text.end(), tokens.begin(), tokens.end());
    ring.commit(path);
    linear.commit(path);
    ring.discard();
    linear.discard();
  }
  CHECK(text.size() > 70);  // a ring is as long as 64 or 96 rows
}

TEST_CASE("snapshots and truncations go on as if nothing had happened") {
  const auto bytes = tiny_gemma().file();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  using Cache = fd::RotatingCache<fd::f16>;
  const Logits expected = one_by_one<fd::f16>(model, 220);
  Cache cache{model.shape(), 500, 16};
  const auto read_to = [&](Cache& reader, int size) {
    int wrong = 0;
    while (reader.size() < size) {
      const int first = reader.size();
      const Logits rows = read(model, reader, std::min(5, size - first));
      for (std::size_t i = 0; i < rows.size(); ++i)
        wrong += rows[i] != expected[fd::idx(first) + i];
    }
    return wrong;
  };
  for (const int at : {3, 8, 31, 33, 70, 100, 131}) {
    CAPTURE(at);
    CHECK(read_to(cache, at) == 0);
    const Cache::Snapshot snapshot = cache.snapshot();
    Cache other{model.shape(), 400, 7};
    other.restore(snapshot);
    CHECK(read_to(other, at + 70) == 0);
    read_to(cache, at + 40);
    cache.restore(snapshot);
    CHECK(read_to(cache, at + 2) == 0);
    cache.truncate(at - 1);  // which it holds or says that it does not
    CHECK((cache.size() == at - 1 || cache.size() == 0));
    CHECK(read_to(cache, at + 20) == 0);
    cache.truncate(at);
    CHECK(read_to(cache, at) == 0);
  }
}

TEST_CASE("sinks: rings that keep the first positions, and caches that keep all, read the same") {
  constexpr int kMost = 13;  // rows of a pass
  fd::Cpu cpu{{.threads = 1}};
  std::mt19937 random(3);
  for (const auto& [window, sinks] : {std::pair(4, 1), {8, 4}, {16, 40}}) {
    CAPTURE(window, sinks);
    const auto bytes = tiny_gemma(window).file();
    auto model = fd::load(cpu, fd::Gguf::parse(bytes));
    fd::CacheShape shape = model.shape();
    fd::LinearCache<fd::f16> none{shape, 2500, kMost};
    shape.sinks = sinks;
    fd::LinearCache<fd::f16> all{shape, 2500, kMost};
    using Ring = fd::RotatingCache<fd::f16>;
    Ring ring{model.shape(), 2500, kMost, sinks};
    Ring::Snapshot snapshot;
    int wrong = 0;
    int same = 0;
    while (all.size() < 2000) {
      // A tree of which a path is committed, or a chain that is all of it.
      const int n = 1 + static_cast<int>(random() % kMost);
      const bool tree = random() % 2 == 0;
      std::vector<fd::Node> nodes;
      for (int i = 0; i < n; ++i) {
        const int parent = tree ? static_cast<int>(random() % fd::idx(i + 1)) - 1 : i - 1;
        nodes.push_back({static_cast<fd::TokenId>(random() % 250), parent});
      }
      std::vector<fd::NodeIndex> path;
      for (int node = n - 1; node >= 0; node = nodes[fd::idx(node)].parent) {
        path.insert(path.begin(), node);
      }
      const auto pass = [&](auto& cache) {
        cache.stage(nodes);
        Logits rows = forward_rows(model, cache, 0, n);
        cache.commit(path);
        cache.discard();
        return rows;
      };
      const Logits expected = pass(all);
      wrong += pass(ring) != expected;
      same += pass(none) == expected;
      switch (random() % 40) {
        case 0:
          snapshot = ring.snapshot();
          ring.restore(snapshot);
          break;
        case 1: {
          Ring other{model.shape(), 2500, kMost, sinks};
          other.restore(ring.snapshot());
          ring = std::move(other);
          break;
        }
        case 2: {  // back by a few, if the rings still have what that needs
          const int to = std::max(0, ring.size() - 3);
          if (!ring.holds(to)) break;
          truncate_all(to, ring, all, none);
          break;
        }
        default: break;
      }
    }
    CHECK(wrong == 0);
    CHECK(same < 40);  // while the window reaches back to the sinks
    // Less memory than all rows take: the pinned ones are a few blocks.
    CHECK(Ring::full_bytes(model.shape(), 2500, kMost, sinks) <
          fd::LinearCache<fd::f16>::full_bytes(shape, 2500));
  }
}

TEST_CASE("sinks: the reference's rows, and each row alone") {
  TinyModel tiny = tiny_gemma(5);
  tiny.type = fd::TensorType::kF32;
  const auto bytes = tiny.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::Reference reference;
  auto exact = fd::load(reference, file);
  fd::RotatingCache<float> slow{exact.shape(), 300, 7, 3};
  Logits expected;
  while (slow.size() < 80) expected.push_back(read(exact, slow, 1)[0]);
  for_each_table([&](const fd::cpu::KernelTable& table) {
    fd::Cpu cpu{{.threads = 2, .isa = table.isa}};
    auto model = fd::load(cpu, file);
    Logits one_by_one;
    for (const int block : {1, 2, 7}) {
      fd::RotatingCache<float> cache{model.shape(), 300, 7, 3};
      Logits rows;
      while (cache.size() < 80) {
        for (auto& row : read(model, cache, std::min(block, 80 - cache.size()))) {
          rows.push_back(std::move(row));
        }
      }
      if (block == 1) one_by_one = rows;
      CHECK(rows == one_by_one);
    }
    double worst = 0;
    double greatest = 0;
    for (std::size_t row = 0; row < expected.size(); ++row) {
      for (std::size_t i = 0; i < expected[row].size(); ++i) {
        greatest = std::max<double>(greatest, std::abs(expected[row][i]));
        worst = std::max<double>(worst, std::abs(expected[row][i] - one_by_one[row][i]));
      }
    }
    CHECK(worst < 1e-4 * greatest);
  });
}

TEST_CASE("the whole way: plain text, drafts and a new prompt that shares a beginning") {
  const auto bytes = tiny_gemma().file();
  const auto draft_bytes = [] {
    TinyModel tiny = tiny_gemma();
    tiny.n_layers = 1;
    return tiny.file();
  }();
  fd::Cpu cpu{{.threads = 2}};
  auto model = fd::load(cpu, fd::Gguf::parse(bytes));
  auto draft = fd::load(cpu, fd::Gguf::parse(draft_bytes));
  const std::vector<fd::TokenId> prompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
  const fd::Options plain{.max_tokens = 200, .n_draft = 0, .ignore_end = true};
  fd::Decoder linear{model, fd::LinearCache<fd::f16>{model.shape()}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = linear.generate(prompt, plain).tokens;
  const auto check = [&](auto drafter) {
    fd::Decoder decoder{model, fd::RotatingCache<fd::f16>{model.shape(), 0, 64}, std::move(drafter),
                        fd::Greedy{}};
    for (const int depth : {0, 3, 9}) {
      CAPTURE(depth);
      fd::Options options = plain;
      options.n_draft = depth;
      options.prefill_block = 4 + depth;
      // The second prompt begins like the text so far and goes on otherwise. How much of it is read
      // again depends on what the rings still have; the text does not.
      CHECK(decoder.generate(prompt, options).tokens == truth);
      std::vector<fd::TokenId> longer = prompt;
      longer.insert(longer.end(), truth.begin(), truth.begin() + 100 + 10 * depth);
      longer.push_back(7);
      fd::Decoder fresh{model, fd::LinearCache<fd::f16>{model.shape()}, fd::NoDraft{},
                        fd::Greedy{}};
      CHECK(decoder.generate(longer, options).tokens == fresh.generate(longer, plain).tokens);
    }
  };
  check(fd::NoDraft{});
  check(fd::PromptLookup{{.min_match = 1, .tokens_per_match = 16}});
  check(fd::ModelDrafter<fd::Model<fd::Cpu>, fd::RotatingCache<fd::f16>>{draft});
  check(fd::ModelTreeDrafter<fd::Model<fd::Cpu>, fd::RotatingCache<fd::f16>>{draft, {.tail = 40}});
}
