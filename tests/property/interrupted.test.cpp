// A round that is cancelled, fails or meets a throwing emit leaves model, draft model and their
// caches usable, and the text goes on as if nothing had happened: through the real kernels, at every
// poll, forward pass and token.

#include <foredraft/models.hpp>

#include <concepts>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

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

struct Models {
  Models()
      : target_bytes(TinyModel{}.file()), target(fd::load(cpu, fd::Gguf::parse(target_bytes))) {}

  static std::vector<std::byte> shorter() {
    TinyModel small;
    small.n_layers = 1;  // the same model cut short: often right, often wrong
    return small.file();
  }

  fd::Cpu cpu{{.threads = 2}};
  std::vector<std::byte> target_bytes;
  std::vector<std::byte> draft_bytes = shorter();
  fd::Model<fd::Cpu> target;
  fd::Model<fd::Cpu> draft = fd::load(cpu, fd::Gguf::parse(draft_bytes));
};

template <typename A>
fd::Options options(int max_tokens) {
  return {.max_tokens = max_tokens,
          .n_draft = 5,
          .temperature = std::same_as<A, fd::Greedy> ? 0.0f : 1.0f,
          .seed = 3,
          .ignore_end = true,
          .prefill_block = 4};
}

/// One text that is interrupted once and goes on.
template <typename A>
struct Text {
  Text(Models& models, A rule)
      : target{models.target},
        draft{models.draft},
        decoder{target, Cache{target.shape()}, fd::ModelDrafter<Fragile, Cache>{draft}, rule} {}

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
  void go_on() {
    const int rest = kTokens - static_cast<int>(decoder.tokens().size() - kPrompt.size());
    decoder.resume(options<A>(rest), [this](const fd::Emitted& e) { emit(e); });
  }

  Fragile target;
  Fragile draft;
  fd::Decoder<Fragile, Cache, fd::ModelDrafter<Fragile, Cache>, A> decoder;
  std::vector<fd::TokenId> tokens;
  std::function<void()> before_return;
};

}  // namespace

TEMPLATE_TEST_CASE("a text goes on behind a round that was cancelled, failed or threw", "",
                   fd::Greedy, fd::SampleAndMatch) {
  Models models;
  fd::Decoder plain{models.target, Cache{models.target.shape()}, fd::NoDraft{}, TestType{}};
  const auto truth = plain.generate(kPrompt, options<TestType>(kTokens)).tokens;

  // What an undisturbed text consists of; drafts are accepted and rejected in it.
  Text<TestType> whole(models, TestType{});
  int polls = 0;
  fd::Options counted = options<TestType>(kTokens);
  counted.cancelled = [&] {
    ++polls;
    return false;
  };
  const auto stats = whole.decoder.generate(kPrompt, counted).stats;
  REQUIRE(stats.accepted > 0);
  REQUIRE(stats.accepted < stats.drafted);
  REQUIRE(polls > 10);

  SECTION("cancelled") {
    for (int k = 0; k < polls; ++k) {
      CAPTURE(k);
      Text<TestType> text(models, TestType{});
      fd::Options until = options<TestType>(kTokens);
      until.cancelled = [k, n = 0]() mutable { return n++ == k; };
      REQUIRE_FALSE(text.throws(until));
      REQUIRE(text.tokens.size() < truth.size());
      text.go_on();
      REQUIRE(text.tokens == truth);
    }
  }
  SECTION("a pass of the target or of the draft model fails") {
    for (const auto model : {&Text<TestType>::target, &Text<TestType>::draft}) {
      const int passes = (whole.*model).passes;
      REQUIRE(passes > 10);
      for (int k = 0; k < 2 * passes; ++k) {
        CAPTURE(k);
        Text<TestType> text(models, TestType{});
        (text.*model).fails_at = k / 2;
        (text.*model).behind = k % 2 == 1;
        REQUIRE(text.throws(options<TestType>(kTokens)));
        text.go_on();
        REQUIRE(text.tokens == truth);
      }
    }
  }
  SECTION("emit throws") {
    for (int k = 1; k <= kTokens; ++k) {
      CAPTURE(k);
      Text<TestType> text(models, TestType{});
      text.before_return = [&] {
        if (static_cast<int>(text.tokens.size()) == k) throw std::runtime_error("full disk");
      };
      REQUIRE(text.throws(options<TestType>(kTokens)));
      text.go_on();
      REQUIRE(text.tokens == truth);
    }
  }
}
