#pragma once

#include <algorithm>
#include <cmath>

#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/backend/cpu/routing.hpp>
#include <foredraft/backend/cpu/scratch.hpp>
#include <foredraft/backend/cpu/share.hpp>
#include <foredraft/backend/cpu/worker.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

/// Mixtures of experts on Cpu.
namespace foredraft::inline v0::cpu {

/// One of the matrices that lie one behind the other, of n_out rows each, whole panels.
inline PackedPanels expert_panels(const PackedMatrix& w, int expert, int n_out) noexcept {
  PackedPanels part = w.panels();
  part.n_panels = n_out / kPanelRows;
  part.n_out = n_out;
  part.data += idx(expert) * idx(part.n_panels) * part.panel_bytes;
  return part;
}

/// The rows of each expert, normalised, in the formats of its matrices.
inline void Worker::gather_pairs(const MixtureArgs<Worker>& a, const Routing& routing) noexcept {
  const int d_model = a.router->n_in();
  const Range mine = share(a.n_rows * a.n_used, index_, count());
  for (int i = 0; i < routing.n_groups(); ++i) {
    const Routing::Group& group = routing.group(i);
    const Inputs to = shared_.group_inputs(group, d_model);
    const int begin = std::max(mine.begin, group.begin);
    const int end = std::min(mine.end, group.begin + group.n_rows);
    for (int pair = begin; pair < end; ++pair) {
      normalise_row(a.x + offset(routing.rows()[pair], d_model), a.norm, to, pair - group.begin,
                    {a.gate, a.up});
    }
  }
  barrier();
}

/// What an expert says that all rows take, before its score.
inline void Worker::say_shared(const SharedExpert<Worker>& a, Activation activation,
                               const Inputs& in) noexcept {
  const Intermediate hidden = activated(*a.gate, *a.down, activation, in, [&](Range panels, int) {
    multiply_into_tile(*a.up, in, panels);
    return Factors{own_.tile.data(), Scratch::kTileColumns};
  });
  barrier();
  deal_out(a.down->n_panels(), Scratch::kTilePanels, [&](Range panels) {
    multiply(*a.down, hidden.in, panels, shared_.shared.data(), a.down->n_out(), {});
  });
  barrier();
}

/// x += what its experts say, each with its weight, in the order in which the row ranks them; before
/// them what the shared expert says, whose scores lie in the worker's tile.
inline void Worker::add_weighted(const Routing& routing, const float* said, int n_rows, int n_used,
                                 int d_model, bool has_shared, float* x) noexcept {
  const Range mine = share(n_rows, index_, count());
  for (int row = mine.begin; row < mine.end; ++row) {
    float* const sum = own_.row.data();
    std::fill_n(sum, d_model, 0.0f);
    if (has_shared) {
      const float score = own_.tile.data()[offset(row, Scratch::kTileColumns)];
      const float weight = 1.0f / (1.0f + std::exp(-score));
      const float* from = shared_.shared.data() + offset(row, d_model);
      for (int d = 0; d < d_model; ++d) sum[d] = weight * from[d];
    }
    for (int i = 0; i < n_used; ++i) {
      const float weight = routing.weight(row, i);
      const float* from = said + offset(routing.pair(row, i), d_model);
      for (int d = 0; d < d_model; ++d) sum[d] += weight * from[d];
    }
    for (int d = 0; d < d_model; ++d) x[offset(row, d_model) + idx(d)] += sum[d];
  }
}

/// The input of each expert's product with `down`, for its rows. @param in  what all rows are,
/// normalised
inline void Worker::activate_experts(const MixtureArgs<Worker>& a, const Routing& routing,
                                     const Inputs& in) noexcept {
  const int d_ff = a.down->n_in();
  const bool alone = a.n_rows == 1;  // all experts have the same input, and it is there already
  if (!alone) gather_pairs(a, routing);
  const int n_tiles = (d_ff / kPanelRows + Scratch::kTilePanels - 1) / Scratch::kTilePanels;
  deal_out(routing.n_groups() * n_tiles, 1, [&](Range unit) {
    const int i = unit.begin / n_tiles;
    const Routing::Group& group = routing.group(i);
    const Inputs rows = alone ? in : shared_.group_inputs(group, a.router->n_in());
    const Intermediate hidden = shared_.group_intermediate(a.down->type(), group, i, d_ff);
    const int column = unit.begin % n_tiles * Scratch::kTileColumns;
    const int n = std::min(Scratch::kTileColumns, d_ff - column);
    const Range panels{column / kPanelRows, (column + n) / kPanelRows};
    const PackedPanels gate = expert_panels(*a.gate, group.expert, d_ff);
    kernels_.matmul(gate, rows.of(a.gate->type()), panels.begin, panels.end, hidden.values,
                    idx(d_ff), {});
    multiply_into_tile(expert_panels(*a.up, group.expert, d_ff), rows, panels);
    for (int row = 0; row < group.n_rows; ++row) {
      kernels_.gated_activation(a.activation, hidden.row(row) + column,
                                own_.tile.data() + offset(row, Scratch::kTileColumns), n);
    }
    hidden.add(kernels_, group.n_rows, column, column + n);
  });
  barrier();
}

/// What each expert says to its rows. @param said  written [pairs, d_model]
inline void Worker::say_experts(const MixtureArgs<Worker>& a, const Routing& routing,
                                float* said) noexcept {
  const int d_model = a.router->n_in();
  const int d_ff = a.down->n_in();
  const int n_runs = (d_model / kPanelRows + Scratch::kTilePanels - 1) / Scratch::kTilePanels;
  deal_out(routing.n_groups() * n_runs, 1, [&](Range unit) {
    const int i = unit.begin / n_runs;
    const Routing::Group& group = routing.group(i);
    const Intermediate hidden = shared_.group_intermediate(a.down->type(), group, i, d_ff);
    const int begin = unit.begin % n_runs * Scratch::kTilePanels;
    const int end = std::min(begin + Scratch::kTilePanels, d_model / kPanelRows);
    kernels_.matmul(expert_panels(*a.down, group.expert, d_model), hidden.in, begin, end,
                    said + offset(group.begin, d_model), idx(d_model), {});
  });
  barrier();
}

/// Rows are taken together that go to the same expert, and all experts are worked on at once: five
/// barriers however many there are, one less for a single row, two more with a shared expert.
inline void Worker::mixture(const MixtureArgs<Worker>& a) noexcept {
  const bool has_shared = a.shared.score != nullptr;
  const SharedExpert<Worker> shared =
      has_shared ? a.shared : SharedExpert<Worker>{a.router, a.router, a.router, a.router};
  const Inputs in = normalised(a.x, nullptr, a.n_rows, a.norm,
                               {a.router, a.gate, a.up, shared.score, shared.gate, shared.up});
  if (has_shared) say_shared(a.shared, a.activation, in);
  float* const scores = shared_.scores.data();
  const Range mine = share(a.router->n_panels(), index_, count());
  multiply(*a.router, in.of(a.router->type()), mine, scores, a.n_experts, {});
  barrier();
  // Every worker works out the same: next to nothing beside what experts take.
  Routing& routing = own_.routing;
  routing.choose(scores, a.n_rows, a.n_experts, a.n_used);
  activate_experts(a, routing, in);
  // Once all is quantized, what experts say has the room.
  float* const said = shared_.values.data();
  say_experts(a, routing, said);
  if (has_shared) multiply_into_tile(*shared.score, in, {0, 1});
  add_weighted(routing, said, a.n_rows, a.n_used, a.router->n_in(), has_shared, a.x);
  barrier();
}

}  // namespace foredraft::inline v0::cpu
