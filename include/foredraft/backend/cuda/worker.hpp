#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cuda/attended.hpp>
#include <foredraft/backend/cuda/attention.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/embed.hpp>
#include <foredraft/backend/cuda/head.hpp>
#include <foredraft/backend/cuda/heads.hpp>
#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/cuda/mixture.hpp>
#include <foredraft/backend/cuda/norm.hpp>
#include <foredraft/backend/cuda/operand.hpp>
#include <foredraft/backend/cuda/product.hpp>
#include <foredraft/backend/cuda/row_places.hpp>
#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/backend/cuda/states.hpp>
#include <foredraft/backend/cuda/tile_product.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>

namespace foredraft::inline v0::cuda {

/// Where nobody says how much memory attention may take.
inline constexpr std::size_t kAttentionBytes = std::size_t{64} << 20;

/// Memory that passes work in, one after the other. What a pass finds too small grows.
template <Device D>
struct Scratch {
  template <typename T>
  using Buffer = DeviceBuffer<D, T>;

  Buffer<int> tokens, head_rows;
  Buffer<RowPlace> places;
  Buffer<int> nodes;
  Buffer<Words> factors;  // of products: see Operand
  Buffer<float> group_sums;
  Buffer<float> q;          // [n_rows, d_q] before heads are finished
  Buffer<float> k, v;       // [n_rows, d_kv] before they are stored
  Buffer<float> parts;      // of attention
  Buffer<float> projected;  // what layers are given besides x, on its way
  Buffer<float> gate, up;   // [n_rows, d_ff]
  Buffer<float> y;          // [n_rows, d_model] before a norm
  Buffer<float> scores;     // [n_rows, n_experts] of a mixture
  Buffer<float> weights;    // [n_rows, n_used]
  Buffer<int> experts;      // likewise: whom a row chose
  Buffer<int> first, pairs;
  Buffer<float> shared_gate, shared_up, shared_score, shared_y;
  Buffer<StateRow> state_rows;
  Buffer<StateStep> state_steps;
  Buffer<StateWalk> state_walks;
  Buffer<float> mixer_in;     // [n_rows, d_in]: what a recurrent layer makes of a row to begin with
  Buffer<float> mixer_gate;   // [n_rows, d_mixed]
  Buffer<float> beta, alpha;  // [n_rows, heads of a delta net]
  Buffer<float> mixed;        // [n_rows, d_mixed]: what it hands to its last product
  Buffer<float> logits;       // [head rows, n_vocab]
  Buffer<Best> best;          // [head rows, runs]
  Buffer<float> maxima, temperatures;
  Buffer<double> sums;
  Buffer<int> argmax, top;
  std::size_t attention_bytes = kAttentionBytes;  // that `parts` may have, but for one row

  /// @errors kOutOfMemory
  void reserve(const PassShape& s) {
    if (s.n_rows == 0) return;
    tokens.reserve(idx(s.n_rows));
    places.reserve(idx(s.n_rows));
    for (Buffer<float>* buffer : {&k, &v}) buffer->reserve(area(s.n_rows, s.d_kv));
    for (Buffer<float>* buffer : {&gate, &up}) buffer->reserve(area(s.n_rows, s.d_ff));
    q.reserve(area(s.n_rows, s.d_q));
    y.reserve(area(s.n_rows, s.d_model));
    if (s.d_in == 0) return;
    mixer_in.reserve(area(s.n_rows, s.d_in));
    for (Buffer<float>* buffer : {&mixer_gate, &mixed}) buffer->reserve(area(s.n_rows, s.d_mixed));
  }
};

/// The one worker of a pass: it starts the kernels of each operator, and the device runs them in that
/// order. An operator cannot throw, so what goes wrong is kept for the end of the pass, and later
/// operators do nothing.
template <Device D>
class Worker {
 public:
  using Matrix = DeviceMatrix<D>;
  template <typename T>
  using Pointer = DevicePointer<T>;

  /// Layers may lack matrices: see RunsPartialLayers.
  static constexpr bool partial_layers = true;
  static constexpr bool finds_top = true;

  Worker(D& device, Scratch<D>& scratch) : device_(device), work_(scratch) {}
  Worker(Worker&&) = delete;

  int index() const noexcept { return 0; }
  int count() const noexcept { return 1; }
  void barrier() noexcept {}

  void embed(const EmbedArgs<Worker>& a) noexcept {
    guarded([&] {
      const int* const tokens = work_.tokens.write(a.tokens).raw();
      with_format(a.table->format(), [&]<WeightFormat F>() {
        using K = Embed<F>;
        launch<K>(K::grid(static_cast<int>(a.tokens.size())), 0,
                  {a.table->view(), tokens, a.scale, a.x.raw()});
      });
    });
  }

  template <std::derived_from<AnyRows<D>> R>
  void qkv(const QkvArgs<Worker, R>& a) noexcept {
    guarded([&] {
      upload_places(a.sequences);
      const std::size_t d_kv = idx(a.n_kv_heads) * idx(a.d_head);
      const std::size_t d_q = idx(a.n_heads) * idx(a.d_head);
      float* const q = work_.q.reserve(idx(a.n_rows) * d_q).raw();
      float* const k = work_.k.reserve(idx(a.n_rows) * d_kv).raw();
      float* const v = work_.v.reserve(idx(a.n_rows) * d_kv).raw();
      const Operand x =
          prepared({.x = a.x.raw(), .n_in = a.wq->n_in(), .norm = norm(a.norm)}, a.n_rows);
      const bool own_values = a.wv != nullptr;
      if (own_values) {
        product(x,
                {{a.wq, a.q_bias.raw(), q}, {a.wk, a.k_bias.raw(), k}, {a.wv, a.v_bias.raw(), v}});
      } else {
        product(x, {{a.wq, a.q_bias.raw(), q}});
        if (a.wk != nullptr) product(x, {{a.wk, a.k_bias.raw(), k}});
      }
      if (a.w_gate != nullptr) product(x, {{a.w_gate, nullptr, a.gate.raw()}});
      for (const RowPlaces::Group& group : places_->groups) {
        const FinishHeads::Args args{.rows = rows_of(group),
                                     .n_rows = group.n_rows,
                                     .n_heads = a.n_heads,
                                     .n_kv_heads = a.wk == nullptr ? 0 : a.n_kv_heads,
                                     .d_head = a.d_head,
                                     .q = q,
                                     .k = k,
                                     .v = own_values ? v : k,
                                     .to_q = a.q.raw(),
                                     .q_norm = norm(a.q_norm),
                                     .k_norm = norm(a.k_norm),
                                     .v_norm = norm(a.v_norm),
                                     .norms_all_heads = a.norms_all_heads,
                                     .rope = a.rope.kind,
                                     .n_rot = a.rope.n_rot,
                                     .cos = a.rope.cos.raw(),
                                     .sin = a.rope.sin.raw(),
                                     .layers = layers_of(group, a.kv)};
        launch<FinishHeads>(FinishHeads::grid(args), FinishHeads::shared(a.d_head), args);
      }
    });
  }

  template <std::derived_from<AnyRows<D>> R>
  void attend(const AttendArgs<Worker, R>& a) noexcept {
    guarded([&] {
      upload_places(a.sequences);
      const OperandRows attended = rows_for(a.n_rows, a.wo->n_in());
      for (const RowPlaces::Group& group : places_->groups) attend_group(a, group, attended);
      add_product(*a.wo, attended.operand(a.n_rows), a.post_norm, a.residual, a.x.raw());
    });
  }

  void feed_forward(const FeedForwardArgs<Worker>& a) noexcept {
    guarded([&] {
      const int d_ff = a.gate->n_out();
      float* const gate = work_.gate.reserve(area(a.n_rows, d_ff)).raw();
      const Operand x =
          prepared({.x = a.x.raw(), .n_in = a.gate->n_in(), .norm = norm(a.norm)}, a.n_rows);
      RowSource inner = gated(gate, a.activation, a.factor.raw(), d_ff);
      if (a.up == nullptr) {
        inner.by_stride = a.factor_stride;
        product(x, {{a.gate, nullptr, gate}});
      } else {
        float* const up = work_.up.reserve(area(a.n_rows, d_ff)).raw();
        inner.by = up;
        product(x, {{a.gate, nullptr, gate}, {a.up, nullptr, up}});
      }
      add_product(*a.down, prepared(inner, a.n_rows), a.post_norm, a.residual, a.x.raw(),
                  a.output_scale);
    });
  }

  void embed_layers(const EmbedLayersArgs<Worker>& a) noexcept {
    guarded([&] {
      const int n_rows = static_cast<int>(a.tokens.size());
      const int width = a.projection->n_out();
      float* const projected = work_.projected.reserve(area(n_rows, width)).raw();
      product(prepared({.x = a.x.raw(), .n_in = a.projection->n_in()}, n_rows),
              {{a.projection, nullptr, projected}});
      const int* const tokens = work_.tokens.write(a.tokens).raw();
      with_format(a.table->format(), [&]<WeightFormat F>() {
        using K = EmbedLayers<F>;
        launch<K>(K::grid(n_rows, width / a.d_input), 0,
                  {.table = a.table->view(),
                   .tokens = tokens,
                   .projected = projected,
                   .norm = norm(a.norm),
                   .d_input = a.d_input,
                   .scale = a.scale,
                   .inputs = a.inputs.raw()});
      });
    });
  }

  void mixture(const MixtureArgs<Worker>& a) noexcept;  // backend/cuda/experts.hpp

  // backend/cuda/recurrent.hpp
  template <typename V>
    requires StatesOnDevice<typename V::Layer>
  void short_conv(const ShortConvArgs<Worker, V>& a) noexcept;
  template <typename V>
    requires StatesOnDevice<typename V::Layer>
  void selective_scan(const SelectiveScanArgs<Worker, V>& a) noexcept;
  template <typename V>
    requires StatesOnDevice<typename V::Layer>
  void gated_delta_net(const GatedDeltaNetArgs<Worker, V>& a) noexcept;

  void tap(const TapArgs<Worker>& a) noexcept {
    guarded([&] {
      const auto n = idx(a.d_model);
      for (const auto& [row, to] : a.taps) download(a.x.raw() + idx(row) * n, std::span(to, n));
    });
  }

  void head(const HeadArgs<Worker>& a) noexcept {
    if (a.rows.empty()) return;
    guarded([&] {
      const int n_rows = static_cast<int>(a.rows.size());
      const int n_vocab = a.w->n_out();
      const int n_runs = parts_of(n_vocab, HeadRuns::kRun);
      float* const logits = work_.logits.reserve(idx(n_rows) * idx(n_vocab)).raw();
      const RowSource in{.x = a.x.raw(),
                         .rows = work_.head_rows.write(a.rows).raw(),
                         .n_in = a.w->n_in(),
                         .norm = norm(a.norm)};
      const float* const by_row = temperatures(a.sums);  // first: copies divide a graph
      product(prepared(in, n_rows), {{a.w, nullptr, logits}},
              {.scale = a.scale, .softcap = a.softcap});
      const std::size_t all = idx(n_rows) * idx(n_runs);
      const HeadRuns::Args runs{.logits = logits,
                                .n_rows = n_rows,
                                .n_vocab = n_vocab,
                                .n_runs = n_runs,
                                .temperatures = by_row,
                                .best = work_.best.reserve(all).raw(),
                                .sums = work_.sums.reserve(all).raw()};
      launch<HeadRuns>(HeadRuns::grid(runs), 0, runs);
      const HeadArgmax::Args best{.best = runs.best,
                                  .n_runs = n_runs,
                                  .argmax = work_.argmax.reserve(idx(n_rows)).raw(),
                                  .maxima = work_.maxima.reserve(all).raw()};
      launch<HeadArgmax>(HeadArgmax::grid(n_rows), HeadArgmax::shared(), best);
      if (!a.top.empty()) {
        const HeadTop::Args top{.logits = logits,
                                .n_vocab = n_vocab,
                                .maxima = best.maxima,
                                .n_runs = n_runs,
                                .argmax = best.argmax,
                                .top = work_.top.reserve(a.top.size()).raw()};
        launch<HeadTop>(HeadTop::grid(n_rows), HeadTop::shared(), top);
        download(top.top, a.top);
      }
      download(best.argmax, a.argmax);
      for (std::size_t i = 0; i < a.rows.size(); ++i) {
        hand_out(a.logits, i, logits, n_vocab);
        hand_out(a.maxima, i, best.maxima, n_runs);
        if (runs.temperatures == nullptr || a.sums[i].to == nullptr) continue;
        download(runs.sums + i * idx(n_runs), std::span(a.sums[i].to, idx(n_runs)));
      }
    });
  }

  /// What went wrong in the pass, if something did.
  std::exception_ptr error() const noexcept { return error_; }

 private:
  /// What becomes of a product's sums.
  struct End {
    bool add = false;
    float scale = 1.0f;
    float softcap = 0.0f;
    float output_scale = 1.0f;
  };
  struct Output {
    const Matrix* w;
    const float* bias;
    float* y;
  };

  template <typename F>
  void guarded(F&& f) noexcept {
    if (error_) return;
    try {
      f();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  template <typename K>
  void launch(const Grid& grid, int shared, const typename K::Args& args) {
    device_.template launch<K>(grid, shared, args);
  }

  template <typename T>
  void download(const T* from, std::span<T> to) {
    device_.download(reinterpret_cast<std::byte*>(to.data()),
                     reinterpret_cast<const std::byte*>(from), to.size_bytes());
  }
  /// Row i of [rows, n], to whoever wants it.
  void hand_out(std::span<float* const> wanted, std::size_t i, const float* from, int n) {
    if (wanted.empty() || wanted[i] == nullptr) return;
    download(from + i * idx(n), std::span(wanted[i], idx(n)));
  }

  static Norm norm(const RmsNorm<Worker>& norm) noexcept {
    return {norm.weight.raw(), norm.epsilon};
  }

  /// activation(gate) * by, rows of n_in each.
  static RowSource gated(const float* gate, Activation activation, const float* by,
                         int n_in) noexcept {
    return {.x = gate,
            .gated = true,
            .activation = activation,
            .by = by,
            .by_stride = n_in,
            .n_in = n_in};
  }

  /// Room for rows as products take them, until there are other ones.
  OperandRows rows_for(int n_rows, int n_in) {
    return {work_.factors.reserve(Operand::words_in(n_rows, n_in)).raw(),
            work_.group_sums.reserve(Operand::sums_in(n_rows, n_in)).raw(), n_in};
  }
  Operand prepared(const RowSource& from, int n_rows) {
    const PrepareRows::Args args{from, rows_for(n_rows, from.n_in)};
    launch<PrepareRows>(PrepareRows::grid(args, n_rows), PrepareRows::shared(), args);
    return args.to.operand(n_rows);
  }

  /// Matrices of one format that follow each other share a launch.
  void product(const Operand& x, std::initializer_list<Output> outputs, const End& end = {}) {
    for (auto next = outputs.begin(); next != outputs.end();) {
      const WeightFormat format = next->w->format();
      ProductPart parts[kMostParts] = {};
      for (ProductPart& part : parts) {
        if (next == outputs.end() || next->w->format() != format) break;
        part = {next->w->view(), next->bias, next->y};
        ++next;
      }
      with_format(format, [&]<WeightFormat F>() {
        const int n_rows = x.n_rows;
        if (n_rows == 1) return product_of<Product<F, 1, 1, true>>(x, parts, end);
        if (n_rows <= 8) return product_of<Product<F, 1, 1>>(x, parts, end);
        if (n_rows <= 16) return product_of<Product<F, 1, 2>>(x, parts, end);
        // Where rows come through the ring; and biases take registers that more tiles would need.
        if constexpr (TileProduct<F, 1, 4>::kRowsInRing || kShape<F>.biased) {
          product_of<Product<F, 1, 4>>(x, parts, end);
        } else if (n_rows > 32) {
          product_of<Product<F, 1, 8>>(x, parts, end);
        } else {
          product_of<Product<F, 2, 4>>(x, parts, end);
        }
      });
    }
  }
  template <typename K>
  void product_of(const Operand& x, const ProductPart (&parts)[kMostParts], const End& end) {
    typename K::Args args{.x = x,
                          .parts = {},
                          .add = end.add,
                          .scale = end.scale,
                          .softcap = end.softcap,
                          .output_scale = end.output_scale};
    std::copy_n(parts, kMostParts, args.parts);
    launch<K>(K::grid(args), K::shared(), args);
  }

  // backend/cuda/experts.hpp
  void expert_product(const Matrix& w, const Operand& x, const MixtureArgs<Worker>& a,
                      const SortPairs::Args& sorted, float* y);
  void ask_shared(const MixtureArgs<Worker>& a, const Operand& x, MixRows::Args& mixed);

  // backend/cuda/recurrent.hpp
  template <StatesOnDevice L>
  void upload_steps(std::span<const SequenceRows> sequences, std::span<const StateRows> states,
                    std::span<const L> kept);
  template <typename V, typename F>
  void for_each_group(const RecurrentArgs<Worker, V>& a, F&& launch);
  void walk_delta_net(const GatedDeltaNetShape& shape, const StateSteps::Group& group,
                      const StateLayers& layers, float* out);

  /// to += w * x, or the norm of that, times `residual`; then to times `output_scale`.
  void add_product(const Matrix& w, const Operand& x, const RmsNorm<Worker>& post_norm,
                   float residual, float* to, float output_scale = 1.0f) {
    if (!post_norm.weight) {
      return product(x, {{&w, nullptr, to}},
                     {.add = true, .scale = residual, .output_scale = output_scale});
    }
    float* const y = work_.y.reserve(idx(x.n_rows) * idx(w.n_out())).raw();
    product(x, {{&w, nullptr, y}});
    launch<AddNorm>(AddNorm::grid(x.n_rows), AddNorm::shared(),
                    {y, to, w.n_out(), norm(post_norm), residual, output_scale});
  }

  /// Once for each pass: its sequences are the same in all layers.
  void upload_places(std::span<const SequenceRows> sequences) {
    if (places_) return;
    places_.emplace(sequences);
    (void)work_.places.write(places_->rows);
    (void)work_.nodes.write(places_->nodes);
  }
  const RowPlace* rows_of(const RowPlaces::Group& group) {
    return work_.places.reserve(0).raw() + group.first;
  }
  static SequenceLayers layers_of(const RowPlaces::Group& group,
                                  std::span<const KeyValues> kv) noexcept {
    SequenceLayers layers;
    std::copy_n(kv.data() + group.first_sequence, group.n_sequences, layers.of);
    return layers;
  }

  /// As many rows at once as the memory for their parts allows, rounded down to a power of two: so
  /// that a text that grows has few graphs, and its memory few sizes.
  template <typename R>
  void attend_group(const AttendArgs<Worker, R>& a, const RowPlaces::Group& group,
                    const OperandRows& attended) {
    const int n_parts = parts_of(group.visible, kPart);
    const std::size_t of_row = idx(a.n_heads) * idx(n_parts) * idx(2 + a.d_head);
    const std::size_t room = work_.attention_bytes / sizeof(float);
    const auto most = static_cast<int>(
        std::clamp(std::bit_floor(room / of_row), std::size_t{1}, idx(group.n_rows)));
    const std::size_t needed = idx(most) * of_row;
    float* const parts =
        work_.parts.reserve(std::max(needed, std::min(std::bit_ceil(needed), room))).raw();
    AttendPartArgs args{.rows = rows_of(group),
                        .n_rows = 0,
                        .nodes = work_.nodes.reserve(0).raw(),
                        .q = a.q.raw(),
                        .n_heads = a.n_heads,
                        .heads_of_keys = a.n_heads / a.n_kv_heads,
                        .d_head = a.d_head,
                        .scale = a.scale,
                        .softcap = a.softcap,
                        .window = a.window,
                        .n_parts = n_parts,
                        .parts = parts,
                        .layers = layers_of(group, a.kv)};
    PrepareAttended::Args merged{.from = {.rows = args.rows,
                                          .n_rows = 0,
                                          .n_heads = a.n_heads,
                                          .d_head = a.d_head,
                                          .window = a.window,
                                          .n_parts = n_parts,
                                          .parts = parts},
                                 .gate = a.gate.raw(),
                                 .to = attended};
    for (int i = 0; i < group.n_sequences; ++i) merged.from.sinks[i] = args.layers.of[i].sinks;
    for (int done = 0; done < group.n_rows; done += most) {
      args.n_rows = merged.from.n_rows = std::min(most, group.n_rows - done);
      with_attend_part(args.heads_of_keys,
                       [&]<typename K>() { launch<K>(K::grid(args), K::shared(a.d_head), args); });
      launch<PrepareAttended>(PrepareAttended::grid(merged), 0, merged);
      args.rows = merged.from.rows = args.rows + most;
    }
  }

  /// Of each row, where somebody wants sums; null where nobody does.
  const float* temperatures(std::span<const SumsOfRuns> sums) {
    std::vector<float> values;
    for (const SumsOfRuns& sum : sums) values.push_back(sum.to == nullptr ? 0.0f : sum.temperature);
    if (std::all_of(values.begin(), values.end(), [](float x) { return x == 0.0f; }))
      return nullptr;
    return work_.temperatures.write(values).raw();
  }

  D& device_;
  Scratch<D>& work_;
  std::optional<RowPlaces> places_;
  std::optional<StateSteps> steps_;
  std::exception_ptr error_;
};

}  // namespace foredraft::inline v0::cuda
