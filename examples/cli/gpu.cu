#include <foredraft/backend/cuda/cuda.cuh>

#include <string>
#include <utility>

#include <foredraft/core/error.hpp>
#include <foredraft/model/load.hpp>

#include "draft.hpp"
#include "draft_over.hpp"
#include "gpu_need.hpp"
#include "memory.hpp"
#include "models.hpp"
#include "passes_in.hpp"
#include "session_in.hpp"
#include "target.hpp"
#include "together_in.hpp"
#include "usage.hpp"

namespace cli {

namespace {

using GpuModel = fd::Model<fd::Cuda>;
using GpuCache = DeviceCache<fd::cuda::GpuDevice>;

std::string megabytes(double bytes) {
  return std::to_string(static_cast<long>(bytes / 1e6)) + " MB";
}

/// A base, so that the backend is there before the model that refers to it.
struct GpuBackend {
  fd::Cuda cuda;
};

template <typename Role>
class GpuModelAs : private GpuBackend, public ModelOn<GpuModel, Role> {
 public:
  GpuModelAs(const fd::Gguf& file, const fd::LoadOptions& options)
      : ModelOn<GpuModel, Role>(fd::load(cuda, file, options)) {
    cudaDeviceProp gpu{};
    fd::cuda::check(cudaGetDeviceProperties(&gpu, fd::cuda::GpuDevice::current().ordinal()),
                    "asking for the GPU's name");
    name_ = std::string("cuda, ") + gpu.name;
  }

  std::string arithmetic() const override { return name_; }

 private:
  std::string name_;
};

class GpuTarget final : public GpuModelAs<Target> {
 public:
  using GpuModelAs::GpuModelAs;

  std::unique_ptr<Session> make_session(Models& models, const Method& method) override {
    require_draft_memory(models, method, 1);
    return session_over(model, make_cache(method), models, method);
  }

  std::unique_ptr<Together> make_together(Models& models, const Method& method,
                                          int writers) override {
    require_draft_memory(models, method, writers);
    return together_over(model, [&] { return make_cache(method); }, models, method, writers);
  }

  std::unique_ptr<Passes> make_passes(int n_ctx, int rows) override {
    return std::make_unique<PassesIn<GpuModel, GpuCache>>(model,
                                                          GpuCache(model.shape(), n_ctx, rows));
  }

 private:
  GpuCache make_cache(const Method& method) const {
    return GpuCache(with_sinks(with_formats(model.shape(), method.cache), method.sinks),
                    method.n_ctx);
  }
  /// All that texts take of the processor's memory: the target's caches are on the GPU.
  static void require_draft_memory(const Models& models, const Method& method, int texts) {
    if (const double bytes = texts * draft_cache_bytes(models, method); bytes > 0)
      require_memory(bytes, "the draft model's context", "a smaller context (-c)");
  }
};

class GpuDraft final : public GpuModelAs<Draft> {
 public:
  using GpuModelAs::GpuModelAs;

  bool on_gpu() const override { return true; }

  TreeDrafter make_drafter(Models& models, const Method& method) override {
    GpuCache cache(with_formats(model.shape(), method.draft_cache),
                   models.draft_context(method.n_ctx));
    return draft_over(model, std::move(cache), models, method);
  }
};

}  // namespace

void require_gpu(std::span<const GpuNeed> needs) {
  std::size_t free = 0, all = 0;
  try {
    fd::cuda::check(cudaMemGetInfo(&free, &all), "asking for the GPU's memory");
  } catch (const fd::Error& error) {
    throw fd::Error(error.code(), error.found(), error.expected(), "use " + without_gpu(needs));
  }
  const double bytes = device_bytes<fd::cuda::GpuDevice>(needs);
  if (bytes <= static_cast<double>(free)) return;
  throw fd::Error(
      fd::ErrorCode::kOutOfMemory,
      "weights and a context of " + std::to_string(needs.front().n_ctx) +
          (needs.size() > 1 ? " for two models" : "") + " that take " + megabytes(bytes) +
          " of the GPU's memory",
      "at most the " + megabytes(static_cast<double>(free)) + " that are free",
      "a smaller context (-c) or a smaller model, or --device" + needs.back().of + " cpu");
}

std::unique_ptr<Target> load_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options) {
  return std::make_unique<GpuTarget>(file, options);
}

std::unique_ptr<Draft> load_draft_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options) {
  return std::make_unique<GpuDraft>(file, options);
}

}  // namespace cli
