#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/state_cache.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/rope.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// What a cache without states has of them.
struct NoStates {
  struct Layer {};
};
template <typename C>
struct StatesOf {
  using type = NoStates;
};
template <StateCache C>
struct StatesOf<C> {
  using type = typename C::States;
};

/// Whether a worker has all operators that a cache's layers need.
template <typename W, typename R, typename V>
concept RunsOver = AttendsOver<W, R> && (std::same_as<V, NoStates> || RecursOver<W, V>);

}  // namespace detail

/// Layers one behind the other, each of its own shape: what a model is between its embedding and
/// its head, and what a trained head is made of. They change rows of x on a worker; whose rows
/// these are, and what was in x before, is the caller's business.
template <typename B>
class LayerStack {
  using Worker = typename B::Worker;

 public:
  /// @param rotations  each kind of rotation that a layer uses
  /// @errors kUnsupportedModel for a mixture of experts, or for layers that lack matrices, on a
  ///   backend that has none
  LayerStack(Dim d_model, float norm_epsilon, std::vector<RopeRotations> rotations,
             std::vector<LayerShape> shapes, std::vector<LayerWeights<B>> weights)
      : d_model_(d_model),
        norm_epsilon_(norm_epsilon),
        rotations_(std::move(rotations)),
        shapes_(std::move(shapes)),
        weights_(std::move(weights)) {
    int storing = 0;
    int recurrent = 0;
    for (const LayerShape& shape : shapes_) {
      const int other = shape.attention.keys_of;
      places_.push_back(shape.recurs() ? recurrent++ : other >= 0 ? places_[idx(other)] : storing);
      if (shape.stores()) ++storing;
    }
    check_steps();
  }

  int size() const noexcept { return static_cast<int>(shapes_.size()); }
  const std::vector<LayerWeights<B>>& weights() const noexcept { return weights_; }

  /// The greatest sizes of any layer, for a pass of no rows.
  PassShape shape() const {
    PassShape most{.d_model = d_model_};
    const auto grow = [](Dim& dimension, Dim to) { dimension = std::max<int>(dimension, to); };
    for (const auto& [attention, feed_forward, recurrent] : shapes_) {
      grow(most.d_ff, feed_forward.d_ff);
      grow(most.d_q, attention.d_q);
      grow(most.d_kv, attention.d_kv);
      grow(most.d_head, attention.d_head);
      grow(most.n_experts, feed_forward.n_experts);
      grow(most.n_used, feed_forward.n_used);
      grow(most.d_ff, feed_forward.d_shared);
      grow(most.d_shared, feed_forward.d_shared);
      if (feed_forward.n_experts > 0) grow(most.d_expert, feed_forward.d_ff);
      std::visit(
          [&](const auto& mixer) {
            if constexpr (!is_attention<decltype(mixer)>) {
              grow(most.d_in, mixer.d_in());
              grow(most.d_mixed, mixer.width);
              grow(most.d_state, mixer.state().d_state);
            }
          },
          recurrent);
    }
    return most;
  }

  /// Memory that passes use one after the other.
  class Workspace {
   public:
    explicit Workspace(const LayerStack& stack)
        : rotations_(stack.rotations_), cos_(rotations_.size()), sin_(rotations_.size()) {}

   private:
    friend LayerStack;
    std::vector<RopeRotations> rotations_;
    std::vector<typename B::template Buffer<float>> cos_, sin_;  // [rotations][n_rows, n_rot / 2]
    typename B::template Buffer<float> q_;                       // [n_rows, d_q]
    typename B::template Buffer<float> gate_;                    // likewise, where layers have one
  };

  /// What one forward pass hands to the layers.
  template <typename R, typename V = detail::NoStates>
  struct Pass {
    int n_rows = 0;
    std::vector<SequenceRows> sequences = {};
    std::vector<typename R::Layer> kv = {};     // [layers that store some, n_sequences]
    std::vector<RopeTable<Worker>> ropes = {};  // [rotations]
    Out<Worker> q = nullptr;                    // [n_rows, d_q]
    Out<Worker> gate = nullptr;                 // likewise, or null where no layer has one
    std::vector<StateRows> states = {};         // [n_sequences] or empty
    std::vector<typename V::Layer> kept = {};   // [recurrent layers, n_sequences] or empty
    Out<Worker> inputs = nullptr;  // [n_rows, n_layers, d_input] or null: see EmbedLayersArgs
    int d_input = 0;
    std::span<const std::uint8_t> runs = {};  // [n_layers], or empty: all

    /// @param place  of a layer among those with keys and values
    std::span<const typename R::Layer> kv_of(int place) const noexcept {
      return std::span(kv).subspan(idx(place) * sequences.size(), sequences.size());
    }
    /// @param place  of a layer among the recurrent ones
    std::span<const typename V::Layer> kept_of(int place) const noexcept {
      return std::span(kept).subspan(idx(place) * sequences.size(), sequences.size());
    }
  };

  /// Make a pass for the rows of all requests.
  /// @param first_layer  of each cache's layers of keys and values, for this stack
  /// @param first_state  likewise of its recurrent layers
  /// @errors std::bad_alloc, kInvalidOption for a cache without the states that layers need; nothing
  ///   has happened then
  template <KeyValueCache C>
  auto prepare(std::span<Request<C>> requests, Workspace& work, int first_layer = 0,
               int first_state = 0) const {
    Pass<typename C::Rows, typename detail::StatesOf<C>::type> pass;
    std::vector<Position> positions;
    for (const Request<C>& request : requests) {
      pass.sequences.push_back(request.cache->rows(request.first, request.count, pass.n_rows));
      pass.n_rows += request.count;
      for (int i = 0; i < request.count; ++i) {
        positions.push_back(request.cache->position(request.first + i));
      }
    }
    for (int layer = 0; layer < size(); ++layer) {
      if (!shapes_[idx(layer)].stores()) continue;
      for (const Request<C>& request : requests) {
        pass.kv.push_back(request.cache->layer(first_layer + places_[idx(layer)]));
      }
    }
    prepare_states(requests, pass, first_state);
    for (std::size_t i = 0; i < rotations_.size(); ++i) {
      RopeRotations& rotation = work.rotations_[i];
      rotation.turn_to(positions);
      pass.ropes.push_back({.kind = rotation.shape().kind,
                            .n_rot = rotation.shape().n_rot,
                            .cos = work.cos_[i].write(rotation.cos()),
                            .sin = work.sin_[i].write(rotation.sin())});
    }
    pass.q = work.q_.reserve(area(pass.n_rows, shape().d_q));
    if (std::any_of(shapes_.begin(), shapes_.end(),
                    [](const LayerShape& layer) { return layer.attention.gated; })) {
      pass.gate = work.gate_.reserve(area(pass.n_rows, shape().d_q));
    }
    return pass;
  }

  /// Run the pass's layers over x. @param after  called as after(layer) between one layer and the
  /// next
  /// @shape x [n_rows, d_model]
  template <typename R, typename V, typename F>
    requires detail::RunsOver<Worker, R, V>
  void run(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, F&& after) const noexcept {
    for (int layer = 0; layer < size(); ++layer) {
      if (pass.runs.empty() || pass.runs[idx(layer)] != 0) run_one(worker, pass, x, layer);
      after(layer);
    }
  }

 private:
  template <typename Shape>
  static constexpr bool is_attention = std::same_as<std::remove_cvref_t<Shape>, std::monostate>;

  template <typename R, typename V>
  void run_one(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, int layer) const noexcept {
    std::visit(
        [&](const auto& shape) noexcept {
          if constexpr (is_attention<decltype(shape)>) {
            if (shapes_[idx(layer)].attends()) attend(worker, pass, x, layer);
          } else if constexpr (!std::same_as<V, detail::NoStates>) {
            recur(worker, pass, x, layer, shape);
          }
        },
        shapes_[idx(layer)].recurrent);
    const FeedForwardShape& f = shapes_[idx(layer)].feed_forward;
    if (f.n_experts > 0) {
      mix(worker, pass.n_rows, x, layer);
    } else if (f.d_ff > 0) {
      feed_forward(worker, pass.n_rows, x, layer);
    }
    if (pass.d_input > 0) add_input(worker, pass, x, layer);
  }

  /// Where what recurrent layers keep of each request's sequence lies.
  template <typename C, typename Pass>
  void prepare_states(std::span<Request<C>> requests, Pass& pass, int first_state) const {
    const auto n_recurrent = std::count_if(shapes_.begin(), shapes_.end(),
                                           [](const LayerShape& shape) { return shape.recurs(); });
    if (n_recurrent == 0) return;
    if constexpr (StateCache<C>) {
      for (const Request<C>& request : requests) {
        StateRows states = request.cache->states();
        // A state takes in what it lacks once a pass, for the first request of its sequence.
        const auto same = [&](const Request<C>& other) { return other.cache == request.cache; };
        if (&*std::find_if(requests.begin(), requests.end(), same) != &request) {
          states.empty = states.empty && states.unapplied == 0;
          states.unapplied = 0;
        }
        pass.states.push_back(states);
      }
      for (int i = 0; i < n_recurrent; ++i) {
        for (const Request<C>& request : requests) {
          pass.kept.push_back(request.cache->state_layer(first_state + i));
        }
      }
    } else {
      throw Error(ErrorCode::kInvalidOption, "a cache of keys and values alone",
                  "one with the states of " + std::to_string(n_recurrent) + " recurrent layers",
                  "use a HybridCache");
    }
  }

  template <typename R, typename V>
  void recur(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, int layer,
             const ShortConvShape& shape) const noexcept {
    const auto& w = *std::get_if<ShortConvWeights<B>>(&weights_[idx(layer)].recurrent);
    worker.short_conv(ShortConvArgs<Worker, V>{.common = recurrent_args(pass, x, layer),
                                               .shape = shape,
                                               .in = &w.in,
                                               .kernel = in_or_null(w.kernel),
                                               .out = &w.out});
  }

  template <typename R, typename V>
  void recur(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, int layer,
             const SelectiveScanShape& shape) const noexcept {
    const auto& w = *std::get_if<SelectiveScanWeights<B>>(&weights_[idx(layer)].recurrent);
    worker.selective_scan(SelectiveScanArgs<Worker, V>{.common = recurrent_args(pass, x, layer),
                                                       .shape = shape,
                                                       .in = &w.in,
                                                       .kernel = in_or_null(w.kernel),
                                                       .conv_bias = in_or_null(w.conv_bias),
                                                       .dt_bias = in_or_null(w.dt_bias),
                                                       .decay = in_or_null(w.decay),
                                                       .skip = in_or_null(w.skip),
                                                       .group_norm = norm(w.group_norm),
                                                       .out = &w.out});
  }

  template <typename R, typename V>
  void recur(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, int layer,
             const GatedDeltaNetShape& shape) const noexcept {
    const auto& w = *std::get_if<GatedDeltaNetWeights<B>>(&weights_[idx(layer)].recurrent);
    worker.gated_delta_net(GatedDeltaNetArgs<Worker, V>{.common = recurrent_args(pass, x, layer),
                                                        .shape = shape,
                                                        .qkv = &w.qkv,
                                                        .gate = &w.gate,
                                                        .beta = &w.beta,
                                                        .alpha = &w.alpha,
                                                        .kernel = in_or_null(w.kernel),
                                                        .dt_bias = in_or_null(w.dt_bias),
                                                        .decay = in_or_null(w.decay),
                                                        .head_norm = norm(w.head_norm),
                                                        .out = &w.out});
  }

  template <typename R, typename V>
  RecurrentArgs<Worker, V> recurrent_args(const Pass<R, V>& pass, Out<Worker> x,
                                          int layer) const noexcept {
    return {.x = x,
            .n_rows = pass.n_rows,
            .norm = norm(weights_[idx(layer)].norm),
            .sequences = pass.sequences,
            .states = pass.states,
            .kept = pass.kept_of(places_[idx(layer)])};
  }

  template <typename R, typename V>
  void attend(Worker& worker, const Pass<R, V>& pass, Out<Worker> x, int layer) const noexcept {
    const AttentionShape& a = shapes_[idx(layer)].attention;
    const AttentionWeights<B>& w = weights_[idx(layer)].attention;
    worker.qkv(QkvArgs<Worker, R>{.x = x,
                                  .n_rows = pass.n_rows,
                                  .norm = norm(weights_[idx(layer)].norm),
                                  .wq = &w.wq,
                                  .wk = a.keys_of >= 0 ? nullptr : &w.wk,
                                  .wv = a.keys_of >= 0 || w.v_from_k ? nullptr : &w.wv,
                                  .q_bias = in_or_null(w.q_bias),
                                  .k_bias = in_or_null(w.k_bias),
                                  .v_bias = in_or_null(w.v_bias),
                                  .n_heads = a.n_heads,
                                  .n_kv_heads = a.n_kv_heads,
                                  .d_head = a.d_head,
                                  .rope = pass.ropes[idx(a.rope)],
                                  .sequences = pass.sequences,
                                  .kv = pass.kv_of(places_[idx(layer)]),
                                  .q = pass.q,
                                  .q_norm = norm(w.q_norm),
                                  .k_norm = norm(w.k_norm),
                                  .norms_all_heads = a.norms_all_heads,
                                  .v_norm = norm(w.v_norm),
                                  .w_gate = a.gated ? &w.gate : nullptr,
                                  .gate = a.gated ? pass.gate : nullptr});
    worker.attend(AttendArgs<Worker, R>{.q = pass.q,
                                        .n_rows = pass.n_rows,
                                        .n_heads = a.n_heads,
                                        .n_kv_heads = a.n_kv_heads,
                                        .d_head = a.d_head,
                                        .scale = a.scale,
                                        .sequences = pass.sequences,
                                        .kv = pass.kv_of(places_[idx(layer)]),
                                        .wo = &w.wo,
                                        .x = x,
                                        .window = a.window,
                                        .post_norm = norm(w.post_norm),
                                        .softcap = a.softcap,
                                        .residual = a.residual,
                                        .gate = a.gated ? pass.gate : nullptr});
  }

  void feed_forward(Worker& worker, int n_rows, Out<Worker> x, int layer) const noexcept {
    const FeedForwardShape& f = shapes_[idx(layer)].feed_forward;
    const LayerWeights<B>& all = weights_[idx(layer)];
    const FeedForwardWeights<B>& w = all.feed_forward;
    const bool last = !all.input;  // nothing follows in this layer
    worker.feed_forward(FeedForwardArgs<Worker>{.x = x,
                                                .n_rows = n_rows,
                                                .norm = norm(w.norm),
                                                .activation = f.activation,
                                                .gate = &w.gate,
                                                .up = w.has_up ? &w.up : nullptr,
                                                .down = &w.down,
                                                .post_norm = norm(w.post_norm),
                                                .residual = f.residual,
                                                .output_scale = last ? all.output_scale : 1.0f});
  }

  /// What the layer's own embedding says, let through where x wants it: a feed-forward part with
  /// this embedding in place of `up`.
  template <typename P>
  void add_input(Worker& worker, const P& pass, Out<Worker> x, int layer) const noexcept {
    if constexpr (EmbedsLayers<Worker>) {
      const LayerWeights<B>& all = weights_[idx(layer)];
      const InputGateWeights<B>& w = *all.input;
      worker.feed_forward(
          FeedForwardArgs<Worker>{.x = x,
                                  .n_rows = pass.n_rows,
                                  .activation = shapes_[idx(layer)].feed_forward.activation,
                                  .gate = &w.gate,
                                  .down = &w.down,
                                  .post_norm = norm(w.norm),
                                  .factor = pass.inputs + std::ptrdiff_t{layer} * pass.d_input,
                                  .factor_stride = size() * pass.d_input,
                                  .output_scale = all.output_scale});
    }
  }

  void mix(Worker& worker, int n_rows, Out<Worker> x, int layer) const noexcept {
    if constexpr (MixesExperts<Worker>) {
      const FeedForwardShape& f = shapes_[idx(layer)].feed_forward;
      const FeedForwardWeights<B>& w = weights_[idx(layer)].feed_forward;
      MixtureArgs<Worker> args{.x = x,
                               .n_rows = n_rows,
                               .norm = norm(w.norm),
                               .activation = f.activation,
                               .router = &*w.router,
                               .gate = &w.gate,
                               .up = &w.up,
                               .down = &w.down,
                               .n_experts = f.n_experts,
                               .n_used = f.n_used};
      if (w.shared) {
        args.shared = SharedExpert<Worker>{.score = &w.shared->score,
                                           .gate = &w.shared->gate,
                                           .up = &w.shared->up,
                                           .down = &w.shared->down};
      }
      worker.mixture(args);
    }
  }

  /// @errors kUnsupportedModel where a layer needs what the backend cannot
  void check_steps() const {
    const auto refuse = [](const char* found, const char* expected) {
      throw Error(ErrorCode::kUnsupportedModel, found, expected,
                  "choose another backend, or another model");
    };
    if (!MixesExperts<Worker> && shape().n_experts > 0) {
      refuse("a mixture of experts", "a dense model");
    }
    if (RunsPartialLayers<Worker>) return;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const LayerWeights<B>& w = weights_[i];
      if (shapes_[i].attention.keys_of >= 0 || w.attention.v_from_k ||
          !w.attention.v_norm.empty() || !w.feed_forward.has_up || w.output_scale != 1.0f ||
          w.input) {
        refuse("layers that share or lack matrices", "layers with all of their own");
      }
    }
  }

  RmsNorm<Worker> norm(const typename B::Vector& weight) const noexcept {
    return {.weight = in_or_null(weight), .epsilon = norm_epsilon_};
  }
  static In<Worker> in_or_null(const typename B::Vector& values) noexcept {
    if (values.empty()) return nullptr;
    return values.data();
  }

  Dim d_model_;
  float norm_epsilon_;
  std::vector<RopeRotations> rotations_;
  std::vector<LayerShape> shapes_;
  std::vector<int> places_;  // of each layer among those of its kind: with attention, or recurrent
  std::vector<LayerWeights<B>> weights_;
};

}  // namespace foredraft::inline v0
