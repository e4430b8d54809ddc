// Whole models on the device that the host plays: every kernel is executed and checked.

#include <foredraft/backend/cuda/cuda_backend.hpp>

#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/drafter/model_tree_drafter.hpp>
#include <foredraft/foredraft.hpp>
#ifndef __CUDACC__  // nvcc would compile the kernels of Cpu without their flags
#include <foredraft/models.hpp>
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/sampling/top_tokens.hpp>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/forward.hpp"
#include "support/load_reference.hpp"
#include "support/oracle_drafter.hpp"
#include "support/throws.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;
using fd::TensorType;
using on_device::Device;
using Backend = fd::CudaBackend<Device>;
static_assert(fd::Backend<Backend>);
template <typename K, typename V = K>
using Rows = fd::cuda::Rows<Device, K, V>;
static_assert(fd::AttendsOver<Backend::Worker, Rows<float>>);
#ifndef __CUDACC__
static_assert(!fd::AttendsOver<Backend::Worker, fd::cpu::Rows<float>>);
static_assert(!fd::AttendsOver<fd::Cpu::Worker, Rows<float>>);
#endif

namespace {

using WithReplay = fd::HybridCache<Rows<float>, fd::cuda::Replay<Device>>;
using WithSlots = fd::HybridCache<Rows<float>, fd::cuda::Slots<Device>>;

fd::Gguf recurrent_file(const std::string& family) {
  return fd::Gguf::open(test_file("golden/recurrent/" + family + ".gguf"));
}

const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};

/// A cache of 120 positions over S, or S itself.
template <typename S>
struct CacheOf {
  using type = fd::LinearCache<S>;
};
template <typename S, typename V>
struct CacheOf<fd::HybridCache<S, V>> {
  using type = fd::HybridCache<S, V>;
};
template <typename S>
auto new_cache(fd::Model<Backend>& model) {
  return [&] { return typename CacheOf<S>::type{model.shape(), 120}; };
}

template <typename B, typename C, typename D, typename A>
fd::Result text_in(C cache, fd::Model<B>& model, D drafter, A acceptance, int n_draft, int n_tokens,
                   float temperature = 0.0f) {
  fd::Decoder decoder{model, std::move(cache), std::move(drafter), acceptance};
  return decoder.generate(kPrompt, {.max_tokens = n_tokens,
                                    .n_draft = n_draft,
                                    .sampling = {.temperature = temperature},
                                    .seed = 3,
                                    .ignore_end = true});
}

template <typename S, typename B, typename D, typename A>
fd::Result text_of(fd::Model<B>& model, D drafter, A acceptance, int n_draft, int n_tokens,
                   float temperature = 0.0f) {
  return text_in(typename CacheOf<S>::type{model.shape(), 120}, model, std::move(drafter),
                 acceptance, n_draft, n_tokens, temperature);
}

/// The text with chains and trees, right and wrong, against the text without.
/// @param cache  a new one @return the prompt and the text
template <typename F>
std::vector<fd::TokenId> check_greedy(fd::Model<Backend>& model, int n_tokens, F&& cache) {
  const auto plain = text_in(cache(), model, fd::NoDraft{}, fd::Greedy{}, 0, n_tokens).tokens;
  REQUIRE(plain.size() == fd::idx(n_tokens));
  std::vector<fd::TokenId> truth = kPrompt;
  truth.insert(truth.end(), plain.begin(), plain.end());
  // Chains of 4 rows, and trees of up to 13.
  for (const auto& [branches, depth] : {std::pair{1, 3}, {3, 4}}) {
    CAPTURE(branches, depth);
    const auto oracle = OracleDrafter::sweeping(truth, model.vocab_size(), branches);
    const fd::Result drafted = text_in(cache(), model, oracle, fd::Greedy{}, depth, n_tokens);
    CHECK(drafted.tokens == plain);
    CHECK(drafted.stats.accepted > 0);
    CHECK(drafted.stats.corrected > 0);
  }
  return truth;
}

/// Likewise, greedy and drawn.
template <typename F>
void check_equality(fd::Model<Backend>& model, int n_tokens, F&& cache) {
  const std::vector<fd::TokenId> truth = check_greedy(model, n_tokens, cache);
  const auto drawn =
      text_in(cache(), model, fd::NoDraft{}, fd::SampleAndMatch{}, 0, n_tokens, 1.0f);
  const auto oracle = OracleDrafter::sweeping(truth, model.vocab_size(), 3);
  CHECK(text_in(cache(), model, oracle, fd::SampleAndMatch{}, 5, n_tokens, 1.0f).tokens ==
        drawn.tokens);
  CHECK(!std::equal(drawn.tokens.rbegin(), drawn.tokens.rend(), truth.rbegin()));
}
template <typename S>
void check_equality(fd::Model<Backend>& model, int n_tokens) {
  check_equality(model, n_tokens, new_cache<S>(model));
}

}  // namespace

TEST_CASE("a tiny model has the text of the reference") {
  for (const char* family : {"llama", "qwen2", "gemma2", "gemma4"}) {
    CAPTURE(family);
    TinyModel tiny{.family = family, .type = TensorType::kF32};
    if (tiny.family == "gemma4") tiny.n_layers = 4;  // two of them read the keys of others
    const auto bytes = tiny.file();
    Backend cuda;
    fd::Reference reference;
    auto there = fd::load(cuda, fd::Gguf::parse(bytes));
    auto here = fd::load(reference, fd::Gguf::parse(bytes));
    const auto expected = text_of<float>(here, fd::NoDraft{}, fd::Greedy{}, 0, 30).tokens;
    CHECK(text_of<Rows<float>>(there, fd::NoDraft{}, fd::Greedy{}, 0, 30).tokens == expected);
  }
  CHECK(Device::current().graphs() > 0);  // else kernels are started one by one
}

TEST_CASE("speculative text is plain text: chains and trees, greedy and drawn") {
  const auto bytes = TinyModel{}.file();  // Q4_0 and Q8_0
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_equality<Rows<fd::f16>>(model, 24);
}

TEST_CASE("likewise with windows, norms behind products, and half weights") {
  TinyModel tiny{.family = "gemma3", .type = TensorType::kF16};
  tiny.n_layers = 3;
  const auto bytes = tiny.file();
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_equality<Rows<float>>(model, 16);
}

TEST_CASE("likewise in rings, with sinks, in q8_0, and in two formats") {
  TinyModel tiny{.family = "gemma3"};
  tiny.n_layers = 3;
  tiny.d_head = 64;
  tiny.n_heads = 2;
  tiny.n_kv_heads = 1;
  const auto bytes = tiny.file();
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_equality(model, 30, [&] {
    return fd::RotatingCache<Rows<fd::f16>>{model.shape(), 120, 16};  // rings of 32 rows
  });

  using S = Rows<fd::q8_0>;
  constexpr int kTokens = 60;
  fd::CacheShape shape = model.shape();
  shape.sinks = 2;
  const auto text = [&](auto cache, auto drafter, int n_draft) {
    return text_in(std::move(cache), model, std::move(drafter), fd::Greedy{}, n_draft, kTokens)
        .tokens;
  };
  const auto plain = text(fd::LinearCache<S>{shape, 120}, fd::NoDraft{}, 0);
  std::vector<fd::TokenId> truth = kPrompt;
  truth.insert(truth.end(), plain.begin(), plain.end());
  const auto oracle = OracleDrafter::sweeping(truth, model.vocab_size(), 3);
  CHECK(text(fd::RotatingCache<S>{shape, 120, 16}, oracle, 4) == plain);
  CHECK(text(fd::LinearCache<S>{model.shape(), 120}, fd::NoDraft{}, 0) != plain);

  fd::CacheShape mixed = model.shape();
  mixed.formats = {fd::RowFormat::kQ8_0, fd::RowFormat::kF16};
  check_greedy(model, 30,
               [&] { return fd::RotatingCache<fd::cuda::AnyRows<Device>>{mixed, 120, 16}; });
}

TEST_CASE("likewise with keys of other layers, and an embedding for each layer") {
  TinyModel tiny{.family = "gemma4"};
  tiny.n_layers = 4;
  const auto bytes = tiny.file();
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_equality<Rows<fd::f16>>(model, 10);
}

TEST_CASE("a model with recurrent layers has the text of the reference") {
  for (const char* family : {"lfm2", "mamba2", "nemotron_h", "qwen35", "qwen3next"}) {
    CAPTURE(family);
    const fd::Gguf file = recurrent_file(family);
    Backend cuda;
    fd::Reference reference;
    auto there = fd::load(cuda, file);
    auto here = fd::load(reference, file);
    const auto expected =
        text_of<fd::HybridCache<float>>(here, fd::NoDraft{}, fd::Greedy{}, 0, 12).tokens;
    CHECK(text_of<WithReplay>(there, fd::NoDraft{}, fd::Greedy{}, 0, 12).tokens == expected);
    CHECK(text_of<WithSlots>(there, fd::NoDraft{}, fd::Greedy{}, 0, 12).tokens == expected);
  }
}

TEMPLATE_TEST_CASE("speculative text is plain text with recurrent layers", "", WithReplay,
                   WithSlots) {
  for (const char* family : {"lfm2", "mamba2", "qwen35"}) {
    CAPTURE(family);
    Backend cuda;
    auto model = fd::load(cuda, recurrent_file(family));
    (void)check_greedy(model, 10, new_cache<TestType>(model));
  }
}

TEST_CASE("likewise with a mixture of experts") {
  const auto bytes = TinyModel{.family = "qwen3moe"}.file();
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_equality<Rows<float>>(model, 12);
}

TEST_CASE("target and draft on one device, in the caches that they make") {
  static_assert(std::same_as<fd::DraftCacheFor<fd::Model<Backend>>,
                             fd::HybridCache<Rows<fd::f16>, fd::cuda::Replay<Device>>>);
  const auto check = [](const fd::Gguf& file) {
    Backend cuda;
    auto target = fd::load(cuda, file);  // its own draft
    const auto text = [&](auto drafter, int n_draft) {
      return text_in(target.make_cache({.n_ctx = 120}), target, std::move(drafter), fd::Greedy{},
                     n_draft, 20);
    };
    const fd::Result drafted = text(fd::ModelTreeDrafter{target, {}, 120}, 3);
    CHECK(drafted.tokens == text(fd::NoDraft{}, 0).tokens);
    CHECK(drafted.stats.accepted > 0);
  };
  const auto bytes = TinyModel{}.file();
  check(fd::Gguf::parse(bytes));
  check(recurrent_file("lfm2"));
}

TEST_CASE("target and draft in two streams of a device") {
  const auto bytes = TinyModel{}.file();
  Backend backend, other{{.stream = 1}};
  auto target = fd::load(backend, fd::Gguf::parse(bytes));
  auto draft = fd::load(other, fd::Gguf::parse(bytes));
  using S = Rows<fd::f16>;
  const auto plain = text_of<S>(target, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens;
  CHECK(text_of<S>(draft, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens == plain);
  using Draft = fd::ModelTreeDrafter<fd::Model<Backend>, fd::LinearCache<S>>;
  const auto drafted = text_of<S>(target, Draft{draft, {}, 120}, fd::Greedy{}, 3, 20);
  CHECK(drafted.tokens == plain);
  CHECK(drafted.stats.accepted > 0);
  CHECK(code_of([] { Backend{{.stream = -1}}; }) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("threads decode in a stream each, and have the text of one") {
  const auto decode = [](int stream) {
    Backend backend{{.stream = stream}};
    auto model = fd::load(backend, recurrent_file("lfm2"));
    // Trees move rows when they are committed.
    fd::ModelTreeDrafter<fd::Model<Backend>, WithReplay> draft{model, {}, 120};
    return text_of<WithReplay>(model, std::move(draft), fd::Greedy{}, 3, 20).tokens;
  };
  auto second = std::async(std::launch::async, decode, 1);
  auto third = std::async(std::launch::async, decode, 2);
  const std::vector<fd::TokenId> text = decode(0);
  CHECK(text.size() == 20);
  CHECK(second.get() == text);
  CHECK(third.get() == text);
}

TEST_CASE("a draft model that was made smaller on its way to the device") {
  const auto bytes = TinyModel{.type = TensorType::kBF16}.file();
  const fd::LoadOptions smaller{.requantize = TensorType::kQ8_0, .head_tokens = 200};
  Backend of_target, of_draft;
  auto target = fd::load(of_target, fd::Gguf::parse(bytes));
  auto draft = fd::load(of_draft, fd::Gguf::parse(bytes), smaller);
  fd::Reference reference;
  auto expected = fd::load(reference, fd::Gguf::parse(bytes), smaller);
  using S = Rows<float>;
  CHECK(text_of<S>(draft, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens ==
        text_of<float>(expected, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens);
  const auto plain = text_of<S>(target, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens;
  const auto drafted = text_of<S>(
      target, fd::ModelTreeDrafter<fd::Model<Backend>, fd::LinearCache<S>>{draft, {}, 120},
      fd::Greedy{}, 3, 20);
  CHECK(drafted.tokens == plain);
  CHECK(drafted.stats.accepted > 0);
}

TEST_CASE("best tokens come without logits, and are those of the logits") {
  const auto bytes = TinyModel{}.file();
  for (const fd::LoadOptions& options : {fd::LoadOptions{}, fd::LoadOptions{.head_tokens = 200}}) {
    Backend cuda;
    auto model = fd::load(cuda, fd::Gguf::parse(bytes), options);
    using C = fd::LinearCache<Rows<float>>;
    C one{model.shape(), 120}, other{model.shape(), 120};
    for (C* cache : {&one, &other}) cache->stage(chain_nodes(kPrompt));
    // Both in one pass, in which other rows want more, or less.
    fd::Scores best, all;
    std::vector<fd::Request<C>> requests{{&other, 0, 4, {fd::RowNeed::kLogits, {}}, &all},
                                         {&one, 0, 4, {fd::RowNeed::kTop, {}}, &best}};
    model.forward(std::span(requests));
    CHECK(best.need() == fd::RowNeed::kTop);
    CHECK(best.logits(0).empty());
    CHECK(all.top(0).empty());
    for (int i = 0; i < 4; ++i) {
      std::array<fd::TokenId, fd::idx(fd::Scores::kTop)> expected;
      fd::top_tokens<fd::Scores::kTop>(std::as_const(all).logits(i), expected);
      CHECK(std::ranges::equal(std::as_const(best).top(i), expected));
      CHECK(best.argmax(i) == expected[0]);
    }
  }
}

TEST_CASE("tokens are recycled without a row of logits") {
  struct WithoutLogits : fd::TokenRecycling<> {
    void commit(const fd::Round& round) noexcept {
      without = without && round.scores.logits(0).empty();
      fd::TokenRecycling<>::commit(round);
    }
    bool without = true;
  };
  const auto bytes = TinyModel{}.file();
  Backend cuda;
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  const auto plain = text_of<Rows<float>>(model, fd::NoDraft{}, fd::Greedy{}, 0, 40).tokens;
  fd::Decoder decoder{model, fd::LinearCache<Rows<float>>{model.shape(), 120}, WithoutLogits{},
                      fd::Greedy{}};
  const fd::Options options{.max_tokens = 40, .n_draft = 3, .ignore_end = true};
  const fd::Result first = decoder.generate(kPrompt, options);
  CHECK(first.tokens == plain);
  // What was learnt of the first text drafts for the second.
  const fd::Result second = decoder.generate(kPrompt, options);
  CHECK(second.tokens == plain);
  CHECK(second.stats.accepted > 20);
  CHECK(decoder.drafter().without);
}

#ifndef __CUDACC__

TEST_CASE("target and draft on different backends") {
  const auto bytes = TinyModel{}.file();  // its own draft: right but for other roundings
  Backend cuda;
  fd::Cpu cpu{{.threads = 1}};
  auto target = fd::load(cuda, fd::Gguf::parse(bytes));
  auto far = fd::load(cpu, fd::Gguf::parse(bytes));
  using S = Rows<fd::f16>;
  const auto plain = text_of<S>(target, fd::NoDraft{}, fd::Greedy{}, 0, 20).tokens;
  const auto by_cpu = text_of<S>(target, fd::ModelDrafter{far}, fd::Greedy{}, 3, 20);
  CHECK(by_cpu.tokens == plain);
  CHECK(by_cpu.stats.accepted > 0);
  // The law of what is drawn is a test of its own; here, that all of it runs and agrees with itself.
  const auto rejection = [&] {
    return text_of<S>(target, fd::ModelDrafter{far}, fd::RejectionSampling{}, 3, 15, 1.0f);
  };
  CHECK(rejection().tokens == rejection().tokens);
}

#endif

namespace {

/// A pass that was computed and then fails: the next one finds all as it was before.
template <typename S>
void check_failed_pass(fd::Model<Backend>& model) {
  fd::Decoder decoder{model, typename CacheOf<S>::type{model.shape(), 60}, fd::NoDraft{},
                      fd::Greedy{}};
  const auto first = decoder.generate(kPrompt, {.max_tokens = 5, .ignore_end = true});
  Device::current().note(std::make_exception_ptr(fd::Error(fd::ErrorCode::kDevice, "x", "y")));
  CHECK(code_of([&] { (void)decoder.resume({.max_tokens = 5, .ignore_end = true}); }) ==
        fd::ErrorCode::kDevice);
  const auto rest = decoder.resume({.max_tokens = 5, .ignore_end = true}).tokens;
  auto all = first.tokens;
  all.insert(all.end(), rest.begin(), rest.end());
  CHECK(all == text_of<S>(model, fd::NoDraft{}, fd::Greedy{}, 0, 10).tokens);
}

}  // namespace

TEST_CASE("an error of a commit is thrown by the next pass, and the text goes on behind it") {
  Backend cuda;
  const auto bytes = TinyModel{.type = TensorType::kF32}.file();
  auto model = fd::load(cuda, fd::Gguf::parse(bytes));
  check_failed_pass<Rows<float>>(model);
  for (const char* family : {"lfm2", "mamba2", "qwen35"}) {
    CAPTURE(family);
    auto recurrent = fd::load(cuda, recurrent_file(family));
    check_failed_pass<WithReplay>(recurrent);
    check_failed_pass<WithSlots>(recurrent);
  }
}

TEMPLATE_TEST_CASE("states come back from a snapshot", "", WithReplay, WithSlots) {
  for (const char* family : {"lfm2", "mamba2", "qwen35"}) {
    CAPTURE(family);
    Backend cuda;
    auto model = fd::load(cuda, recurrent_file(family));
    fd::Decoder decoder{model, TestType{model.shape(), 60}, fd::NoDraft{}, fd::Greedy{}};
    const fd::Options options{.max_tokens = 5, .ignore_end = true};
    (void)decoder.generate(kPrompt, options);
    const auto snapshot = decoder.snapshot();
    const auto rest = decoder.resume(options).tokens;
    decoder.restore(snapshot);
    CHECK(decoder.resume(options).tokens == rest);
    (void)decoder.generate(std::vector<fd::TokenId>{1, 2, 3, 4}, options);
    decoder.restore(snapshot);
    CHECK(decoder.resume(options).tokens == rest);
  }
}

#ifndef __CUDACC__  // of a GPU nobody counts what is left

/// @param text  loads a model and decodes with it
void check_memory_that_runs_out(const auto& text) {
  Device& device = Device::current();
  const std::size_t before = device.pieces();
  const std::vector<fd::TokenId> expected = text();
  int failures = 0;
  for (int n = 0;; ++n, ++failures) {
    device.run_out_after(n);
    std::vector<fd::TokenId> tokens;
    const auto code = code_of([&] { tokens = text(); });
    device.run_out_after(-1);
    CHECK(device.pieces() == before);
    if (!code) {
      CHECK(tokens == expected);
      break;
    }
    REQUIRE(code == fd::ErrorCode::kOutOfMemory);
  }
  CHECK(failures > 30);
}

TEST_CASE("memory that runs out at any allocation leaves all usable") {
  const auto bytes = TinyModel{.n_layers = 1}.file();
  check_memory_that_runs_out([&] {
    Backend cuda;
    auto model = fd::load(cuda, fd::Gguf::parse(bytes));
    return text_of<Rows<fd::f16>>(model, fd::NoDraft{}, fd::SampleAndMatch{}, 0, 2, 1.0f).tokens;
  });
  const fd::Gguf file = recurrent_file("mamba2");
  check_memory_that_runs_out([&] {
    Backend cuda;
    auto model = fd::load(cuda, file);
    return text_of<WithReplay>(model, fd::NoDraft{}, fd::Greedy{}, 0, 2).tokens;
  });
}

TEST_CASE("a model on a device gives all its memory back") {
  const std::size_t before = Device::current().pieces();
  {
    const auto bytes = TinyModel{}.file();
    Backend cuda;
    auto model = fd::load(cuda, fd::Gguf::parse(bytes));
    (void)text_of<Rows<fd::f16>>(model, fd::NoDraft{}, fd::Greedy{}, 0, 3);
    CHECK(Device::current().pieces() > before);
  }
  CHECK(Device::current().pieces() == before);
}

#endif
