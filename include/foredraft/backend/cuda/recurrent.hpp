#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include <foredraft/backend/cuda/delta_net.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/gated_norm.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/selective_scan.hpp>
#include <foredraft/backend/cuda/short_conv.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/backend/cuda/worker.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

/// How a device computes recurrent layers: which kernels, in which order.
namespace foredraft::inline v0::cuda {

namespace detail {

/// Calls `f` with the least number, as its template argument, of those that kernels are made for.
/// @errors kUnsupportedModel where it is greater than all of them
template <int... kMade, typename F>
void with_least(int wanted, const char* what, F&& f) {
  bool done = false;
  const auto attempt = [&]<int n>() {
    if (done || wanted > n) return;
    done = true;
    f.template operator()<n>();
  };
  (attempt.template operator()<kMade>(), ...);
  if (done) return;
  throw Error(ErrorCode::kUnsupportedModel, std::string(what) + " too large for a device",
              "such as its registers hold", "choose another backend");
}

}  // namespace detail

/// Once for each pass: its sequences and what is staged are the same in all layers.
template <Device D>
template <StatesOnDevice L>
void Worker<D>::upload_steps(std::span<const SequenceRows> sequences,
                             std::span<const StateRows> states, std::span<const L> kept) {
  if (steps_) return;
  steps_.emplace(sequences, states, kept);
  (void)work_.state_rows.write(steps_->rows);
  (void)work_.state_steps.write(steps_->steps);
  (void)work_.state_walks.write(steps_->walks);
}

/// launch(group, what is kept of its sequences) for each group of sequences.
template <Device D>
template <typename V, typename F>
void Worker<D>::for_each_group(const RecurrentArgs<Worker, V>& a, F&& launch) {
  for (const StateSteps::Group& group : steps_->groups) {
    StateLayers layers;
    std::copy_n(a.kept.begin() + group.first_sequence, group.n_sequences, layers.of);
    launch(group, layers);
  }
}

template <Device D>
template <typename V>
  requires StatesOnDevice<typename V::Layer>
void Worker<D>::short_conv(const ShortConvArgs<Worker, V>& a) noexcept {
  guarded([&] {
    upload_steps(a.common.sequences, a.common.states, a.common.kept);
    const int width = a.shape.width;
    float* const in = work_.mixer_in.reserve(area(a.common.n_rows, a.shape.d_in())).raw();
    product(prepared({.x = a.common.x.raw(), .n_in = a.in->n_in(), .norm = norm(a.common.norm)},
                     a.common.n_rows),
            {{a.in, nullptr, in}});
    float* const mixed = work_.mixed.reserve(area(a.common.n_rows, width)).raw();
    for_each_group(a.common, [&](const StateSteps::Group& group, const StateLayers& layers) {
      const ShortConv::Args args{.rows = work_.state_rows.reserve(0).raw() + group.first_row,
                                 .n_rows = group.n_rows,
                                 .in = in,
                                 .width = width,
                                 .n_taps = a.shape.kernel,
                                 .kernel = a.kernel.raw(),
                                 .out = mixed,
                                 .layers = layers};
      launch<ShortConv>(ShortConv::grid(args), 0, args);
    });
    add_product(*a.out, prepared({.x = mixed, .n_in = width}, a.common.n_rows), {}, 1.0f,
                a.common.x.raw());
  });
}

template <Device D>
template <typename V>
  requires StatesOnDevice<typename V::Layer>
void Worker<D>::selective_scan(const SelectiveScanArgs<Worker, V>& a) noexcept {
  guarded([&] {
    upload_steps(a.common.sequences, a.common.states, a.common.kept);
    const SelectiveScanShape& shape = a.shape;
    float* const in = work_.mixer_in.reserve(area(a.common.n_rows, shape.d_in())).raw();
    product(prepared({.x = a.common.x.raw(), .n_in = a.in->n_in(), .norm = norm(a.common.norm)},
                     a.common.n_rows),
            {{a.in, nullptr, in}});
    float* const mixed = work_.mixed.reserve(area(a.common.n_rows, shape.width)).raw();
    for_each_group(a.common, [&](const StateSteps::Group& group, const StateLayers& layers) {
      const PutInScan::Args args{.rows = work_.state_rows.reserve(0).raw() + group.first_row,
                                 .n_rows = group.n_rows,
                                 .width = shape.width,
                                 .d_conv = shape.d_conv(),
                                 .n_heads = shape.n_heads,
                                 .n_taps = shape.kernel,
                                 .in = in,
                                 .kernel = a.kernel.raw(),
                                 .conv_bias = a.conv_bias.raw(),
                                 .dt_bias = a.dt_bias.raw(),
                                 .layers = layers};
      launch<PutInScan>(PutInScan::grid(args), 0, args);
    });
    for_each_group(a.common, [&](const StateSteps::Group& group, const StateLayers& layers) {
      detail::with_least<128, 256, kMostScanState>(shape.d_state, "a state", [&]<int n>() {
        using K = SelectiveScan<n / kWarp>;
        const typename K::Args args{.steps = work_.state_steps.reserve(0).raw(),
                                    .walks = work_.state_walks.reserve(0).raw() + group.first_walk,
                                    .n_walks = group.n_walks,
                                    .n_heads = shape.n_heads,
                                    .n_groups = shape.n_groups,
                                    .d_head = shape.d_head,
                                    .d_state = shape.d_state,
                                    .d_conv = shape.d_conv(),
                                    .decay = a.decay.raw(),
                                    .skip = a.skip.raw(),
                                    .out = mixed,
                                    .layers = layers};
        launch<K>(K::grid(args), 0, args);
      });
    });
    const GatedNorm::Args gated{.y = mixed,
                                .width = shape.width,
                                .part = shape.width / int{shape.n_groups},
                                .gate = in,
                                .gate_stride = shape.d_in(),
                                .gate_first = true,
                                .norm = norm(a.group_norm)};
    launch<GatedNorm>(GatedNorm::grid(gated, a.common.n_rows), 0, gated);
    add_product(*a.out, prepared({.x = mixed, .n_in = shape.width}, a.common.n_rows), {}, 1.0f,
                a.common.x.raw());
  });
}

template <Device D>
template <typename V>
  requires StatesOnDevice<typename V::Layer>
void Worker<D>::gated_delta_net(const GatedDeltaNetArgs<Worker, V>& a) noexcept {
  guarded([&] {
    upload_steps(a.common.sequences, a.common.states, a.common.kept);
    const GatedDeltaNetShape& shape = a.shape;
    float* const qkv = work_.mixer_in.reserve(area(a.common.n_rows, shape.d_conv())).raw();
    float* const gate = work_.mixer_gate.reserve(area(a.common.n_rows, shape.width)).raw();
    float* const beta = work_.beta.reserve(area(a.common.n_rows, shape.n_heads)).raw();
    float* const alpha = work_.alpha.reserve(area(a.common.n_rows, shape.n_heads)).raw();
    product(prepared({.x = a.common.x.raw(), .n_in = a.qkv->n_in(), .norm = norm(a.common.norm)},
                     a.common.n_rows),
            {{a.qkv, nullptr, qkv},
             {a.gate, nullptr, gate},
             {a.beta, nullptr, beta},
             {a.alpha, nullptr, alpha}});
    for_each_group(a.common, [&](const StateSteps::Group& group, const StateLayers& layers) {
      const PutInDeltaNet::Args args{.rows = work_.state_rows.reserve(0).raw() + group.first_row,
                                     .n_rows = group.n_rows,
                                     .n_heads = shape.n_heads,
                                     .n_key_heads = shape.n_key_heads,
                                     .d_key = shape.d_key,
                                     .width = shape.width,
                                     .n_taps = shape.kernel,
                                     .qkv = qkv,
                                     .beta = beta,
                                     .alpha = alpha,
                                     .kernel = a.kernel.raw(),
                                     .dt_bias = a.dt_bias.raw(),
                                     .decay = a.decay.raw(),
                                     .layers = layers};
      launch<PutInDeltaNet>(PutInDeltaNet::grid(args), PutInDeltaNet::shared(shape.d_key), args);
    });
    float* const mixed = work_.mixed.reserve(area(a.common.n_rows, shape.width)).raw();
    for_each_group(a.common, [&](const StateSteps::Group& group, const StateLayers& layers) {
      walk_delta_net(shape, group, layers, mixed);
    });
    const GatedNorm::Args gated{.y = mixed,
                                .width = shape.width,
                                .part = shape.d_value,
                                .gate = gate,
                                .gate_stride = shape.width,
                                .gate_first = false,
                                .norm = norm(a.head_norm)};
    launch<GatedNorm>(GatedNorm::grid(gated, a.common.n_rows), 0, gated);
    add_product(*a.out, prepared({.x = mixed, .n_in = shape.width}, a.common.n_rows), {}, 1.0f,
                a.common.x.raw());
  });
}

template <Device D>
void Worker<D>::walk_delta_net(const GatedDeltaNetShape& shape, const StateSteps::Group& group,
                               const StateLayers& layers, float* out) {
  const bool aligned = shape.d_conv() % 4 == 0 && layers.of[0].n_inputs % 4 == 0;
  detail::with_least<32, 64, 128, kMostDeltaKey>(shape.d_key, "a key", [&]<int n>() {
    // A lane has no registers for 64 rows.
    using K = std::conditional_t<n <= 128, DeltaNet<n / 16>, DeltaNet<n / 32, 4>>;
    static_assert(K::kMostKey == n);
    const typename K::Args args{.steps = work_.state_steps.reserve(0).raw(),
                                .walks = work_.state_walks.reserve(0).raw() + group.first_walk,
                                .n_walks = group.n_walks,
                                .n_heads = shape.n_heads,
                                .n_key_heads = shape.n_key_heads,
                                .tiled = shape.tiled,
                                .d_key = shape.d_key,
                                .d_value = shape.d_value,
                                .aligned = aligned,
                                .out = out,
                                .layers = layers};
    launch<K>(K::grid(args), 0, args);
  });
}

}  // namespace foredraft::inline v0::cuda
