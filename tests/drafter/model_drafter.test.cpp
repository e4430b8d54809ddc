#include <foredraft/drafter/model_drafter.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/exact_law.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{3, 1, 4, 1, 5};
using Draft = fd::ModelDrafter<toy::Target, toy::TokenCache>;

/// Asks another drafter for a depth that follows a schedule, as a controller would.
struct Scheduled {
  static constexpr fd::Proposal proposal = Draft::proposal;
  static constexpr fd::Shape shape = Draft::shape;
  static constexpr bool controls = true;
  using Snapshot = Draft::Snapshot;

  int max_depth() const noexcept { return inner.max_depth(); }
  std::span<const int> taps() const noexcept { return inner.taps(); }
  std::optional<int> backlog(int n_tokens) const noexcept { return inner.backlog(n_tokens); }
  std::string summary() const { return inner.summary(); }
  bool continues() const { return false; }
  fd::RowNeed needs() const noexcept { return inner.needs(); }
  void attach(const fd::TargetInfo& target) { inner.attach(target); }
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    const int depth = schedule[round++ % schedule.size()];
    inner.propose(context, {std::min(depth, limit.depth), std::min(depth, limit.nodes)}, draft);
  }
  void absorb(const fd::PromptBlock& block) { inner.absorb(block); }
  void commit(const fd::Round& r) noexcept { inner.commit(r); }
  void truncate(int n) noexcept { inner.truncate(n); }
  void reset() noexcept { inner.reset(); }
  Snapshot snapshot() const { return inner.snapshot(); }
  void restore(const Snapshot& s) { inner.restore(s); }

  Draft inner;
  std::vector<int> schedule;
  std::size_t round = 0;
};
static_assert(fd::Drafter<Scheduled>);

}  // namespace

TEST_CASE("the target as its own draft is never wrong, at any depth, for a thousand rounds") {
  toy::Target target(16, 0);  // rows depend on the whole text: one missing row would show for ever
  for (const int depth : {1, 2, 3, 8}) {
    fd::Decoder decoder{target, toy::TokenCache{4096}, Draft{target, toy::TokenCache{4096}, {}},
                        fd::Greedy{}};
    const auto result =
        decoder.generate(kPrompt, {.max_tokens = depth == 1 ? 1000 : 300, .n_draft = depth});
    CHECK(result.stats.accepted == result.stats.drafted);
    CHECK(result.stats.corrected == 0);
  }
}

TEST_CASE("a second prompt that goes another way leaves no row of the first in the draft's cache") {
  toy::Target target(16, 0);
  for (std::size_t shared = 0; shared < kPrompt.size(); ++shared) {
    CAPTURE(shared);
    fd::Decoder decoder{target, toy::TokenCache{}, Draft{target, toy::TokenCache{}, {}},
                        fd::Greedy{}};
    decoder.generate(kPrompt, {.max_tokens = 20, .n_draft = 4});
    std::vector<fd::TokenId> other = kPrompt;
    other[shared] = 0;
    const auto result = decoder.generate(other, {.max_tokens = 20, .n_draft = 4});
    CHECK(result.stats.drafted > 0);
    CHECK(result.stats.accepted == result.stats.drafted);
  }
}

TEST_CASE("rounds without a draft do not leave gaps in the draft's cache") {
  toy::Target target(16, 0);
  for (const std::vector<int>& schedule : {std::vector<int>{3, 0, 0, 3}, {0, 5, 1}, {0, 0, 0, 2}}) {
    Scheduled drafter{Draft{target, toy::TokenCache{}, {}}, schedule};
    fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::Greedy{}};
    const auto result = decoder.generate(kPrompt, {.max_tokens = 200, .n_draft = 6});
    CHECK(result.stats.drafted > 0);
    CHECK(result.stats.accepted == result.stats.drafted);
  }
}

TEST_CASE("drafts drawn from q and verified by rejection: q == p is never rejected") {
  toy::Target target(16, 0);
  fd::Decoder decoder{target, toy::TokenCache{},
                      Draft{target, toy::TokenCache{}, {.sampling = fd::DraftSampling::kDrawn}},
                      fd::RejectionSampling{}};
  const auto result = decoder.generate(kPrompt, {.max_tokens = 300,
                                                 .n_draft = 4,
                                                 .sampling = {.temperature = 1.0f, .top_p = 0.9f},
                                                 .seed = 5});
  CHECK(result.stats.drafted > 100);
  CHECK(result.stats.accepted == result.stats.drafted);
}

TEST_CASE(
    "coupled drafts agree with a different target far more often than independent ones would") {
  toy::Target target(16, 1, 2.0, 1), other(16, 1, 2.0, 2);
  // Blend: the draft sees half of the target's logits, so that the laws are alike but not equal.
  fd::Decoder coupled{
      target, toy::TokenCache{},
      Draft{target, toy::TokenCache{}, {.law = fd::SamplingOptions{.temperature = 1.4f}}},
      fd::SampleAndMatch{}};
  const auto result = coupled.generate(
      kPrompt, {.max_tokens = 500, .n_draft = 1, .sampling = {.temperature = 1.0f}, .seed = 9});
  CHECK(result.stats.acceptance_rate() > 0.75);
  // And the text is the seed's text.
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
  CHECK(plain.generate(kPrompt, {.max_tokens = 500, .sampling = {.temperature = 1.0f}, .seed = 9})
            .tokens == result.tokens);
}

TEST_CASE(
    "model drafter: a draft cache that is shorter than the text stops drafting and harms nothing") {
  toy::Target target(16, 0);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 100}).tokens;
  for (int capacity = 1; capacity < 40; ++capacity) {
    fd::Decoder decoder{target, toy::TokenCache{}, Draft{target, toy::TokenCache{capacity}, {}},
                        fd::Greedy{}};
    CHECK(decoder.generate(kPrompt, {.max_tokens = 100, .n_draft = 5}).tokens == truth);
  }
}

TEST_CASE("whatever the draft model passes over, the text is the plain one, turn after turn") {
  toy::Target target(16, 0), other(16, 2, 2.0, 4);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
  std::vector<fd::TokenId> prompt;
  for (int i = 0; i < 60; ++i) prompt.push_back((7 * i + i / 5) % 16);
  const auto longer_by = [](std::vector<fd::TokenId> text, std::size_t kept, int n) {
    text.resize(kept);
    for (int i = 0; i < n; ++i) text.push_back((3 * i + n) % 16);
    return text;
  };
  // A prompt; it goes on; it is cut within what was read, and before that.
  const std::vector<std::vector<fd::TokenId>> prompts{
      prompt, longer_by(prompt, 60, 50), longer_by(prompt, 58, 9), longer_by(prompt, 20, 30)};
  std::int64_t accepted = 0;
  for (const float temperature : {0.0f, 1.0f}) {
    for (int depth = 1; depth <= 8; ++depth) {
      for (const int tail : {1, 2, 20, 45}) {
        CAPTURE(temperature, depth, tail);
        fd::Decoder decoder{
            target, toy::TokenCache{},
            Draft{depth % 2 == 0 ? target : other, toy::TokenCache{120}, {.tail = tail}},
            fd::SampleAndMatch{}};
        fd::Options options{.max_tokens = 40, .sampling = {.temperature = temperature}, .seed = 5};
        for (const auto& text : prompts) {
          options.n_draft = 0;
          const auto truth = plain.generate(text, options).tokens;
          options.n_draft = depth;
          const auto result = decoder.generate(text, options);
          CHECK(result.tokens == truth);
          CHECK(result.stats.drafted > 0);
          accepted += result.stats.accepted;
        }
        CHECK(decoder.drafter().summary().find("passed over") != std::string::npos);
      }
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("a failing draft model fails the round and nothing else") {
  toy::Target target(16, 0), draft(16, 0);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 40}).tokens;
  for (int k = 0; k < 30; ++k) {
    int passes = 0;
    draft.before_forward = [&] {
      if (passes++ == k) throw std::runtime_error("device lost");
    };
    fd::Decoder decoder{target, toy::TokenCache{}, Draft{draft, toy::TokenCache{}, {}},
                        fd::Greedy{}};
    std::vector<fd::TokenId> tokens;
    const auto keep = [&](const fd::Emitted& e) { tokens.push_back(e.token); };
    CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 3}, keep),
                    std::runtime_error);
    decoder.resume({.max_tokens = 40 - static_cast<int>(tokens.size()), .n_draft = 3}, keep);
    CHECK(tokens == truth);
  }
}

TEST_CASE("vocabularies of different sizes are refused when the decoder is built") {
  toy::Target target(16), draft(17);
  const auto build = [&] {
    fd::Decoder decoder{target, toy::TokenCache{}, Draft{draft, toy::TokenCache{}, {}},
                        fd::Greedy{}};
  };
  CHECK_THROWS_AS(build(), fd::Error);
  const auto build_held = [&] {
    fd::Decoder decoder{target, toy::TokenCache{},
                        fd::AnyDrafter<>(Draft{draft, toy::TokenCache{}, {}}), fd::Greedy{}};
  };
  CHECK_THROWS_AS(build_held(), fd::Error);
}

TEST_CASE("a draft ends behind the token that makes it improbable, and that token stays") {
  toy::Target model(16, 1, 2.0);
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    const fd::SamplingOptions sampling{.temperature = temperature};
    fd::Philox rng(3);
    const auto propose = [&](float stop_below) {
      Draft drafter(model, toy::TokenCache{},
                    {.sampling = temperature == 0.0f ? fd::DraftSampling::kArgmax
                                                     : fd::DraftSampling::kDrawn});
      fd::DraftTree draft;
      draft.reset(kPrompt.back());
      drafter.propose({kPrompt, {}, sampling, true, &rng},
                      {.depth = 12, .nodes = 12, .stop_below = stop_below}, draft);
      return draft;
    };
    const fd::DraftTree whole = propose(1e-30f);
    REQUIRE(whole.drafted() == 12);
    for (const float stop_below : {0.5f, 0.1f, 0.01f}) {
      const fd::DraftTree draft = propose(stop_below);
      REQUIRE(draft.drafted() >= 1);
      float path = 1;
      for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
        CHECK(path >= stop_below);  // it went on to here
        CHECK(draft.token(node) == whole.token(node));
        std::vector<fd::TokenId> text = kPrompt;
        for (fd::NodeIndex i = 1; i < node; ++i) text.push_back(draft.token(i));
        const auto p = law::p_of(model.logits_after(text), {.temperature = 1.0f});
        CHECK(draft.confidence(node) == Approx(p[fd::idx(draft.token(node))]).epsilon(1e-4));
        path *= draft.confidence(node);
      }
      CHECK((path < stop_below || draft.drafted() == 12));
    }
  }
}
