#include <foredraft/backend/cuda/cuda.cuh>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include <foredraft/backend/row_format.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/model/load.hpp>

#include "memory.hpp"
#include "models.hpp"
#include "session_in.hpp"
#include "target.hpp"
#include "usage.hpp"

namespace cli {

namespace {

using GpuModel = fd::Model<fd::Cuda>;
/// For whatever layers there are.
template <typename S>
using GpuCache = fd::HybridCache<fd::CudaRows<S>, fd::CudaReplay>;

/// Rows of a pass that reads a prompt.
int prompt_rows(const fd::ModelConfig& config) {
  return std::min(fd::Options().prefill_block,
                  GpuCache<fd::f16>::staged_or_default(config.cache_shape()));
}

/// What attention keeps of a pass that reads a prompt: parts of all heads, before they are merged.
double attention_bytes(const fd::ModelConfig& config, int n_ctx) {
  double most = 0;
  for (const fd::LayerShape& layer : config.layers) {
    const fd::AttentionShape& a = layer.attention;
    if (a.d_head > 0) {
      most = std::max(most, static_cast<double>(a.d_q) / a.d_head * (2.0 + a.d_head));
    }
  }
  const double rows = std::min(prompt_rows(config), n_ctx);
  return rows * fd::cuda::parts_of(n_ctx, fd::cuda::kPart) * most * sizeof(float);
}

/// What recurrent layers make of the rows of a pass: see cuda::Scratch.
double recurrent_bytes(const fd::ModelConfig& config) {
  double most = 0;
  for (const fd::LayerShape& layer : config.layers) {
    std::visit(
        [&](const auto& mixer) {
          if constexpr (requires { mixer.d_in(); }) {
            most = std::max(most, static_cast<double>(mixer.d_in()) + 2.0 * mixer.width);
          }
        },
        layer.recurrent);
  }
  return prompt_rows(config) * most * sizeof(float);
}

/// Of weights, as the pool of the GPU's memory hands it out.
double weight_bytes(const fd::Gguf& file) {
  double bytes = 0;
  for (const auto& tensor : file.tensors()) {
    const fd::TensorView view = file.view(tensor);
    const double one = view.n_out > 1 ? fd::cuda::bytes_of(view.type, view.n_out, view.n_in)
                                      : sizeof(float) * static_cast<double>(view.n_in);
    bytes += static_cast<double>(fd::cuda::MemoryPool<int>::rounded(static_cast<std::size_t>(one)));
  }
  return bytes;
}

std::string megabytes(double bytes) {
  return std::to_string(static_cast<long>(bytes / 1e6)) + " MB";
}

struct GpuBackend {
  fd::Cuda cuda;
};

class GpuTarget final : private GpuBackend, public TargetOn<GpuModel> {
 public:
  GpuTarget(const fd::Gguf& file, const fd::LoadOptions& options)
      : TargetOn(fd::load(cuda, file, options)) {
    cudaDeviceProp gpu{};
    fd::cuda::check(cudaGetDeviceProperties(&gpu, fd::cuda::GpuDevice::current().ordinal()),
                    "asking for the GPU's name");
    name_ = std::string("cuda, ") + gpu.name;
  }

  std::string arithmetic() const override { return name_; }

  std::unique_ptr<Session> make_session(Models& models, const Method& method) override {
    if (models.draft) {
      require_memory(Cache::full_bytes(with_formats(models.draft->shape(), method.draft_cache),
                                       models.draft_context(method.n_ctx)),
                     "the draft model's context", "a smaller context (-c)");
    }
    return fd::with_element(method.cache.k, [&]<typename S>(fd::Element<S>) {
      GpuCache<S> cache(with_sinks(model.shape(), method.sinks), method.n_ctx);
      return session_over(model, std::move(cache), models, method);
    });
  }

 private:
  std::string name_;
};

}  // namespace

void require_gpu(const fd::Gguf& file, const fd::ModelConfig& config, fd::RowFormats formats,
                 int n_ctx, double pass_bytes) {
  std::size_t free = 0, all = 0;
  try {
    fd::cuda::check(cudaMemGetInfo(&free, &all), "asking for the GPU's memory");
  } catch (const fd::Error& error) {
    throw fd::Error(error.code(), error.found(), error.expected(), "use --device cpu");
  }
  const double cache = fd::with_element(formats.k, [&]<typename S>(fd::Element<S>) {
    return GpuCache<S>::full_bytes(config.cache_shape(), n_ctx);
  });
  const double bytes = weight_bytes(file) + attention_bytes(config, n_ctx) +
                       recurrent_bytes(config) + pass_bytes + cache;
  if (bytes <= static_cast<double>(free)) return;
  throw fd::Error(fd::ErrorCode::kOutOfMemory,
                  "weights and a context of " + std::to_string(n_ctx) + " that take " +
                      megabytes(bytes) + " of the GPU's memory",
                  "at most the " + megabytes(static_cast<double>(free)) + " that are free",
                  "a smaller context (-c) or a smaller model, or --device cpu");
}

std::unique_ptr<Target> load_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options) {
  return std::make_unique<GpuTarget>(file, options);
}

}  // namespace cli
