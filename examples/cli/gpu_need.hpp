#pragma once

#include <algorithm>
#include <span>
#include <variant>

#include <foredraft/backend/cuda/attention.hpp>
#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/cuda/states.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/core/options.hpp>

#include "cache_format.hpp"
#include "target.hpp"
#include "usage.hpp"

namespace cli {

/// The cache of every model on a device, for whatever layers it has, in formats that are chosen when the
/// program runs.
template <fd::cuda::Device D>
using DeviceCache = fd::HybridCache<fd::cuda::AnyRows<D>, fd::cuda::Replay<D>>;

/// Rows of a pass that reads a prompt.
inline int prompt_rows(const GpuNeed& need) {
  if (need.rows > 0) return need.rows;
  return std::min(fd::Options().prefill_block, Cache::staged_or_default(need.config.cache_shape()));
}

/// What attention keeps of a pass that reads a prompt: parts of all heads, before they are merged. A
/// backend gives it so much memory, and a row what it needs.
inline double attention_bytes(const GpuNeed& need) {
  double most = 0;
  for (const fd::LayerShape& layer : need.config.layers) {
    const fd::AttentionShape& a = layer.attention;
    if (a.d_head > 0) {
      most = std::max(most, static_cast<double>(a.d_q) / a.d_head * (2.0 + a.d_head));
    }
  }
  const double rows = std::min(prompt_rows(need), need.n_ctx);
  const double of_row = fd::cuda::parts_of(need.n_ctx, fd::cuda::kPart) * most * sizeof(float);
  const auto room = static_cast<double>(fd::CudaOptions().attention_bytes);
  return std::max(of_row, std::min(rows * of_row, room));
}

/// What recurrent layers make of the rows of a pass: see cuda::Scratch.
inline double recurrent_bytes(const GpuNeed& need) {
  double most = 0;
  for (const fd::LayerShape& layer : need.config.layers) {
    std::visit(
        [&](const auto& mixer) {
          if constexpr (requires { mixer.d_in(); }) {
            most = std::max(most, static_cast<double>(mixer.d_in()) + 2.0 * mixer.width);
          }
        },
        layer.recurrent);
  }
  return prompt_rows(need) * most * sizeof(float);
}

/// Keys, values and states, and the sinks of layers with a window.
template <fd::cuda::Device D>
double device_cache_bytes(const GpuNeed& need) {
  const fd::CacheShape shape = with_formats(need.config.cache_shape(), need.formats);
  return DeviceCache<D>::full_bytes(with_sinks(shape, need.sinks), need.n_ctx, need.rows);
}

/// Of all models together: each has a cache, and memory that its passes work in.
template <fd::cuda::Device D>
double device_bytes(std::span<const GpuNeed> needs) {
  double bytes = 0;
  for (const GpuNeed& need : needs) {
    bytes += need.weight_bytes + need.pass_bytes + attention_bytes(need) + recurrent_bytes(need) +
             device_cache_bytes<D>(need);
  }
  return bytes;
}

}  // namespace cli
