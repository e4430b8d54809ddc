// Steps that threads share, by themselves: thread sanitizer runs this one.
#include <cstddef>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/sampling/batched_sampler.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("threads that share a step draw what one thread draws, under every transform") {
  constexpr int kVocab = 300;
  std::vector<fd::SamplingOptions> all = fd::testing::law_transforms();
  all.push_back({.temperature = 1.0f, .mirostat = 2});
  const std::vector<fd::TokenId> prompt{3, 1, 4};
  fd::cpu::ThreadPool pool(3);
  fd::BatchedSampler alone(kVocab, 64);
  fd::BatchedSampler shared(kVocab, 64, pool.size());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<std::vector<float>> logits;
  std::vector<fd::SlotRow> rows;
  for (int i = 0; i < 3; ++i) {  // three slots for each
    for (const fd::SamplingOptions& sampling : all) {
      const fd::SlotOptions options{.sampling = sampling, .seed = logits.size(), .logprobs = i - 1};
      const int slot = alone.add(options, prompt);
      CHECK(shared.add(options, prompt) == slot);
      logits.emplace_back(kVocab);
      rows.push_back({slot});
    }
  }
  for (int step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (float& x : logits[i]) x = normal(random);
      rows[i].logits = logits[i];
    }
    const auto one = alone.step(rows);
    const auto several = shared.step(rows, pool);
    bool same = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      same &= one[i].token == several[i].token;
      if (one[i].logprobs != nullptr) same &= *one[i].logprobs == *several[i].logprobs;
      alone.commit(rows[i].slot);
      shared.commit(rows[i].slot);
    }
    CHECK(same);
  }
}
