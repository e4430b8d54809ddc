// Families without a real model at hand: small random ones, whose files also hold a text and the
// logits that transformers computes for it (golden/random/families.py).

#include <foredraft/models.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/oracle_drafter.hpp"

namespace fd = foredraft;

namespace {

struct Golden {
  std::string family;
  std::vector<fd::TokenId> tokens;
  std::vector<double> logits;  // [tokens, n_vocab]
  fd::Gguf file;
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  const std::filesystem::path folder = std::string(FOREDRAFT_TEST_DATA) + "/golden/random";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    fd::Gguf file = fd::Gguf::open(entry.path());
    const auto tokens = file.get_ints("golden.tokens").value();
    const auto logits = file.get_floats("golden.logits").value();
    all.push_back({entry.path().stem().string(),
                   {tokens.begin(), tokens.end()},
                   {logits.begin(), logits.end()},
                   std::move(file)});
  }
  std::sort(all.begin(), all.end(),
            [](const Golden& a, const Golden& b) { return a.family < b.family; });
  return all;
}

/// Greatest difference from the golden logits, relative to the greatest of them.
template <typename M>
double difference(M& model, const Golden& golden) {
  fd::LinearCache<float> cache{model.shape(), 64};
  cache.stage(chain_nodes(golden.tokens));
  const auto rows = forward_rows(model, cache, 0, static_cast<int>(golden.tokens.size()));
  double greatest = 0;
  double most = 0;
  std::size_t at = 0;
  for (const auto& row : rows) {
    for (const float logit : row) {
      const double expected = golden.logits.at(at++);
      greatest = std::max(greatest, std::abs(expected));
      // A NaN is as far away as can be.
      const double off = std::abs(logit - expected);
      most = off <= most ? most : off;
    }
  }
  CHECK(at == golden.logits.size());
  return most / greatest;
}

template <typename C, typename M, typename D>
std::vector<fd::TokenId> text_of(M& model, const Golden& golden, D& drafter, int depth) {
  fd::Decoder decoder{model, C{model.shape(), 256}, std::move(drafter), fd::Greedy{}};
  const auto result =
      decoder.generate(golden.tokens, {.max_tokens = 96, .n_draft = depth, .ignore_end = true});
  drafter = std::move(decoder.drafter());
  return result.tokens;
}

template <typename C, typename M>
void check_drafted(M& model, const Golden& golden) {
  fd::NoDraft none;
  const auto plain = text_of<C>(model, golden, none, 0);
  REQUIRE(plain.size() == 96);
  std::vector<fd::TokenId> known = golden.tokens;
  known.insert(known.end(), plain.begin(), plain.end());
  for (const int depth : {1, 4, 9}) {
    CAPTURE(depth);
    fd::PromptLookup lookup{{.min_match = 1, .tokens_per_match = 16}};
    CHECK(text_of<C>(model, golden, lookup, depth) == plain);
    for (const int branches : {1, 3}) {  // a chain and a tree, right to every length
      auto oracle = OracleDrafter::sweeping(known, model.vocab_size(), branches);
      CHECK(text_of<C>(model, golden, oracle, depth) == plain);
      CHECK(oracle.covered(depth));
    }
  }
}

}  // namespace

TEST_CASE("every family has the logits of transformers") {
  std::set<std::string> seen;
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.family);
    seen.insert(golden.family);
    fd::Reference reference;
    auto exact = fd::load(reference, golden.file);
    CHECK(difference(exact, golden) < 2e-5);
    // Sums of floats instead of doubles: next to nothing at these sizes.
    for (const int threads : {1, 2}) {
      fd::Cpu cpu{{.threads = threads}};
      auto packed = fd::load(cpu, golden.file);
      CHECK(difference(packed, golden) < 2e-5);
    }
  }
  for (const char* family : {"gemma2", "granite", "llama", "mistral3", "olmo2", "phi3", "qwen3",
                             "qwen3-yarn", "qwen3moe"}) {
    CHECK(seen.contains(family));
  }
}

TEST_CASE("every family writes the same text with drafts, over caches with and without rings") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.family);
    fd::Cpu cpu{{.threads = 2}};
    auto model = fd::load(cpu, golden.file);
    check_drafted<fd::LinearCache<fd::f16>>(model, golden);
    check_drafted<fd::RotatingCache<fd::f16>>(model, golden);
  }
}
