// Memory that runs out, at every allocation of every step: what is thrown says so, nothing leaks,
// and the decoder writes the text that it would have written anyway.

#include <foredraft/models.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/drafted.hpp"
#include "support/function_policies.hpp"
#include "support/tiny_pair.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

enum class Thrown {
  kNothing,
  kBadAlloc,
  kOutOfMemory,  // foredraft::Error
  kOther
};

/// What `step` throws where allocation `n` fails, and perhaps all behind it.
template <typename Step>
Thrown thrown_by(std::int64_t n, bool all, Step&& step) {
  const memory::Failure failure(n, all);
  try {
    step();
    return Thrown::kNothing;
  } catch (const std::bad_alloc&) {
    return Thrown::kBadAlloc;
  } catch (const fd::Error& error) {
    return error.code() == fd::ErrorCode::kOutOfMemory ? Thrown::kOutOfMemory : Thrown::kOther;
  } catch (...) {
    return Thrown::kOther;
  }
}

/// Lets the allocations of a step fail: the first one, the second, and so on until the step
/// succeeds. Behind the first kDense not each of them, by a stride that is prime, so that no loop
/// of the step is met at one place only.
/// @param attempt  attempt(n) does it all, with allocation n failing; false where none failed
/// @return how many attempts failed
template <typename Attempt>
int fail_each(Attempt&& attempt) {
  constexpr int kDense = 300;
  constexpr int kStride = 37;
  attempt(memory::kNever);  // what is made once and kept is made now
  int failed = 0;
  for (std::int64_t n = 0;; n += n < kDense ? 1 : kStride) {
    CAPTURE(n);
    const std::int64_t before = memory::live();
    const bool more = attempt(n);
    REQUIRE(memory::live() == before);
    if (!more) return failed;
    ++failed;
  }
}

/// The same for a step that needs nothing but itself, and whose only error is kOutOfMemory.
template <typename Step>
int fail_each_alone(Step&& step) {
  return fail_each([&](std::int64_t n) {
    const Thrown thrown = thrown_by(n, false, step);
    if (thrown != Thrown::kNothing) REQUIRE(thrown == Thrown::kOutOfMemory);
    return thrown != Thrown::kNothing;
  });
}

TinyModel smallest() { return {.n_layers = 1, .d_ff = 32, .n_ctx = 64, .n_vocab = 260, .seed = 3}; }

}  // namespace

TEST_CASE("a model file whose reading runs out of memory, at any allocation, is an error") {
  const auto bytes = smallest().file();
  const int failed = fail_each_alone([&] { (void)fd::Gguf::parse(bytes); });
  CHECK(failed > 10);
}

TEST_CASE("a tokenizer that runs out of memory") {
  const auto bytes = smallest().file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  CHECK(fail_each_alone([&] { (void)fd::Tokenizer::from(file); }) > 10);
  for (const fd::Tokenizer& tokenizer :
       {fd::Tokenizer(fd::Vocabulary(toy::byte_level({"a b", "ab c"}))),
        fd::Tokenizer(fd::Vocabulary(toy::sentence_piece()))}) {
    CHECK(fail_each_alone([&] { (void)tokenizer.encode("abc abc, cab"); }) > 2);
  }
}

TEST_CASE("a model that runs out of memory while it is loaded") {
  const auto bytes = smallest().file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const int failed = fail_each([&](std::int64_t n) {
    fd::Cpu cpu{{.threads = 1}};
    const Thrown thrown = thrown_by(n, false, [&] { (void)fd::load(cpu, file); });
    if (thrown == Thrown::kNothing) return false;
    REQUIRE(thrown == Thrown::kOutOfMemory);
    (void)fd::load(cpu, file);  // the backend is as before
    return true;
  });
  CHECK(failed > 100);
}

TEST_CASE("a backend that runs out of memory while it is made") {
  const int failed = fail_each([](std::int64_t n) {
    const Thrown thrown = thrown_by(n, false, [] { const fd::Cpu cpu{{.threads = 3}}; });
    REQUIRE(thrown != Thrown::kOther);
    return thrown != Thrown::kNothing;
  });
  CHECK(failed > 2);
}

// ---- decoders ----------------------------------------------------------------------------------

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
using AnyDrafter = fd::AnyDrafter<fd::Shape::kTree>;
using Decoder = fd::Decoder<Model, Cache, AnyDrafter, TreeRule>;  // one type for all of them

const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 72, 101, 108, 108};
constexpr int kTokens = 16;

/// The models of all decoders: one, and the same cut short as its draft model.
struct Models {
  static TinyModel two_layers() {
    TinyModel tiny = smallest();
    tiny.n_layers = 2;
    return tiny;
  }
  std::vector<std::byte> target_bytes = two_layers().file();
  std::vector<std::byte> draft_bytes = smallest().file();
  fd::Cpu cpu{{.threads = 1}};
  Model target = fd::load(cpu, fd::Gguf::parse(target_bytes));
  Model draft = fd::load(cpu, fd::Gguf::parse(draft_bytes));
};
Models& models() {
  static Models models;
  return models;
}

struct Setting {
  const char* name;
  std::function<AnyDrafter()> drafter;
  TreeRule rule;
  float temperature;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    const auto lookup = [] { return AnyDrafter(fd::PromptLookup({.min_match = 1})); };
    const auto chain = [] { return AnyDrafter(fd::ModelDrafter{models().draft}); };
    const auto tree = [] {
      return AnyDrafter(fd::ModelTreeDrafter{models().draft, {.branching = {2, 2, 1}}});
    };
    const TreeRule greedy = TreeRule::of(fd::Greedy{});
    const TreeRule rejection = TreeRule::of(fd::RejectionSampling{});
    return std::vector<Setting>{
        {"lookup, greedy", lookup, greedy, 0.0f}, {"lookup, rejection", lookup, rejection, 1.0f},
        {"chain, greedy", chain, greedy, 0.0f},   {"chain, rejection", chain, rejection, 1.0f},
        {"tree, greedy", tree, greedy, 0.0f},     {"tree, rejection", tree, rejection, 1.0f},
    };
  }();
  return all;
}

/// A decoder and what it has shown of its text. Neither calls nor shows allocate anything
/// themselves.
struct Text {
  explicit Text(const Setting& of, Model& target = models().target)
      : decoder(target, Cache{target.shape(), 0, 32}, of.drafter(), of.rule) {
    options.sampling.temperature = of.temperature;
    tokens.reserve(100);
    text.reserve(1000);
  }

  void prefill() { decoder.prefill(kPrompt, options); }
  void generate(int n = kTokens) {
    tokens.clear();
    text.clear();
    options.max_tokens = n;
    drafted.add(decoder.generate(kPrompt, options, show));
  }
  /// To the end, whatever was thrown, and wherever.
  void go_on() {
    if (decoder.tokens().empty()) return generate();
    options.max_tokens = kTokens - static_cast<int>(decoder.tokens().size() - kPrompt.size());
    drafted.add(decoder.resume(options, show));
  }

  Decoder decoder;
  // A stop string that never comes holds text back.
  fd::Options options{.n_draft = 4,
                      .seed = 3,
                      .ignore_end = true,
                      .stop = {"a b c d e f g h i j k l m n o p q r s t u v w x y z"},
                      .piece = [](fd::TokenId) { return "a b c d e f g h i j k l m n o p "; },
                      .logprobs = 1,
                      .prefill_block = 4};
  std::vector<fd::TokenId> tokens;  // shown
  std::string text;
  Drafted drafted;
  std::function<void(const fd::Emitted&)> show = [this](const fd::Emitted& e) {
    tokens.push_back(e.token);
    text += e.text;
  };
};

/// What a decoder says and what it has shown.
struct Said {
  explicit Said(const Text& of)
      : final(of.decoder.tokens().begin(), of.decoder.tokens().end()),
        shown(of.tokens),
        text(of.text) {}
  friend bool operator==(const Said&, const Said&) = default;

  std::vector<fd::TokenId> final;
  std::vector<fd::TokenId> shown;
  std::string text;
};

/// With every drafter and rule, and with a failure that passes or stays: `begin` is done to a new
/// decoder, then `step` is what fails. The text must be that of a decoder which nothing happened
/// to, and so must a second text.
template <typename Begin, typename Step>
void check_text(Begin&& begin, Step&& step) {
  for (const Setting& setting : settings()) {
    // Where a call ends is no accident of the text: a draft is never longer than what may follow.
    Text undisturbed(setting);
    begin(undisturbed);
    undisturbed.go_on();
    const Said truth(undisturbed);
    undisturbed.generate();
    const Said second(undisturbed);
    REQUIRE(truth.shown.size() == kTokens);
    REQUIRE(truth.text.size() == 32 * kTokens);
    for (const bool all : {false, true}) {
      CAPTURE(setting.name, all);
      const int failed = fail_each([&](std::int64_t n) {
        Text text(setting);
        begin(text);
        const Thrown thrown = thrown_by(n, all, [&] { step(text); });
        REQUIRE(thrown != Thrown::kOther);
        REQUIRE(text.decoder.cache().staged() == 0);
        text.go_on();
        REQUIRE(Said(text) == truth);
        text.generate();
        REQUIRE(Said(text) == second);
        return thrown != Thrown::kNothing;
      });
      CHECK(failed > 0);
    }
  }
}

}  // namespace

TEST_CASE("a decoder that runs out of memory while it is made leaves nothing behind") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const int failed = fail_each([&](std::int64_t n) {
      const Thrown thrown = thrown_by(n, false, [&] { const Text text(setting); });
      REQUIRE(thrown != Thrown::kOther);
      return thrown != Thrown::kNothing;
    });
    CHECK(failed > 5);
  }
}

TEST_CASE("a prompt that runs out of memory while it is read is read again") {
  check_text([](Text&) {}, [](Text& text) { text.prefill(); });
}

TEST_CASE("a text that runs out of memory goes on as if nothing had happened") {
  check_text([](Text&) {}, [](Text& text) { text.generate(); });
}

TEST_CASE(
    "the first pass of a model, which makes its buffers, may run out of memory and be repeated") {
  const Setting& setting = settings()[0];
  Text undisturbed(setting);
  undisturbed.generate();
  const Said truth(undisturbed);
  for (const bool all : {false, true}) {
    CAPTURE(all);
    const int failed = fail_each([&](std::int64_t n) {
      fd::Cpu cpu{{.threads = 1}};
      Model fresh = fd::load(cpu, fd::Gguf::parse(models().target_bytes));
      Text text(setting, fresh);
      const Thrown thrown = thrown_by(n, all, [&] { text.generate(); });
      REQUIRE(thrown != Thrown::kOther);
      text.go_on();
      REQUIRE(Said(text) == truth);
      return thrown != Thrown::kNothing;
    });
    CHECK(failed > 50);
  }
}

TEST_CASE("a snapshot that runs out of memory leaves the decoder as it is") {
  check_text([](Text& text) { text.generate(kTokens / 2); },
             [](Text& text) { (void)text.decoder.snapshot(); });
}

TEST_CASE("going back to a snapshot may run out of memory, and be done again") {
  Drafted drafted;
  for (const Setting& setting : settings()) {
    Text undisturbed(setting);
    undisturbed.generate(kTokens / 2);
    const auto half = undisturbed.decoder.snapshot();
    undisturbed.go_on();
    const Said truth(undisturbed);
    CHECK(undisturbed.drafted.drafted > 0);
    drafted.add(undisturbed.drafted);
    for (const bool all : {false, true}) {
      CAPTURE(setting.name, all);
      const int failed = fail_each([&](std::int64_t n) {
        Text text(setting);
        text.generate();
        const Thrown thrown = thrown_by(n, all, [&] { text.decoder.restore(half); });
        REQUIRE(thrown != Thrown::kOther);
        if (thrown != Thrown::kNothing) text.decoder.restore(half);
        text.go_on();
        REQUIRE(Said(text).final == truth.final);
        return thrown != Thrown::kNothing;
      });
      CHECK(failed > 0);
    }
  }
  CHECK(drafted.both());
}
