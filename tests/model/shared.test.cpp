// Several decoders over one model, each on a thread of its own: what users of a model in a server do.

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/models.hpp>

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/load_reference.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Texts = std::vector<std::vector<fd::TokenId>>;

std::vector<fd::TokenId> prompt_of(std::size_t thread) {
  std::vector<fd::TokenId> prompt;
  for (std::size_t i = 0; i < 9 + 3 * thread; ++i) {
    prompt.push_back(static_cast<fd::TokenId>((i * 37 + thread * 11) % 250));
  }
  return prompt;
}

/// What each of four decoders writes, all at the same time or one after the other.
template <typename Make>
Texts texts(bool together, Make make) {
  constexpr std::size_t kThreads = 4;
  Texts all(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      auto decoder = make();
      for (int round = 0; round < 3; ++round) {  // again and again, so that they meet
        const auto text =
            decoder.generate(prompt_of(i), {.max_tokens = 24, .n_draft = 4, .ignore_end = true});
        all[i].insert(all[i].end(), text.tokens.begin(), text.tokens.end());
      }
    });
    if (!together) threads.back().join();
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return all;
}

}  // namespace

TEST_CASE("decoders of several threads share a model, a draft model and a backend") {
  TinyPair models;
  using Cache = fd::LinearCache<fd::f16>;
  const auto lookup = [&] {
    return fd::Decoder{models.target, Cache{models.target.shape(), 128}, fd::PromptLookup{},
                       fd::Greedy{}};
  };
  const auto drafted = [&] {
    return fd::Decoder{models.target, Cache{models.target.shape(), 128},
                       fd::ModelDrafter{models.draft, {}, 128}, fd::Greedy{}};
  };
  const Texts alone = texts(false, lookup);
  CHECK(texts(true, lookup) == alone);
  CHECK(texts(true, drafted) == alone);
}

TEST_CASE("a model on the reference backend is shared alike") {
  TinyModel tiny;
  tiny.n_layers = 1;
  const auto bytes = tiny.file();
  fd::Reference reference;
  auto model = fd::load(reference, fd::Gguf::parse(bytes));
  const auto make = [&] {
    return fd::Decoder{model, fd::LinearCache<float>{model.shape(), 64}, fd::PromptLookup{},
                       fd::Greedy{}};
  };
  CHECK(texts(true, make) == texts(false, make));
}

TEST_CASE("models are loaded and used on one backend at the same time") {
  const TinyPair models;
  fd::Cpu cpu{{.threads = 2}};
  const auto text = [&] {
    auto model = fd::load(cpu, fd::Gguf::parse(models.target_bytes));
    fd::Decoder decoder{model, fd::LinearCache<float>{model.shape(), 64}, fd::NoDraft{},
                        fd::Greedy{}};
    return decoder.generate(prompt_of(0), {.max_tokens = 8, .ignore_end = true}).tokens;
  };
  const auto expected = text();
  Texts found(3);
  std::vector<std::thread> threads;
  for (auto& tokens : found) threads.emplace_back([&] { tokens = text(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& tokens : found) CHECK(tokens == expected);
}
