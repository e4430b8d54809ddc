#include <foredraft/decoder.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <stdexcept>
#include <type_traits>

#include "support/catch.hpp"
#include "support/forward_cache.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

/// Decoder::prefill, snapshot and restore: what goes on from a snapshot is what a decoder that was
/// never elsewhere would have done.

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4, 1};
constexpr int kVocab = 12;

using forwards::ForwardCache;
using forwards::Target;

/// A draft model with a cache of its own.
fd::ModelDrafter<Target, toy::TokenCache> model_drafter(Target& model) {
  return {model, toy::TokenCache{}, {}};
}

template <typename C, typename D, typename A>
void check_continuations(Target& target, const std::function<D()>& drafter, const A& rule,
                         fd::Options options) {
  fd::Decoder<Target, C, D, A> decoder(target, C{}, drafter(), rule);
  const fd::Result read = decoder.prefill(kPrompt, options);
  CHECK(read.tokens.empty());
  CHECK(read.stats.prompt_tokens == static_cast<int>(kPrompt.size()));
  CHECK(read.stats.rounds == 0);
  CHECK(decoder.cache().size() + 1 == static_cast<int>(kPrompt.size()));
  const auto begin = decoder.snapshot();
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    options.seed = seed;
    fd::Decoder<Target, C, D, A> fresh(target, C{}, drafter(), rule);
    const fd::Result expected = fresh.generate(kPrompt, options);
    decoder.restore(begin);
    const int passes = target.passes;
    const fd::Result found = decoder.resume(options);
    CHECK(found.tokens == expected.tokens);
    CHECK(found.text == expected.text);
    CHECK(found.from_draft == expected.from_draft);
    CHECK(found.stats.rounds == expected.stats.rounds);
    CHECK(target.passes - passes == found.stats.rounds);  // the prompt was not read again

    // From the middle, wherever the limit cuts a block, and any number of times.
    const int middle = 5 + static_cast<int>(seed) * 3;
    decoder.restore(begin);
    options.max_tokens = middle;
    auto tokens = decoder.resume(options).tokens;
    const auto in_text = decoder.snapshot();
    options.max_tokens = 40 - middle;
    const auto rest = decoder.resume(options);
    decoder.prefill(std::vector<fd::TokenId>{7, 7, 7});  // somewhere else
    decoder.resume({.max_tokens = 9, .sampling = {.temperature = options.sampling.temperature}});
    decoder.restore(in_text);
    const auto again = decoder.resume(options);
    CHECK(again.tokens == rest.tokens);
    CHECK(again.text == rest.text);
    fresh.restore(in_text);  // a decoder of the same making will do
    CHECK(fresh.resume(options).tokens == rest.tokens);
    options.max_tokens = 40;
  }
}

template <typename C>
void check_every_rule() {
  Target target(kVocab, 2, 2.0);
  Target draft(kVocab, 1, 2.0);
  const fd::Options greedy{.max_tokens = 40, .n_draft = 5};
  fd::Options sampled = greedy;
  sampled.sampling.temperature = 0.9f;
  const std::function<fd::PromptLookup()> lookup = [] { return fd::PromptLookup{}; };
  const std::function<fd::AnyDrafter<>()> any = [&] { return model_drafter(draft); };
  const auto model = std::function([&] { return model_drafter(draft); });
  check_continuations<C>(target, lookup, fd::Greedy{}, greedy);
  check_continuations<C>(target, lookup, fd::SampleAndMatch{}, sampled);
  check_continuations<C>(target, lookup, fd::RejectionSampling{}, sampled);
  check_continuations<C>(target, model, fd::SampleAndMatch{}, sampled);
  check_continuations<C>(target, model, fd::RejectionSampling{}, sampled);
  check_continuations<C>(target, any, fd::RejectionSampling{}, sampled);
}

}  // namespace

TEST_CASE("continuations of a snapshot are those of fresh decoders, for every rule") {
  check_every_rule<toy::TokenCache>();
}

TEST_CASE("the same with a cache that cannot be truncated") { check_every_rule<ForwardCache>(); }

TEST_CASE(
    "prefill lets a drafter of a fixed depth read the prompt, so that no continuation has to") {
  Target target(kVocab);
  Target draft(kVocab);
  fd::Decoder decoder{target, toy::TokenCache{}, model_drafter(draft), fd::Greedy{}};
  decoder.prefill(kPrompt);  // whether that pays is the controller's to say, and not before a token
  CHECK(decoder.drafter().cache().size() == 0);
  decoder.prefill(kPrompt, {.n_draft = 3});
  CHECK(decoder.drafter().cache().size() + 1 == static_cast<int>(kPrompt.size()));
  const auto begin = decoder.snapshot();
  decoder.resume({.max_tokens = 20});
  decoder.restore(begin);
  CHECK(decoder.drafter().cache().size() + 1 == static_cast<int>(kPrompt.size()));
}

TEST_CASE("going back to a snapshot, a drafter forgets what it knows of another text") {
  Target target(kVocab);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  decoder.prefill(std::vector<fd::TokenId>{1, 2, 3, 4, 5, 6, 1, 2});
  const auto snapshot = decoder.snapshot();
  decoder.prefill(std::vector<fd::TokenId>{7, 7, 7, 7});
  decoder.restore(snapshot);
  fd::Context context;
  context.tokens = decoder.tokens();
  fd::DraftTree draft;
  draft.reset(context.anchor());
  decoder.drafter().propose(context, {2, 2}, draft);
  REQUIRE(draft.drafted() == 2);
  CHECK(draft.token(1) == 3);
  CHECK(draft.token(2) == 4);
}

TEST_CASE("positions that a cache which cannot be truncated has to forget were not reused") {
  Target target(kVocab, 0);
  fd::Decoder decoder{target, ForwardCache{}, fd::NoDraft{}, fd::Greedy{}};
  decoder.generate(kPrompt, {.max_tokens = 5});
  std::vector<fd::TokenId> longer(decoder.tokens().begin(), decoder.tokens().end());
  longer.push_back(7);
  CHECK(decoder.generate(longer, {.max_tokens = 1}).stats.reused_tokens ==
        static_cast<int>(kPrompt.size()) + 4);
  CHECK(decoder.generate(kPrompt, {.max_tokens = 1}).stats.reused_tokens == 0);
}

TEST_CASE("text that is held back, queued tokens and an untold end belong to the state") {
  Target target(26, 0);
  for (int i = 0; i < 26; ++i) target.pieces.push_back(std::string(1, static_cast<char>('a' + i)));
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 40});
  std::vector<fd::TokenId> all = kPrompt;
  all.insert(all.end(), truth.tokens.begin(), truth.tokens.end());
  const std::string stop = truth.text.substr(20, 3);
  const std::string expected = truth.text.substr(0, truth.text.find(stop));
  for (int throw_at = 0; throw_at < static_cast<int>(expected.size()) + 3; ++throw_at) {
    CAPTURE(throw_at);
    fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{all, 26, 0.0, 1}, fd::Greedy{}};
    const fd::Options options{.max_tokens = 40, .n_draft = 6, .stop = {stop}};
    std::string shown;
    int emitted = 0;
    const auto emit = [&](const fd::Emitted& e) {
      shown += e.text;
      if (emitted++ == throw_at) throw std::runtime_error("full disk");
    };
    CHECK_THROWS(decoder.generate(kPrompt, options, emit));
    const auto queued = decoder.snapshot();
    for (int times = 0; times < 2; ++times) {
      const auto rest = decoder.resume(options);
      CHECK(shown + rest.text == expected);
      CHECK(rest.finish_reason == fd::FinishReason::kStop);
      decoder.restore(queued);
    }
  }
}

TEST_CASE("a prompt that was cancelled is read on by what resumes it, and may be kept like this") {
  Target target(kVocab, 0);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 10}).tokens;
  fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  int polls = 0;
  const auto read =
      decoder.prefill(kPrompt, {.cancelled = [&] { return ++polls == 3; }, .prefill_block = 3});
  CHECK(read.finish_reason == fd::FinishReason::kCancelled);
  CHECK(decoder.cache().size() == 6);
  const auto half = decoder.snapshot();
  CHECK(decoder.resume({.max_tokens = 10, .n_draft = 16}).tokens == truth);
  decoder.restore(half);
  CHECK(decoder.resume({.max_tokens = 10, .n_draft = 16}).tokens == truth);
  decoder.restore(half);
  CHECK(decoder.resume({.max_tokens = 10}).tokens == truth);
}

namespace {

struct FailingDrafter : fd::NoDraft {
  bool* fail = nullptr;
  void restore(const Snapshot&) const {
    if (*fail) throw std::runtime_error("no memory");
  }
};

}  // namespace

TEST_CASE("a snapshot that does not fit is refused, one that fails leaves an empty decoder") {
  Target target(kVocab);
  fd::Decoder large{target, toy::TokenCache{100}, fd::NoDraft{}, fd::Greedy{}};
  large.generate(kPrompt, {.max_tokens = 30});
  fd::Decoder small{target, toy::TokenCache{20}, fd::NoDraft{}, fd::Greedy{}};
  const auto before = small.generate(std::vector<fd::TokenId>{1, 2}, {.max_tokens = 5});
  CHECK_THROWS_AS(small.restore(large.snapshot()), fd::Error);
  CHECK(small.tokens().size() == 7);  // nothing has changed

  bool fail = false;
  FailingDrafter drafter;
  drafter.fail = &fail;
  fd::Decoder decoder{target, toy::TokenCache{}, drafter, fd::Greedy{}};
  const auto truth = decoder.generate(kPrompt, {.max_tokens = 10}).tokens;
  const auto state = decoder.snapshot();
  fail = true;
  CHECK_THROWS_AS(decoder.restore(state), std::runtime_error);
  CHECK(decoder.tokens().empty());
  CHECK_THROWS_AS(decoder.resume(), fd::Error);
  CHECK(decoder.generate(kPrompt, {.max_tokens = 10}).tokens == truth);
  fail = false;
  decoder.restore(state);
  CHECK(decoder.tokens().size() == kPrompt.size() + 10);
}

TEST_CASE("a snapshot that is not this model's is refused, and the decoder stays usable") {
  Target target(kVocab);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = decoder.generate(kPrompt, {.max_tokens = 10}).tokens;
  const auto state = decoder.snapshot();
  const auto refused = [&](auto&& change) {
    auto snapshot = state;
    change(snapshot);
    CHECK_THROWS_AS(decoder.restore(snapshot), fd::Error);
    CHECK(decoder.generate(kPrompt, {.max_tokens = 10}).tokens == truth);
  };
  refused([](auto& s) { s.tokens[3] = kVocab; });
  refused([](auto& s) { s.tokens[0] = -1; });
  refused([](auto& s) { s.tokens.resize(s.tokens.size() - 1); });  // the cache holds the anchor
  refused([](auto& s) { s.tokens.resize(1); });
}
