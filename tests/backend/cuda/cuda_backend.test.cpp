// A whole model on the device that the host plays: every kernel is executed and checked.

#include <foredraft/backend/cuda/cuda_backend.hpp>

#include <foredraft/models.hpp>
#include <vector>

#include <foredraft/backend/cuda/host_device.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;
using fd::cuda::HostDevice;
using Backend = fd::CudaBackend<HostDevice>;
static_assert(fd::Backend<Backend>);
template <typename S>
using Rows = fd::cuda::Rows<S, HostDevice>;
static_assert(fd::RowStorage<Rows<float>> && fd::RowStorage<Rows<fd::f16>>);
static_assert(fd::AttendsOver<Backend::Worker, Rows<float>>);
static_assert(!fd::AttendsOver<Backend::Worker, fd::cpu::Rows<float>>);

namespace {

const std::vector<fd::TokenId> kPrompt{10, 20, 30, 10, 20};

template <typename S, typename B>
fd::Result text_of(fd::Model<B>& model, auto drafter, auto acceptance, int n_draft, int n = 40,
                   float temperature = 0.0f) {
  fd::Decoder decoder{model, fd::LinearCache<S>{model.shape(), 120}, std::move(drafter),
                      acceptance};
  return decoder.generate(kPrompt, {.max_tokens = n,
                                    .n_draft = n_draft,
                                    .sampling = {.temperature = temperature},
                                    .seed = 3,
                                    .ignore_end = true});
}

}  // namespace

TEST_CASE("a tiny model: the text is that of the reference, with and without drafts") {
  const TinyModel tiny{.family = "qwen2", .type = fd::TensorType::kF32};
  const auto bytes = tiny.file();
  Backend cuda;
  fd::Reference reference;
  auto there = fd::load(cuda, fd::Gguf::parse(bytes));
  auto here = fd::load(reference, fd::Gguf::parse(bytes));
  const auto expected = text_of<float>(here, fd::NoDraft{}, fd::Greedy{}, 0).tokens;
  CHECK(text_of<Rows<float>>(there, fd::NoDraft{}, fd::Greedy{}, 0).tokens == expected);
}
