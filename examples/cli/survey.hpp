#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <foredraft/io/gguf.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>

#include "cache_format.hpp"
#include "usage.hpp"

namespace cli {

/// What a model would take to run, found without reading its weights.
struct Survey {
  fd::ModelConfig config;
  std::size_t weight_bytes = 0;  ///< in memory, packed

  /// Keys and values of a cache of the processor, with the room for staged rows.
  double cache_bytes(std::int64_t n_ctx, fd::RowFormats formats = {}, int sinks = 0) const;
  /// Buffers of a pass with `rows` rows, of which `logit_rows` hand out all logits.
  double pass_bytes(int rows, int logit_rows) const;
};

/// @param on_gpu  the weights are for the memory of a GPU
/// @errors what fd::load would throw: kUnsupportedModel, kShapeMismatch, kCorruptFile,
///   kInvalidOption
Survey survey(const fd::Gguf& file, const fd::LoadOptions& options = {}, bool on_gpu = false);

/// Context where the user names none: what the model was trained for, within reason.
int default_context(int trained);

/// Hold -c to what the model was trained for. @errors kInvalidOption
void check_context(int n_ctx, int trained);

/// Refuse a cache for heads that its formats cannot hold.
/// @param of  "" or "-draft": what the options of the model end in. @errors kInvalidOption
void check_cache_formats(fd::RowFormats formats, const fd::ModelConfig& model,
                         const std::string& of, bool on_gpu);

/// Refuse a model with states that kernels of a GPU do not hold.
/// @param of  as above. @errors kUnsupportedModel
void check_gpu_limits(const fd::ModelConfig& model, const std::string& of);

}  // namespace cli
