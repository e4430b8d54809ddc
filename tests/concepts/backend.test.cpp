#include <foredraft/models.hpp>

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/forward.hpp"
#include "support/load_reference.hpp"
#include "support/tiny_model.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{10, 20, 30, 10, 20};

/// Of 16 staged nodes, so that layers with a window are rings where there are any.
template <typename C, typename B>
C new_cache(const fd::Model<B>& model) {
  return C{model.shape(), 100, 16};
}

template <typename C, typename B>
fd::Result text_of(fd::Model<B>& model, auto drafter) {
  fd::Decoder decoder{model, new_cache<C>(model), std::move(drafter), fd::SampleAndMatch{}};
  (void)decoder.generate(kPrompt,
                         {.max_tokens = 10, .n_draft = 8, .sampling = {.temperature = 1.0f}});
  const auto before = decoder.snapshot();
  (void)decoder.resume({.max_tokens = 10, .n_draft = 8, .sampling = {.temperature = 1.0f}});
  decoder.restore(before);
  return decoder.resume({.max_tokens = 40, .n_draft = 8, .sampling = {.temperature = 1.0f}});
}

template <typename C, typename B>
std::vector<std::vector<float>> logits_of(fd::Model<B>& model) {
  C cache = new_cache<C>(model);
  cache.stage(chain_nodes(kPrompt));
  return forward_rows(model, cache, 0, static_cast<int>(kPrompt.size()));
}

/// Logits and text, plain and drafted, over backend B are those over Reference.
/// @tparam C  a cache in the memory of B, and H the same in the host's
template <typename B, typename C, typename H>
void check_same_text(const fd::Gguf& file) {
  B remote;
  fd::Reference reference;
  auto there = fd::load(remote, file);
  auto here = fd::load(reference, file);
  CHECK(logits_of<C>(there) == logits_of<H>(here));
  const fd::Result expected = text_of<H>(here, fd::NoDraft{});
  CHECK(text_of<C>(there, fd::NoDraft{}).tokens == expected.tokens);
  using Trees = fd::ModelTreeDrafter<fd::Model<B>, C>;
  const fd::Result drafted = text_of<C>(there, Trees{there, {}, 100});
  CHECK(drafted.tokens == expected.tokens);
  CHECK(drafted.stats.accepted > 10);
}

// Near misses of what a backend is.

struct HostPeeks : archetype::RemoteBackend {  // a vector whose numbers are the host's
  using Vector = std::vector<float>;
};
struct NoBuffer : archetype::RemoteBackend {
  template <typename T>
  using Buffer = void;
};
struct WorkerWithoutTap : archetype::RemoteWorker {
  void tap(const auto&) = delete;
};
struct NoTap : archetype::RemoteBackend {
  using Worker = WorkerWithoutTap;
};
static_assert(!fd::Backend<HostPeeks>);
static_assert(!fd::Backend<NoBuffer>);
static_assert(!fd::Backend<NoTap>);
static_assert(!fd::Backend<int>);

template <typename T, typename C>
concept CanForward =
    requires(T& model, std::span<fd::Request<C>> requests) { model.forward(requests); };
template <typename M, typename S>
concept MakesCache = requires(const M& model) { model.template make_cache<S>(); };
using Remote = fd::Model<archetype::RemoteBackend>;
static_assert(CanForward<Remote, fd::LinearCache<archetype::RemoteRows>>);
static_assert(!CanForward<Remote, fd::LinearCache<float>>);  // its keys lie elsewhere
static_assert(!CanForward<fd::Model<fd::Cpu>, fd::LinearCache<archetype::RemoteRows>>);
static_assert(!CanForward<fd::Model<fd::Cpu>, fd::TokenCache>);

/// What KeyValueCache asks for, and nothing else: not even to be truncated.
class LeastCache : fd::LinearCache<float> {
  using Base = fd::LinearCache<float>;

 public:
  using Base::Base;
  using Base::Rows, Base::Snapshot;
  using Base::size, Base::capacity, Base::max_staged, Base::staged;
  using Base::stage, Base::commit, Base::discard, Base::snapshot, Base::restore;
  using Base::token, Base::position, Base::rows, Base::layer;
};
static_assert(fd::KeyValueCache<LeastCache> && !fd::Truncatable<LeastCache>);

}  // namespace

TEST_CASE("a model asks of a cache what the concept says, and no more") {
  const auto bytes = TinyModel{.family = "qwen2", .type = fd::TensorType::kF32}.file();
  fd::Reference reference;
  auto model = fd::load(reference, fd::Gguf::parse(bytes));
  const std::vector<fd::TokenId> prompt{10, 20, 30, 10, 20};
  const fd::Options options{.max_tokens = 30, .n_draft = 4};
  fd::Decoder least{model, LeastCache{model.shape(), 100}, fd::PromptLookup{}, fd::Greedy{}};
  fd::Decoder whole{model, fd::LinearCache<float>{model.shape(), 100}, fd::NoDraft{}, fd::Greedy{}};
  CHECK(least.generate(prompt, options).tokens == whole.generate(prompt, options).tokens);
}

TEST_CASE("a model asks nothing of its backend's memory that only the host's can do") {
  // Of softcaps, of factors, of norms over all heads.
  const std::string family = GENERATE(as<std::string>{}, "qwen2", "gemma2", "granite", "olmo2");
  const auto bytes = TinyModel{.family = family, .type = fd::TensorType::kF32}.file();
  check_same_text<archetype::RemoteBackend, fd::LinearCache<archetype::RemoteRows>,
                  fd::LinearCache<float>>(fd::Gguf::parse(bytes));
}

TEST_CASE("likewise with mixtures, embeddings of layers, and recurrent layers") {
  const auto check = [](const fd::Gguf& file) {
    check_same_text<archetype::FullRemoteBackend,
                    fd::HybridCache<archetype::RemoteRings, archetype::RemoteStates<fd::Replay>>,
                    fd::HybridCache<float>>(file);
  };
  for (const char* const family : {"qwen3moe", "gemma4", "qwen3next"}) {
    CAPTURE(family);
    // Four layers, so that those of gemma4 read keys of others.
    const TinyModel tiny{.family = family, .type = fd::TensorType::kF32, .n_layers = 4};
    const auto bytes = tiny.file();
    check(fd::Gguf::parse(bytes));
  }
  for (const std::string family : {"lfm2", "mamba2"}) {
    CAPTURE(family);
    check(fd::Gguf::open(test_file("golden/recurrent/" + family + ".gguf")));
  }
}

TEST_CASE("a model makes caches in its backend's memory, and so do drafters that run it") {
  using Model = fd::Model<archetype::FullRemoteBackend>;
  using Cache = fd::HybridCache<archetype::RemoteRings, archetype::RemoteStates<fd::Replay>>;
  static_assert(std::same_as<decltype(std::declval<Model&>().make_cache()), Cache>);
  static_assert(std::same_as<fd::DraftCacheFor<Model>, Cache>);
  static_assert(!MakesCache<Model, fd::q8_0>);  // its backend names no such rows
  static_assert(MakesCache<Model, archetype::RemoteRings>);
  // Of the processor's rows a format is short.
  static_assert(MakesCache<fd::Model<fd::Cpu>, fd::q8_0>);
  static_assert(std::same_as<fd::DraftCacheFor<fd::Model<fd::Cpu>>, fd::HybridCache<fd::f16>>);
  static_assert(
      std::same_as<fd::DraftCacheFor<fd::Model<fd::Reference>>, fd::HybridCache<fd::f16>>);
  static_assert(std::same_as<fd::DraftCacheFor<toy::Target>, fd::LinearCache<fd::f16>>);

  const auto bytes = TinyModel{.family = "gemma3", .type = fd::TensorType::kF32}.file();
  const auto check = [](const fd::Gguf& file) {
    archetype::FullRemoteBackend remote;
    auto model = fd::load(remote, file);
    const auto text = [&](auto drafter) {
      fd::Decoder decoder{model, model.make_cache({.n_ctx = 100}), std::move(drafter),
                          fd::Greedy{}};
      return decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 4});
    };
    const fd::Result drafted = text(fd::ModelDrafter{model});
    CHECK(drafted.tokens == text(fd::NoDraft{}).tokens);
    CHECK(drafted.stats.accepted > 10);
  };
  check(fd::Gguf::parse(bytes));
  check(fd::Gguf::open(test_file("golden/recurrent/lfm2.gguf")));
}
