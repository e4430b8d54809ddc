// Families with recurrent layers: small random models, whose files also hold a text and the logits
// that transformers computes for it (golden/recurrent/make.py).

#include <foredraft/models.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <algorithm>
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

using Logits = std::vector<std::vector<float>>;

const std::vector<std::string> kFamilies{"lfm2", "mamba2", "nemotron_h", "qwen35", "qwen3next"};

RandomGolden golden_of(const std::string& family) {
  return RandomGolden(test_file("golden/recurrent/" + family + ".gguf"));
}

/// Rows of the text, forwarded in passes of `block` tokens.
template <typename C, typename M>
Logits rows_of(M& model, const std::vector<fd::TokenId>& tokens, int block) {
  C cache{model.shape(), 256};
  Logits rows;
  const int n = static_cast<int>(tokens.size());
  while (cache.size() < n) {
    const int count = std::min(block, n - cache.size());
    cache.stage(fd::chain_of(tokens, cache.size(), count));
    for (auto& row : forward_rows(model, cache, 0, count)) rows.push_back(std::move(row));
    cache.commit(fd::first_nodes(count));
  }
  return rows;
}

/// In any blocks, over both ways to keep states, the rows are those of the whole text at once.
template <typename M>
Logits check_blocks(M& model, const RandomGolden& golden) {
  const Logits whole = rows_of<fd::HybridCache<float>>(model, golden.tokens, 40);
  for (const int block : {1, 2, 3, 7, 40}) {
    CAPTURE(block);
    CHECK(rows_of<fd::HybridCache<float, fd::Replay>>(model, golden.tokens, block) == whole);
    CHECK(rows_of<fd::HybridCache<float, fd::Slots>>(model, golden.tokens, block) == whole);
  }
  return whole;
}

template <typename C, typename M>
void check_drafted(M& model, const RandomGolden& golden, const std::vector<fd::TokenId>& plain) {
  std::vector<fd::TokenId> known = golden.tokens;
  known.insert(known.end(), plain.begin(), plain.end());
  for (int depth = 1; depth <= 8; ++depth) {
    CAPTURE(depth);
    for (const int branches : {1, 3}) {  // a chain and a tree, right to every length in turn
      CAPTURE(branches);
      auto oracle = OracleDrafter::sweeping(known, model.vocab_size(), branches);
      CHECK(text_of<C>(model, golden, oracle, depth) == plain);
      CHECK(oracle.covered(depth));
    }
  }
}

}  // namespace

TEST_CASE("recurrent families have the logits of transformers, in whatever blocks they are read") {
  for (const std::string& family : kFamilies) {
    CAPTURE(family);
    const RandomGolden golden = golden_of(family);
    fd::Reference reference;
    auto exact = fd::load(reference, golden.file);
    CHECK(difference(check_blocks(exact, golden), golden) < 2e-5);
    // Sums of floats instead of doubles: next to nothing at these sizes.
    Logits first;
    for (const int threads : {1, 2, 3}) {
      fd::Cpu cpu{{.threads = threads}};
      auto packed = fd::load(cpu, golden.file);
      const Logits rows = check_blocks(packed, golden);
      CHECK(difference(rows, golden) < 2e-5);
      if (first.empty()) first = rows;
      CHECK(rows == first);
    }
  }
}

TEST_CASE("they write the same text with drafts of every depth, accepted to every length") {
  for (const std::string& family : kFamilies) {
    CAPTURE(family);
    const RandomGolden golden = golden_of(family);
    fd::Cpu cpu{{.threads = 2}};
    auto model = fd::load(cpu, golden.file);
    fd::NoDraft none;
    const auto plain = text_of<fd::HybridCache<fd::f16>>(model, golden, none, 0);
    REQUIRE(plain.size() == 96);
    check_drafted<fd::HybridCache<fd::f16, fd::Replay>>(model, golden, plain);
    check_drafted<fd::HybridCache<fd::f16, fd::Slots>>(model, golden, plain);
  }
}

TEST_CASE("a cache of keys and values alone refuses them, and says which does not") {
  const RandomGolden golden = golden_of("lfm2");
  fd::Cpu cpu;
  auto model = fd::load(cpu, golden.file);
  CHECK_THROWS_WITH(fd::LinearCache<fd::f16>{model.shape()},
                    Catch::Contains("recurrent") && Catch::Contains("HybridCache"));
}
