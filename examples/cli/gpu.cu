#include <foredraft/backend/cuda/cuda.cuh>

#include <utility>

#include <foredraft/cache/linear.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/model/load.hpp>

#include "models.hpp"
#include "session_in.hpp"
#include "target.hpp"
#include "usage.hpp"

namespace cli {

namespace {

using GpuModel = fd::Model<fd::Cuda>;
using GpuCache = fd::LinearCache<fd::CudaRows<fd::f16>>;

/// Refuse what cannot fit before it is read.
void require_room_on_gpu(const fd::Gguf& file, int n_ctx) {
  double bytes = 0;
  for (const auto& tensor : file.tensors()) {
    const fd::TensorView view = file.view(tensor);
    bytes += fd::cuda::bytes_of(view.type, view.n_out, view.n_in);
  }
  const fd::ModelConfig config = fd::read_config(file);
  bytes += GpuCache::full_bytes(config.cache_shape(), n_ctx + fd::Options().prefill_block);
  bytes += 4.0 * fd::DraftTree::kMaxNodes * config.n_vocab;  // logits of a pass
  std::size_t free = 0, all = 0;
  fd::cuda::check(cudaMemGetInfo(&free, &all), "asking for the GPU's memory");
  if (bytes <= static_cast<double>(free)) return;
  const auto megabytes = [](double n) {
    return std::to_string(static_cast<long>(n / 1e6)) + " MB";
  };
  throw fd::Error(fd::ErrorCode::kOutOfMemory,
                  "weights and a context of " + std::to_string(n_ctx) + " that take " +
                      megabytes(bytes) + " of the GPU's memory",
                  "at most the " + megabytes(static_cast<double>(free)) + " that are free",
                  "a smaller context (-c) or a smaller model, or --device cpu");
}

struct GpuBackend {
  fd::Cuda cuda;
};

class GpuTarget final : private GpuBackend, public TargetOn<GpuModel> {
 public:
  GpuTarget(const fd::Gguf& file, const fd::LoadOptions& options)
      : TargetOn(fd::load(cuda, file, options)) {}

  std::string arithmetic() const override { return "cuda"; }

  std::unique_ptr<Session> make_session(Models& models, const Method& method) override {
    if (method.cache.k != fd::RowFormat::kF16 || method.cache.v != fd::RowFormat::kF16) {
      throw UsageError("a cache in " + spelled(method.cache) + " on a GPU", "f16",
                       "leave --cache-type-k and --cache-type-v out, or use --device cpu");
    }
    fd::CacheShape shape = model.shape();
    shape.sinks = method.sinks;
    return session_over(model, GpuCache(shape, method.n_ctx), models, method);
  }
};

}  // namespace

std::unique_ptr<Target> load_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options,
                                    int n_ctx) {
  try {
    require_room_on_gpu(file, n_ctx);
    return std::make_unique<GpuTarget>(file, options);
  } catch (const fd::Error& error) {
    if (error.code() != fd::ErrorCode::kDevice) throw;
    throw fd::Error(error.code(), error.found(), error.expected(), "use --device cpu");
  }
}

}  // namespace cli
