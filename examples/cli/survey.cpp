#include "survey.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/backend/cuda/delta_net.hpp>
#include <foredraft/backend/cuda/memory_pool.hpp>
#include <foredraft/backend/cuda/selective_scan.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/weights.hpp>

namespace cli {

namespace {

/// In panels, as the processor has it.
std::size_t panel_bytes(const fd::TensorView& weights) {
  const fd::cpu::PanelLayout layout = fd::cpu::panel_layout(weights.type);
  const std::size_t block_k = fd::idx(layout.block_k);
  constexpr std::size_t kRows = fd::cpu::kPanelRows;
  return (weights.n_out + kRows - 1) / kRows * ((weights.n_in + block_k - 1) / block_k) *
         layout.bytes;
}

/// As the pool of a GPU's memory hands it out.
std::size_t pooled(double bytes) {
  return fd::cuda::MemoryPool<int>::rounded(static_cast<std::size_t>(bytes));
}

/// A backend that only measures: read_weights() checks names and shapes against the file with it.
struct MeasuringBackend {
  struct Matrix {
    std::size_t bytes = 0;
  };
  using Vector = std::vector<float>;

  Matrix pack(const fd::TensorView& weights) {
    const Matrix matrix{on_gpu
                            ? pooled(fd::cuda::bytes_of(weights.type, weights.n_out, weights.n_in))
                            : panel_bytes(weights)};
    bytes += matrix.bytes;
    return matrix;
  }
  Vector vector(const fd::TensorView& weights) {
    const std::size_t size = weights.n_in * sizeof(float);
    bytes += on_gpu ? pooled(static_cast<double>(size)) : size;
    return {};
  }

  bool on_gpu = false;
  std::size_t bytes = 0;
};

}  // namespace

Survey survey(const fd::Gguf& file, const fd::LoadOptions& options, bool on_gpu) {
  Survey found;
  found.config = fd::read_config(file);
  const fd::GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr) {
    throw fd::Error(fd::ErrorCode::kUnsupportedModel, "no tokenizer in the file",
                    "tokenizer.ggml.tokens", "convert the model again with its tokenizer");
  }
  // A model has it from its tokenizer, which is not read here. More than kMost is refused there.
  found.config.n_vocab =
      static_cast<int>(std::min<std::uint64_t>(tokens->count, std::uint64_t{fd::Dim::kMost}));
  MeasuringBackend backend{.on_gpu = on_gpu};
  // Which tokens the head keeps does not matter for its size; a count out of range is refused when
  // the model is loaded.
  std::vector<fd::TokenId> head_tokens(
      fd::idx(std::clamp(options.head_tokens, 0, int{found.config.n_vocab})));
  std::iota(head_tokens.begin(), head_tokens.end(), 0);
  fd::read_weights(backend, file, found.config, {.requantize = options.requantize},
                   std::move(head_tokens));
  found.weight_bytes = backend.bytes;
  return found;
}

double Survey::cache_bytes(std::int64_t n_ctx, fd::RowFormats formats, int sinks) const {
  const auto positions = static_cast<int>(std::min<std::int64_t>(n_ctx, fd::Dim::kMost));
  return Cache::full_bytes(with_sinks(with_formats(config.cache_shape(), formats), sinks),
                           positions);
}

double Survey::pass_bytes(int rows, int logit_rows) const {
  // Layers share what they work in, so the widest one counts.
  double widest = 0;
  for (const fd::LayerShape& layer : config.layers) {
    widest = std::max(widest, 2.0 * layer.attention.d_q + layer.feed_forward.d_ff);
  }
  // What layers are given besides x is made in one piece, and kept for the pass.
  const double inputs = 2.0 * config.d_input * static_cast<double>(config.layers.size());
  const double row = 2.0 * config.d_model + widest + inputs;
  return sizeof(float) * (rows * row + static_cast<double>(logit_rows) * config.n_vocab);
}

// Models are trained for up to a million positions, which take more memory than their weights.
int default_context(int trained) { return std::min(trained, 4096); }

void check_context(int n_ctx, int trained) {
  if (n_ctx <= trained) return;
  throw fd::Error(fd::ErrorCode::kInvalidOption, "-c " + std::to_string(n_ctx),
                  "at most the " + std::to_string(trained) + " that the model was trained for",
                  "text beyond it would be nonsense");
}

void check_cache_formats(fd::RowFormats formats, const fd::ModelConfig& model,
                         const std::string& of, bool on_gpu) {
  const auto check = [&](const char* option, fd::RowFormat format, int d_head) {
    const int multiple = on_gpu ? fd::values_in_element(format) : fd::cpu::head_multiple(format);
    if (d_head % multiple == 0) return;
    throw fd::Error(fd::ErrorCode::kInvalidOption,
                    option + of + " " + std::string(fd::name_of(format)) + " with heads of " +
                        std::to_string(d_head) + " dimensions",
                    "a multiple of " + std::to_string(multiple), "use " + kCacheFormats[0]);
  };
  for (const fd::KeyValueShape& layer : model.cache_shape().layers) {
    check("--cache-type-k", formats.k, layer.d_head);
    check("--cache-type-v", formats.v, layer.d_head);
  }
}

void check_gpu_limits(const fd::ModelConfig& model, const std::string& of) {
  const auto check = [&](const std::string& what, int found, const char* unit, int most) {
    if (found <= most) return;
    throw fd::Error(fd::ErrorCode::kUnsupportedModel,
                    "recurrent layers with " + what + " of " + std::to_string(found) + unit +
                        " and --device" + of + " cuda",
                    "at most " + std::to_string(most) + ", which a GPU's registers hold",
                    "use --device" + of + " cpu");
  };
  for (const fd::LayerShape& layer : model.layers) {
    if (const auto* scan = std::get_if<fd::SelectiveScanShape>(&layer.recurrent)) {
      check("states", scan->d_state, " columns", fd::cuda::kMostScanState);
    }
    if (const auto* net = std::get_if<fd::GatedDeltaNetShape>(&layer.recurrent)) {
      check("keys", net->d_key, " dimensions", fd::cuda::kMostDeltaKey);
    }
  }
}

}  // namespace cli
