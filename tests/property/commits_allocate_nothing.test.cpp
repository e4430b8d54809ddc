// Commits allocate nothing: counted from the beginning of the cache's commit to the first token that
// a caller sees of the round, for every cache and drafter of the library.

#include <foredraft/models.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"
#include "support/files.hpp"
#include "support/function_policies.hpp"
#include "support/oracle_drafter.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using AnyDrafter = fd::AnyDrafter<fd::Shape::kTree>;

const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 72, 101, 108, 108};

/// Allocations since the last commit of a cache began, noted at the end of each step behind it.
class Watch {
 public:
  void begin() noexcept {
    before_ = memory::allocations;
    watching_ = true;
  }
  /// @param steps  how many were watched
  void note(int& steps) noexcept {
    if (!watching_) return;
    made += memory::allocations - before_;
    ++steps;
  }
  void end(int& steps) noexcept {
    note(steps);
    watching_ = false;
  }

  std::int64_t made = 0;
  int caches = 0;
  int drafters = 0;
  int rounds = 0;

 private:
  std::int64_t before_ = 0;
  bool watching_ = false;
};
Watch watch;

template <typename C>
struct Watched : C {
  using C::C;
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    watch.begin();
    C::commit(path);
    watch.note(watch.caches);
  }
};
template <typename T>
using WatchedCache = Watched<fd::LinearCache<T>>;

struct WatchedDrafter : AnyDrafter {
  explicit WatchedDrafter(AnyDrafter drafter) : AnyDrafter(std::move(drafter)) {}
  void commit(const fd::Round& round) noexcept {
    AnyDrafter::commit(round);
    watch.note(watch.drafters);
  }
};

/// A drafter, and a rule that verifies what it drafts.
struct Setting {
  const char* name;
  std::function<AnyDrafter()> drafter;
  TreeRule rule;
  float temperature;
};

/// @tparam C the target's cache
template <typename C>
std::vector<Setting> settings(TinyPair& models, const std::vector<fd::TokenId>& greedy_text) {
  const auto none = [] { return AnyDrafter(fd::NoDraft{}); };
  const auto lookup = [] { return AnyDrafter(fd::PromptLookup({.min_match = 1})); };
  const auto chain = [&] { return AnyDrafter(fd::ModelDrafter{models.draft}); };
  const auto tree = [&] { return AnyDrafter(fd::ModelTreeDrafter{models.draft}); };
  // Its paths have gaps of every kind.
  const auto oracle = [&] {
    return AnyDrafter(OracleDrafter::sweeping(greedy_text, models.target.vocab_size(), 3));
  };
  const auto self = [&] {
    return AnyDrafter(fd::SelfDrafter<fd::Cpu, C>{models.target, std::vector<int>{0}});
  };
  const auto held = [&] { return AnyDrafter(fd::AnyDrafter(fd::ModelDrafter{models.draft})); };
  const TreeRule greedy = TreeRule::of(fd::Greedy{});
  const TreeRule rejection = TreeRule::of(fd::RejectionSampling{});
  return {
      {"none", none, greedy, 0.0f},           {"lookup", lookup, greedy, 0.0f},
      {"chain, greedy", chain, greedy, 0.0f}, {"chain, rejection", chain, rejection, 1.0f},
      {"tree, greedy", tree, greedy, 0.0f},   {"tree, rejection", tree, rejection, 1.0f},
      {"oracle", oracle, greedy, 0.0f},       {"held twice", held, greedy, 0.0f},
      {"own layers", self, greedy, 0.0f},     {"own layers, drawn", self, rejection, 1.0f},
  };
}

TinyModel tiny() {
  return {.n_heads = 2, .n_kv_heads = 1, .d_head = 64, .n_ctx = 200, .n_vocab = 260, .seed = 3};
}

fd::Options options(float temperature) {
  return {.max_tokens = 120,
          .n_draft = 5,
          .sampling = {.temperature = temperature},
          .seed = 7,
          .ignore_end = true,
          .stop = {"a stop string that holds text back, and never comes"},
          .logprobs = 2,
          .prefill_block = 4};
}

}  // namespace

TEMPLATE_TEST_CASE("from a round's commit to its first token nothing is allocated", "", float,
                   fd::f16, fd::bf16, fd::q8_0) {
  TinyPair models(tiny());
  Drafted drafted;
  std::vector<fd::TokenId> greedy_text;
  for (const Setting& setting : settings<WatchedCache<TestType>>(models, greedy_text)) {
    CAPTURE(setting.name);
    fd::Sequence<Model, WatchedCache<TestType>, WatchedDrafter, TreeRule> sequence(
        models.target, WatchedCache<TestType>{models.target.shape()},
        WatchedDrafter(setting.drafter()), setting.rule);
    sequence.begin(kPrompt);
    fd::Options of = options(setting.temperature);
    of.piece = [](fd::TokenId token) { return std::to_string(token) + " a stop"; };
    const auto call = std::make_shared<fd::Call>(of, models.target, setting.rule);
    watch = {};
    REQUIRE(fd::prefill(sequence, call));
    CHECK(watch.caches == 2);  // blocks of the prompt
    fd::generate(sequence, call, [](const fd::Emitted&) { watch.end(watch.rounds); });
    const fd::Stats& stats = call->stats;

    CHECK(watch.made == 0);
    CHECK(stats.emitted == of.max_tokens);
    CHECK(watch.caches == stats.rounds + 2);
    CHECK(watch.drafters == stats.rounds);
    CHECK(watch.rounds == stats.rounds);
    drafted.drafted += stats.drafted;
    drafted.accepted += stats.accepted;
    if (greedy_text.empty())
      greedy_text.assign(sequence.tokens().begin(), sequence.tokens().end());  // "none" comes first
  }
  CHECK(drafted.both());
}

TEST_CASE("nor where rings wrap") {
  TinyModel gemma = tiny();
  gemma.family = "gemma3";
  gemma.n_layers = 3;
  TinyPair models(gemma);
  const std::vector<fd::TokenId> no_text;
  using Rings = Watched<fd::RotatingCache<fd::f16>>;
  for (const Setting& setting : settings<Rings>(models, no_text)) {
    CAPTURE(setting.name);
    fd::Decoder decoder{models.target, Rings{models.target.shape(), 0, 8},
                        WatchedDrafter(setting.drafter()), setting.rule};
    watch = {};
    decoder.generate(kPrompt, options(setting.temperature),
                     [](const fd::Emitted&) { watch.end(watch.rounds); });
    CHECK(watch.made == 0);
    CHECK(watch.caches == watch.rounds + 2);
  }
}

TEMPLATE_TEST_CASE("nor where states are kept", "", fd::Slots, fd::Replay) {
  fd::Cpu cpu{{.threads = 2}};
  for (const std::string family : {"lfm2", "mamba2"}) {
    CAPTURE(family);
    Model model = fd::load(cpu, test_file("golden/recurrent/" + family + ".gguf"));
    using States = Watched<fd::HybridCache<fd::f16, TestType>>;
    const auto check = [&](AnyDrafter drafter) {
      fd::Decoder decoder{model, States{model.shape(), 200, 12}, WatchedDrafter(std::move(drafter)),
                          fd::Greedy{}};
      watch = {};
      const auto result = decoder.generate(kPrompt, options(0.0f),
                                           [](const fd::Emitted&) { watch.end(watch.rounds); });
      CHECK(watch.made == 0);
      CHECK(watch.caches == watch.rounds + 2);
      return result.tokens;
    };
    std::vector<fd::TokenId> text = kPrompt;
    for (const fd::TokenId token : check(AnyDrafter(fd::NoDraft{}))) text.push_back(token);
    check(AnyDrafter(OracleDrafter::sweeping(text, model.vocab_size(), 3)));
  }
}

TEST_CASE("a decoder has room for a full context before its first commit") {
  TinyPair models(tiny());
  const std::vector<fd::TokenId> no_text;
  for (const Setting& setting : settings<WatchedCache<fd::f16>>(models, no_text)) {
    CAPTURE(setting.name);
    fd::Decoder decoder{models.target, WatchedCache<fd::f16>{models.target.shape()},
                        WatchedDrafter(setting.drafter()), setting.rule};
    watch = {};
    const fd::TokenId* place = nullptr;
    bool moved = false;
    const auto emit = [&](const fd::Emitted&) {
      if (place == nullptr) place = decoder.tokens().data();
      moved |= decoder.tokens().data() != place;
    };
    fd::Options of = options(setting.temperature);
    decoder.generate(kPrompt, of, emit);
    const auto snapshot = decoder.snapshot();
    decoder.restore(snapshot);
    place = nullptr;
    of.max_tokens = -1;
    CHECK(decoder.resume(of, emit).finish_reason == fd::FinishReason::kContext);
    CHECK_FALSE(moved);
    CHECK(watch.made == 0);
    CHECK(watch.drafters > 0);
  }
}
