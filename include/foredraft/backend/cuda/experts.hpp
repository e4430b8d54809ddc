#pragma once

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/mixture.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/worker.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

/// How a device mixes experts: which kernels, in which order.
namespace foredraft::inline v0::cuda {

template <Device D>
void Worker<D>::mixture(const MixtureArgs<Worker>& a) noexcept {
  guarded([&] {
    const int d_model = a.router->n_in();
    const int n_pairs = a.n_rows * a.n_used;
    const Operand x = prepared({.x = a.x.raw(), .n_in = d_model, .norm = norm(a.norm)}, a.n_rows);
    float* const scores = work_.scores.reserve(area(a.n_rows, a.n_experts)).raw();
    product(x, {{a.router, nullptr, scores}});
    const ChooseExperts::Args chosen{.scores = scores,
                                     .n_experts = a.n_experts,
                                     .n_used = a.n_used,
                                     .experts = work_.experts.reserve(idx(n_pairs)).raw(),
                                     .weights = work_.weights.reserve(idx(n_pairs)).raw()};
    launch<ChooseExperts>(ChooseExperts::grid(a.n_rows), 0, chosen);
    const SortPairs::Args sorted{.experts = chosen.experts,
                                 .n_pairs = n_pairs,
                                 .n_experts = a.n_experts,
                                 .first = work_.first.reserve(idx(a.n_experts) + 1).raw(),
                                 .pairs = work_.pairs.reserve(idx(n_pairs)).raw()};
    launch<SortPairs>({}, 0, sorted);

    const int d_ff = a.down->n_in();
    float* const gate = work_.gate.reserve(area(n_pairs, d_ff)).raw();
    float* const up = work_.up.reserve(area(n_pairs, d_ff)).raw();
    expert_product(*a.gate, x, a, sorted, gate);
    expert_product(*a.up, x, a, sorted, up);
    MixRows::Args mixed{.y = work_.y.reserve(area(n_pairs, d_model)).raw(),
                        .weights = chosen.weights,
                        .n_used = a.n_used,
                        .n = d_model,
                        .shared = nullptr,
                        .score = nullptr,
                        .x = a.x.raw()};
    if (a.shared.score != nullptr) ask_shared(a, x, mixed);  // x are no factors behind this
    expert_product(*a.down, prepared(gated(gate, a.activation, up, d_ff), n_pairs), a, sorted,
                   work_.y.reserve(0).raw());
    launch<MixRows>(MixRows::grid(a.n_rows, d_model), 0, mixed);
  });
}

/// For each pair of a row and an expert. @param x  of all rows, or of all pairs
template <Device D>
void Worker<D>::expert_product(const Matrix& w, const Operand& x, const MixtureArgs<Worker>& a,
                               const SortPairs::Args& sorted, float* y) {
  with_format(w.format(), [&]<WeightFormat F>() {
    using K = ExpertProduct<F>;
    const typename K::Args args{.x = x,
                                .pairs_of_row = x.n_rows == sorted.n_pairs ? 1 : a.n_used,
                                .w = w.view(),
                                .n_experts = a.n_experts,
                                .most = a.n_rows,
                                .first = sorted.first,
                                .pairs = sorted.pairs,
                                .y = y};
    launch<K>(K::grid(args), K::shared(), args);
  });
}

/// What the expert says that all rows take. @param mixed  written: where it is
template <Device D>
void Worker<D>::ask_shared(const MixtureArgs<Worker>& a, const Operand& x, MixRows::Args& mixed) {
  const SharedExpert<Worker>& shared = a.shared;
  const int d_shared = shared.down->n_in();
  float* const gate = work_.shared_gate.reserve(area(x.n_rows, d_shared)).raw();
  float* const up = work_.shared_up.reserve(area(x.n_rows, d_shared)).raw();
  float* const score = work_.shared_score.reserve(idx(x.n_rows)).raw();
  float* const y = work_.shared_y.reserve(area(x.n_rows, mixed.n)).raw();
  product(x, {{shared.score, nullptr, score}});
  product(x, {{shared.gate, nullptr, gate}, {shared.up, nullptr, up}});
  product(prepared(gated(gate, a.activation, up, d_shared), x.n_rows), {{shared.down, nullptr, y}});
  mixed.shared = y;
  mixed.score = score;
}

}  // namespace foredraft::inline v0::cuda
