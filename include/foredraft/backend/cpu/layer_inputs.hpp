#pragma once

#include <algorithm>

#include <foredraft/backend/cpu/scratch.hpp>
#include <foredraft/backend/cpu/share.hpp>
#include <foredraft/backend/cpu/worker.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

/// What layers are given besides x, on Cpu: how it is made, and how a feed-forward part takes it in
/// place of `up`.
namespace foredraft::inline v0::cpu {

/// Products of all rows, by panels; then norms and embeddings, by rows: each has a part for every
/// layer, so a row is wide.
inline void Worker::embed_layers(const EmbedLayersArgs<Worker>& a) noexcept {
  constexpr float kSqrtHalf = 0.70710678f;
  const int n_rows = static_cast<int>(a.tokens.size());
  const int width = a.projection->n_out();
  const Inputs in = normalised(a.x, nullptr, n_rows, {}, {a.projection});
  float* const projected = shared_.values.data();
  deal_out(a.projection->n_panels(), Scratch::kTilePanels, [&](Range panels) {
    multiply(*a.projection, in.of(a.projection->type()), panels, projected, width, {});
  });
  barrier();
  const Range mine = share(n_rows, index_, count());
  for (int row = mine.begin; row < mine.end; ++row) {
    float* const from = projected + offset(row, width);
    float* const to = a.inputs + offset(row, width);
    a.table->dequantize_row(a.tokens[idx(row)], to);
    for (int at = 0; at < width; at += a.d_input) {
      kernels_.rms_norm(from + at, a.norm.weight, a.norm.epsilon, a.d_input, from + at);
    }
    for (int i = 0; i < width; ++i) to[i] = (from[i] + a.scale * to[i]) * kSqrtHalf;
  }
  barrier();
}

inline Worker::Factors Worker::factors_of(const FeedForwardArgs<Worker>& a, const Inputs& in,
                                          Range panels, int column) noexcept {
  if (a.up != nullptr) {
    multiply_into_tile(*a.up, in, panels);
    return {own_.tile.data(), Scratch::kTileColumns};
  }
  if (a.factor != nullptr) return {a.factor + column, a.factor_stride};
  std::fill_n(own_.tile.data(), Scratch::kTileColumns, 1.0f);
  return {own_.tile.data(), 0};
}

}  // namespace foredraft::inline v0::cpu
