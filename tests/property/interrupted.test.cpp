// A round that is cancelled, fails or meets a throwing emit leaves model, draft model and their
// caches usable, and the text goes on as if nothing had happened: through the real kernels, at
// every poll, forward pass and token.

#include <foredraft/models.hpp>

#include <concepts>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Cache = fd::LinearCache<fd::f16>;
const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
constexpr int kTokens = 40;

/// A model that may throw before a pass, or behind it: with all staged rows written.
struct Fragile {
  static constexpr bool row_exact = fd::Model<fd::Cpu>::row_exact;

  int vocab_size() const noexcept { return model.vocab_size(); }
  const fd::Tokenizer& tokenizer() const noexcept { return model.tokenizer(); }
  fd::CacheShape shape() const { return model.shape(); }
  void forward(std::span<fd::Request<Cache>> requests) {
    const bool fails = passes++ == fails_at;
    if (fails && !behind) throw std::runtime_error("device lost");
    model.forward(requests);
    if (fails) throw std::runtime_error("device lost");
  }

  fd::Model<fd::Cpu>& model;
  int passes = 0;
  int fails_at = -1;
  bool behind = false;
};

template <typename A>
fd::Options options(int max_tokens) {
  return {.max_tokens = max_tokens,
          .n_draft = 5,
          .sampling = {.temperature = std::same_as<A, fd::Greedy> ? 0.0f : 1.0f},
          .seed = 3,
          .ignore_end = true,
          .prefill_block = 4};
}

/// One text that is interrupted once and goes on.
template <typename A>
struct Text {
  Text(fd::Model<fd::Cpu>& target_model, fd::Model<fd::Cpu>& draft_model)
      : target{target_model},
        draft{draft_model},
        decoder{target, Cache{target.shape()}, fd::ModelDrafter<Fragile, Cache>{draft}, A{}} {}

  /// @return whether anything was thrown
  bool throws(const fd::Options& of) {
    try {
      decoder.generate(kPrompt, of, [this](const fd::Emitted& e) { emit(e); });
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  }
  void emit(const fd::Emitted& e) {
    tokens.push_back(e.token);
    if (before_return) before_return();
  }
  fd::Stats go_on() {
    const int rest = kTokens - static_cast<int>(decoder.tokens().size() - kPrompt.size());
    return decoder.resume(options<A>(rest), [this](const fd::Emitted& e) { emit(e); }).stats;
  }

  Fragile target;
  Fragile draft;
  fd::Decoder<Fragile, Cache, fd::ModelDrafter<Fragile, Cache>, A> decoder;
  std::vector<fd::TokenId> tokens;
  std::function<void()> before_return;
};

/// All interruptions of one text, with drafts of one model.
template <typename A>
struct Interruptions {
  Interruptions(TinyPair& models, fd::Model<fd::Cpu>& draft_model)
      : target(models.target), draft(draft_model) {
    fd::Decoder plain{target, Cache{target.shape()}, fd::NoDraft{}, A{}};
    truth = plain.generate(kPrompt, options<A>(kTokens)).tokens;
    Text<A> whole(target, draft);
    fd::Options counted = options<A>(kTokens);
    counted.cancelled = [&] {
      ++polls;
      return false;
    };
    undisturbed = whole.decoder.generate(kPrompt, counted).stats;
    target_passes = whole.target.passes;
    draft_passes = whole.draft.passes;
  }

  void go_on(Text<A>& text) {
    rest += text.go_on();
    REQUIRE(text.tokens == truth);
  }
  void cancel() {
    for (int k = 0; k < polls; ++k) {
      CAPTURE(k);
      Text<A> text(target, draft);
      fd::Options until = options<A>(kTokens);
      until.cancelled = [k, n = 0]() mutable { return n++ == k; };
      REQUIRE_FALSE(text.throws(until));
      REQUIRE(text.tokens.size() < truth.size());
      go_on(text);
    }
  }
  void fail(Fragile Text<A>::* model, int passes) {
    for (int k = 0; k < 2 * passes; ++k) {
      CAPTURE(k);
      Text<A> text(target, draft);
      (text.*model).fails_at = k / 2;
      (text.*model).behind = k % 2 == 1;
      REQUIRE(text.throws(options<A>(kTokens)));
      go_on(text);
    }
  }
  void throw_from_emit() {
    for (int k = 1; k <= kTokens; ++k) {
      CAPTURE(k);
      Text<A> text(target, draft);
      text.before_return = [&] {
        if (static_cast<int>(text.tokens.size()) == k) throw std::runtime_error("full disk");
      };
      REQUIRE(text.throws(options<A>(kTokens)));
      go_on(text);
    }
  }
  void all() {
    REQUIRE(polls > 5);
    REQUIRE(target_passes > 5);
    REQUIRE(draft_passes > 5);
    cancel();
    fail(&Text<A>::target, target_passes);
    fail(&Text<A>::draft, draft_passes);
    throw_from_emit();
  }

  fd::Model<fd::Cpu>& target;
  fd::Model<fd::Cpu>& draft;
  std::vector<fd::TokenId> truth;
  fd::Stats undisturbed;
  fd::Stats rest;  // of what was written behind interruptions
  int polls = 0;
  int target_passes = 0;
  int draft_passes = 0;
};

}  // namespace

TEMPLATE_TEST_CASE("a text goes on behind a round that was cancelled, failed or threw", "",
                   fd::Greedy, fd::SampleAndMatch) {
  TinyPair models;
  Interruptions<TestType> text(models, models.draft);
  REQUIRE(text.undisturbed.accepted > 0);
  REQUIRE(text.undisturbed.accepted < text.undisturbed.drafted);
  text.all();
}

// Whatever a draft model proposes, the text is right; but a model that drafts for itself is never
// wrong, unless a row of its cache is.
TEMPLATE_TEST_CASE("an interruption leaves the draft model's cache as it was", "", fd::Greedy,
                   fd::SampleAndMatch) {
  TinyPair models;
  Interruptions<TestType> text(models, models.target);
  REQUIRE(text.undisturbed.accepted == text.undisturbed.drafted);
  REQUIRE(text.undisturbed.drafted > 0);
  text.all();
  CHECK(text.rest.drafted > 0);
  CHECK(text.rest.accepted == text.rest.drafted);
}
