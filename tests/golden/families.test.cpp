// Families without a real model at hand: small random ones, whose files also hold a text and the
// logits that transformers computes for it (golden/random/families.py).

#include <foredraft/models.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/forward.hpp"
#include "support/load_reference.hpp"
#include "support/oracle_drafter.hpp"
#include "support/random_golden.hpp"

namespace fd = foredraft;

namespace {

std::vector<RandomGolden> goldens() {
  std::vector<RandomGolden> all;
  const std::filesystem::path folder = test_file("golden/random");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") all.emplace_back(entry.path());
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.family < b.family; });
  return all;
}

template <typename M>
std::vector<std::vector<float>> rows_of(M& model, const RandomGolden& golden) {
  fd::LinearCache<float> cache{model.shape(), 64};
  cache.stage(chain_nodes(golden.tokens));
  return forward_rows(model, cache, 0, static_cast<int>(golden.tokens.size()));
}

template <typename C, typename M>
void check_drafted(M& model, const RandomGolden& golden) {
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
  for (const RandomGolden& golden : goldens()) {
    CAPTURE(golden.family);
    seen.insert(golden.family);
    fd::Reference reference;
    auto exact = fd::load(reference, golden.file);
    CHECK(difference(rows_of(exact, golden), golden) < 2e-5);
    // Sums of floats instead of doubles: next to nothing at these sizes.
    for (const int threads : {1, 2}) {
      fd::Cpu cpu{{.threads = threads}};
      auto packed = fd::load(cpu, golden.file);
      CHECK(difference(rows_of(packed, golden), golden) < 2e-5);
    }
  }
  for (const char* family : {"gemma2", "gemma4", "granite", "llama", "mistral3", "olmo2", "phi3",
                             "qwen3", "qwen3-yarn", "qwen3moe"}) {
    CHECK(seen.contains(family));
  }
}

TEST_CASE("every family writes the same text with drafts, over caches with and without rings") {
  for (const RandomGolden& golden : goldens()) {
    CAPTURE(golden.family);
    fd::Cpu cpu{{.threads = 2}};
    auto model = fd::load(cpu, golden.file);
    check_drafted<fd::LinearCache<fd::f16>>(model, golden);
    check_drafted<fd::RotatingCache<fd::f16>>(model, golden);
  }
}
