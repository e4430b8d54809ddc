// Texts behind a prefix that was read once are those of decoders that read it themselves: for caches
// of rows, with rings and without, and for drafters with a state of their own.

#include <foredraft/models.hpp>

#include <cstdint>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/drafter/chain.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/prefix_store.hpp>
#include <foredraft/saved_snapshot.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using Tokens = std::vector<fd::TokenId>;

TinyModel tiny_gemma() {
  TinyModel tiny;
  tiny.family = "gemma3";
  tiny.n_layers = 4;
  tiny.window = 8;
  tiny.d_head = 64;
  tiny.n_heads = 2;
  tiny.n_kv_heads = 1;
  return tiny;
}

/// A model drafts that passes over the middle of long prompts, a map of n-grams that remembers what came of
/// its drafts, and some that know the text by heart.
fd::Chain<> drafters(Model& draft) {
  return fd::Chain{fd::NgramMapK{{.size_n = 2}}, fd::PromptLookup{}, fd::SuffixAutomaton{},
                   fd::ModelDrafter<Model, fd::HybridCache<fd::f16>>{draft, {.tail = 60}}};
}

/// Prompts of a few beginnings, each of which is a beginning of a longer one.
Tokens prompt_of(std::mt19937& random, int n_vocab) {
  Tokens prompt;
  const int blocks = 2 + static_cast<int>(random() % 4);
  for (int block = 0; block < blocks; ++block) {
    const int kind = static_cast<int>(random() % 2);
    for (int i = 0; i < 25; ++i) prompt.push_back((kind * 31 + block * 7 + i * i) % n_vocab);
  }
  return prompt;
}

template <typename C>
void check(Model& target, Model& draft, C (*cache)(const Model&)) {
  using Decoder = fd::Decoder<Model, C, fd::Chain<>, fd::Greedy>;
  const auto make = [&] { return Decoder(target, cache(target), drafters(draft), {}); };
  std::mt19937 random(7);
  // Room for a few of them, so that some are gone when they would serve again.
  Decoder one = make();
  one.prefill(Tokens(100, 1));
  fd::PrefixStore<Decoder> store(4 * fd::StateMemory::of(one.snapshot()));
  Decoder decoder = make();
  int reused = 0;
  for (int turn = 0; turn < 40; ++turn) {
    CAPTURE(turn);
    const Tokens prompt = prompt_of(random, target.vocab_size());
    const fd::Options options{
        .max_tokens = 24, .n_draft = static_cast<int>(random() % 5), .ignore_end = true};
    reused += turn % 2 == 0
                  ? store.recall(decoder, prompt)
                  : static_cast<int>(store.read(decoder, prompt, options, 30).reused_tokens);
    const Tokens found = decoder.generate(prompt, options).tokens;
    fd::Options plain = options;
    plain.n_draft = 0;
    CHECK(found == make().generate(prompt, plain).tokens);
    store.keep(decoder);
    CHECK(store.bytes() <= store.budget());
    if (turn % 3 == 0) {  // a beginning of its own
      decoder.prefill(std::span(prompt).first(26));
      store.keep(decoder);
    }
    if (turn % 5 != 0) continue;
    // Through a file, into another decoder, and on.
    std::stringstream file;
    const fd::SnapshotOwner owner{
        {.n_vocab = static_cast<std::uint32_t>(target.vocab_size())}, "tiny", "map, model"};
    fd::save_snapshot(file, decoder.snapshot(), owner);
    Decoder other = make();
    other.restore(fd::load_snapshot(file, other.snapshot(), owner).snapshot);
    CHECK(other.resume(options).tokens == decoder.resume(plain).tokens);
  }
  CHECK(reused > 500);
}

fd::LinearCache<fd::f16> linear(const Model& model) {
  return fd::LinearCache<fd::f16>{model.shape(), 400};
}
fd::RotatingCache<fd::q8_0> rotating(const Model& model) {
  return fd::RotatingCache<fd::q8_0>{model.shape(), 400, 64};
}

fd::HybridCache<fd::f16> hybrid(const Model& model) {
  return fd::HybridCache<fd::f16>{model.shape(), 400};
}

}  // namespace

TEST_CASE("prefixes reused, linear cache") {
  TinyPair pair;
  check(pair.target, pair.draft, linear);
}

TEST_CASE("prefixes reused, layers with a window in rings") {
  TinyPair pair{tiny_gemma()};
  check(pair.target, pair.draft, rotating);
}

TEST_CASE("prefixes reused, recurrent layers, which cannot go back") {
  fd::Cpu cpu{{.threads = 2}};
  Model model = fd::load(cpu, fd::Gguf::open(test_file("golden/recurrent/lfm2.gguf")));
  check(model, model, hybrid);
}
