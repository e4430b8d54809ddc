#include <foredraft/models.hpp>

#include <string>
#include <type_traits>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"
#include "support/load_reference.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

template <typename S, typename B>
fd::Result text_of(fd::Model<B>& model, auto drafter) {
  fd::Decoder decoder{model, fd::LinearCache<S>{model.shape(), 100}, std::move(drafter),
                      fd::SampleAndMatch{}};
  const std::vector<fd::TokenId> prompt{10, 20, 30, 10, 20};
  (void)decoder.generate(prompt,
                         {.max_tokens = 10, .n_draft = 8, .sampling = {.temperature = 1.0f}});
  const auto before = decoder.snapshot();
  (void)decoder.resume({.max_tokens = 10, .n_draft = 8, .sampling = {.temperature = 1.0f}});
  decoder.restore(before);
  return decoder.resume({.max_tokens = 40, .n_draft = 8, .sampling = {.temperature = 1.0f}});
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
  void tap(const fd::TapArgs<archetype::RemoteWorker>&) = delete;
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
  const TinyModel tiny{.family = family, .type = fd::TensorType::kF32};
  const auto bytes = tiny.file();
  archetype::RemoteBackend remote;
  fd::Reference reference;
  auto there = fd::load(remote, fd::Gguf::parse(bytes));
  auto here = fd::load(reference, fd::Gguf::parse(bytes));
  using Rows = archetype::RemoteRows;
  const fd::Result expected = text_of<float>(here, fd::NoDraft{});
  CHECK(text_of<Rows>(there, fd::NoDraft{}).tokens == expected.tokens);
  using Trees = fd::ModelTreeDrafter<Remote, fd::LinearCache<Rows>>;
  const fd::Result drafted = text_of<Rows>(there, Trees{there, {}, 100});
  CHECK(drafted.tokens == expected.tokens);
  CHECK(drafted.stats.accepted > 10);
}
