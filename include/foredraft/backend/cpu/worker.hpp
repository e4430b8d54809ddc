#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/cpu/scratch.hpp>
#include <foredraft/backend/cpu/share.hpp>
#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/detail/exponentials.hpp>

namespace foredraft::inline v0::cpu {

/// One thread's view of a parallel region: the operators of backend/ops.hpp.
///
/// Work is divided by a fixed rule (by panels of weights, by queries, by rows). Where most of the
/// time goes, a worker that has done its share helps the others with theirs. Workers meet at the
/// end of qkv and at the middle and the end of attend and feed_forward: five barriers a layer.
/// There are more of them
///  - in qkv, where whole heads do not balance over the workers: rotation waits for all
///    projections;
///  - in qkv and feed_forward, from so many rows on that workers share norm and quantization of the
///    input instead of repeating them (Scratch::own_inputs);
///  - in attend and feed_forward, where a norm or a factor follows: it waits for the whole product;
///  - in qkv, two where one norm is of all heads: it waits for all of them, and they for it.
class Worker {
 public:
  using Matrix = PackedMatrix;
  template <typename T>
  using Pointer = T*;
  static constexpr bool partial_layers = true;

  Worker(const KernelTable& kernels, ThreadPool& pool, Scratch& scratch, int index) noexcept
      : kernels_(kernels),
        pool_(pool),
        shared_(scratch),
        own_(scratch.workers[idx(index)]),
        index_(index) {}

  int index() const noexcept { return index_; }
  int count() const noexcept { return pool_.size(); }
  void barrier() noexcept { pool_.barrier(); }

  void embed(const EmbedArgs<Worker>& a) noexcept {
    const Range mine = share(static_cast<int>(a.tokens.size()), index_, count());
    const int d = a.table->n_in();
    for (int row = mine.begin; row < mine.end; ++row) {
      float* x = a.x + offset(row, d);
      a.table->dequantize_row(a.tokens[idx(row)], x);
      if (a.scale == 1.0f) continue;
      for (int i = 0; i < d; ++i) x[i] *= a.scale;
    }
    barrier();
  }

  void embed_layers(const EmbedLayersArgs<Worker>& a) noexcept;  // backend/cpu/layer_inputs.hpp

  template <std::derived_from<AnyRows> R>
  void qkv(const QkvArgs<Worker, R>& a) noexcept {
    const std::array<Projection, 4> projections{{{a.wq, a.q_bias, a.q, a.n_heads},
                                                 {a.wk, a.k_bias, shared_.k.data(), a.n_kv_heads},
                                                 {a.wv, a.v_bias, shared_.v.data(), a.n_kv_heads},
                                                 {a.w_gate, nullptr, a.gate, a.n_heads}}};
    WeightedShare<4> heads;
    for (const Projection& p : projections) {
      const bool none = p.w == nullptr;
      heads.add(none ? 0 : p.n_heads,
                none ? 1 : static_cast<std::int64_t>(p.w->bytes()) / p.n_heads);
    }
    // A worker that computes whole heads can rotate and store them without waiting for the others.
    const bool whole_heads = a.d_head % kPanelRows == 0 && heads.balanced(count());
    // A matrix that is not asked for is one that is there anyway.
    const auto or_wq = [&](const PackedMatrix* w) { return w == nullptr ? a.wq : w; };
    const std::initializer_list<const PackedMatrix*> readers{a.wq, or_wq(a.wk), or_wq(a.wv),
                                                             or_wq(a.w_gate)};
    const Inputs in = normalised(a.x, nullptr, a.n_rows, a.norm, readers);
    project(projections, in, a.d_head, whole_heads ? &heads : nullptr);
    if (!whole_heads || a.norms_all_heads) barrier();
    if (a.norms_all_heads) {
      normalise_in_place(a.q_norm, a.n_rows, a.n_heads * a.d_head, a.q);
      if (a.wk != nullptr) {
        normalise_in_place(a.k_norm, a.n_rows, a.n_kv_heads * a.d_head, shared_.k.data());
      }
      barrier();
    }
    turn_and_store(a, heads);
    barrier();
  }

  /// Queries are dealt out in the order of (sequence, KV head, row, query head), by the positions
  /// that they see: all workers are busy with one row too, and with the rows of a prompt, whose
  /// last ones see the most.
  template <std::derived_from<AnyRows> R>
  void attend(const AttendArgs<Worker, R>& a) noexcept {
    const Intermediate attended =
        shared_.intermediate(a.wo->type(), a.n_rows, a.n_heads * a.d_head);
    const int group = a.n_heads / a.n_kv_heads;
    AttendTask task{.row_stride = idx(a.n_heads) * idx(a.d_head),
                    .d_head = a.d_head,
                    .group = group,
                    .scale = a.scale,
                    .window = a.window,
                    .workspace = own_.attend.data(),
                    .softcap = a.softcap};
    std::int64_t total = 0;
    for (std::size_t s = 0; s < a.sequences.size(); ++s) {
      describe(a.sequences[s], task);
      total += a.n_kv_heads * head_cost(task, a.sequences[s].n_rows);
    }
    const std::int64_t lower = total * index_ / count();
    const std::int64_t upper = total * (index_ + 1) / count();
    std::int64_t start = 0;
    for (std::size_t s = 0; s < a.sequences.size(); ++s) {
      const SequenceRows& rows = a.sequences[s];
      const AnyRows::Layer& kv = a.kv[s];
      describe(rows, task);
      task.formats = kv.formats();
      task.ring = kv.ring;
      task.sinks = a.window == 0 ? 0 : kv.sinks;
      task.pinned = kv.pinned;
      const std::int64_t cost = head_cost(task, rows.n_rows);
      for (int head = 0; head < a.n_kv_heads; ++head, start += cost) {
        if (start + cost <= lower || start >= upper) continue;
        task.begin = queries_before(lower, start, task, rows.n_rows);
        task.end = queries_before(upper, start, task, rows.n_rows);
        const std::size_t first =
            offset(rows.first_row, a.n_heads * a.d_head) + offset(head * group, a.d_head);
        task.q = a.q + first;
        task.out = attended.values + first;
        task.k = kv.k.row(head, 0);
        task.v = kv.v.row(head, 0);
        kernels_.attend(task);
        hand_over(task, a.gate, rows.first_row, head, attended);
      }
    }
    barrier();
    add_product(*a.wo, attended.in, a.post_norm, a.residual, 1.0f, a.x);
  }

  // Recurrent layers: backend/cpu/recurrent.hpp.
  template <StateStorage V>
  void short_conv(const ShortConvArgs<Worker, V>& a) noexcept;
  template <StateStorage V>
  void selective_scan(const SelectiveScanArgs<Worker, V>& a) noexcept;
  template <StateStorage V>
  void gated_delta_net(const GatedDeltaNetArgs<Worker, V>& a) noexcept;

  void feed_forward(const FeedForwardArgs<Worker>& a) noexcept {
    const Inputs in =
        normalised(a.x, nullptr, a.n_rows, a.norm, {a.gate, a.up == nullptr ? a.gate : a.up});
    const Intermediate hidden =
        activated(*a.gate, *a.down, a.activation, in,
                  [&](Range panels, int column) { return factors_of(a, in, panels, column); });
    barrier();
    add_product(*a.down, hidden.in, a.post_norm, a.residual, a.output_scale, a.x);
  }

  void mixture(const MixtureArgs<Worker>& a) noexcept;  // backend/cpu/mixture.hpp

  void tap(const TapArgs<Worker>& a) noexcept {
    if (a.taps.empty()) return;
    const Range mine = share(static_cast<int>(a.taps.size()), index_, count());
    for (int i = mine.begin; i < mine.end; ++i) {
      const auto [row, to] = a.taps[idx(i)];
      std::memcpy(to, a.x + offset(row, a.d_model), idx(a.d_model) * sizeof(float));
    }
    barrier();
  }

  void head(const HeadArgs<Worker>& a) noexcept {
    const int n_rows = static_cast<int>(a.rows.size());
    if (n_rows == 0) return;
    const Inputs in = normalised(a.x, a.rows.data(), n_rows, a.norm, {a.w});
    Best* best = shared_.best.data();
    Best* mine = best + offset(index_, n_rows);
    for (int i = 0; i < n_rows; ++i) mine[i] = Best{};
    for_tiles(a.w->n_panels(), a.w->n_out(), [&](Range panels, int column, int n) {
      multiply_into_tile(*a.w, in, panels);
      for (int i = 0; i < n_rows; ++i) {
        float* const values = own_.tile.data() + offset(i, Scratch::kTileColumns);
        if (a.scale != 1.0f) {
          for (int k = 0; k < n; ++k) values[k] *= a.scale;
        }
        if (a.softcap != 0.0f) kernels_.soft_cap(values, n, a.softcap);
        const float greatest = kernels_.argmax(values, n, column, mine[i]);
        const auto row = idx(i);
        if (!a.logits.empty() && a.logits[row] != nullptr) {
          std::memcpy(a.logits[row] + column, values, idx(n) * sizeof(float));
        }
        if (!a.maxima.empty() && a.maxima[row] != nullptr) {
          a.maxima[row][column / Scratch::kTileColumns] = greatest;
        }
        if (!a.sums.empty() && a.sums[row].to != nullptr) {
          a.sums[row].to[column / Scratch::kTileColumns] =
              sum_of_weights({values, idx(n)}, greatest, a.sums[row].temperature);
        }
      }
    });
    barrier();
    const Range rows = share(n_rows, index_, count());
    for (int i = rows.begin; i < rows.end; ++i) {
      Best all;
      for (int worker = 0; worker < count(); ++worker) {
        const Best& one = best[offset(worker, n_rows) + idx(i)];
        all.nan |= one.nan;
        if (one.value > all.value || (one.value == all.value && one.id < all.id)) {
          all.value = one.value;
          all.id = one.id;
        }
      }
      const bool damaged = all.nan || all.value == std::numeric_limits<float>::infinity();
      a.argmax[idx(i)] = damaged ? -1 : all.id;
    }
    barrier();
  }

 private:
  struct Projection {
    const PackedMatrix* w;
    const float* bias;
    float* out;  // [n_rows, n_heads * d_head]
    int n_heads;
  };

  /// This worker's part of the products: its share of `heads`, or of all panels where that is null.
  void project(const std::array<Projection, 4>& projections, const Inputs& in, int d_head,
               const WeightedShare<4>* heads) noexcept {
    WeightedShare<4> panels;
    for (const Projection& p : projections) {
      const bool none = p.w == nullptr;
      panels.add(none ? 0 : p.w->n_panels(),
                 none ? 1 : static_cast<std::int64_t>(p.w->panels().panel_bytes));
    }
    const int n = d_head / kPanelRows;
    for (int i = 0; i < 4; ++i) {
      const Projection& p = projections[idx(i)];
      if (p.w == nullptr) continue;
      const Range part = (heads != nullptr ? *heads : panels).of(i, index_, count());
      const Epilogue epilogue{p.bias != nullptr ? Epilogue::Kind::kAddBias : Epilogue::Kind::kStore,
                              p.bias};
      multiply(*p.w, in.of(p.w->type()),
               heads != nullptr ? Range{part.begin * n, part.end * n} : part, p.out,
               p.n_heads * d_head, epilogue);
    }
  }

  /// Norms and rotation of this worker's heads, whose keys and values then go into the caches.
  template <std::derived_from<AnyRows> R>
  void turn_and_store(const QkvArgs<Worker, R>& a, const WeightedShare<4>& heads) noexcept {
    const int d_kv = a.n_kv_heads * a.d_head;
    const RmsNorm<Worker> none;
    const RmsNorm<Worker>& q_norm = a.norms_all_heads ? none : a.q_norm;
    const RmsNorm<Worker>& k_norm = a.norms_all_heads ? none : a.k_norm;
    turn(q_norm, a.rope, a.n_rows, a.d_head, heads.of(0, index_, count()), a.q,
         a.n_heads * a.d_head);
    const Range keys = heads.of(1, index_, count());
    // Values that are made from keys are made where the keys are, before these turn.
    const Range values = a.wv == nullptr ? keys : heads.of(2, index_, count());
    if (a.wv == nullptr) {
      for (int row = 0; row < a.n_rows; ++row) {
        const std::size_t at = offset(row, d_kv) + offset(keys.begin, a.d_head);
        std::copy_n(shared_.k.data() + at, offset(keys.size(), a.d_head), shared_.v.data() + at);
      }
    }
    turn(k_norm, a.rope, a.n_rows, a.d_head, keys, shared_.k.data(), d_kv);
    if (a.v_norm.weight != nullptr)
      turn(a.v_norm, {}, a.n_rows, a.d_head, values, shared_.v.data(), d_kv);
    for (std::size_t s = 0; s < a.sequences.size(); ++s) {
      const AnyRows::Layer& kv = a.kv[s];
      store_keys(a.sequences[s], kv, a.d_head, keys, shared_.k.data(), d_kv);
      store_values(a.sequences[s], kv, a.d_head, values, shared_.v.data(), d_kv);
    }
  }

  static std::size_t offset(int row, int width) noexcept { return idx(row) * idx(width); }

  /// What activations are multiplied by in some columns: row i's begin at first + i * stride.
  struct Factors {
    const float* first;
    int stride;
  };
  Factors factors_of(const FeedForwardArgs<Worker>& a, const Inputs& in, Range panels,
                     int column) noexcept;

  /// Rows of x (or those that `gather` names), normalised where there is a norm, in the formats of
  /// all `matrices`.
  Inputs normalised(const float* x, const std::int32_t* gather, int n_rows,
                    const RmsNorm<Worker>& norm,
                    std::initializer_list<const PackedMatrix*> matrices) noexcept {
    const int n_in = (*matrices.begin())->n_in();
    const bool own = Scratch::own_inputs(n_rows, n_in);
    const Inputs in{own ? own_.inputs.data() : shared_.inputs.data(), n_rows, n_in};
    const Range mine = own ? Range{0, n_rows} : share(n_rows, index_, count());
    for (int i = mine.begin; i < mine.end; ++i) {
      normalise_row(x + offset(gather == nullptr ? i : gather[i], n_in), norm, in, i, matrices);
    }
    if (!own) barrier();
    return in;
  }

  /// Row i of `to`, from one row of x.
  void normalise_row(const float* x, const RmsNorm<Worker>& norm, const Inputs& to, int i,
                     std::initializer_list<const PackedMatrix*> matrices) noexcept {
    if (norm.weight != nullptr) {
      kernels_.rms_norm(x, norm.weight, norm.epsilon, to.n_in, own_.row.data());
      x = own_.row.data();
    }
    unsigned done = 0;  // a bit for each format
    for (const PackedMatrix* matrix : matrices) {
      const Activations rows = to.of(matrix->type());
      const unsigned bit = 1u << static_cast<unsigned>(rows.format);
      if ((done & bit) == 0) kernels_.quantize_row(x, rows, i, 0, to.n_in);
      done |= bit;
    }
  }

  void multiply(const PackedMatrix& w, const Activations& in, Range panels, float* out, int ld_out,
                Epilogue epilogue) noexcept {
    if (panels.size() <= 0) return;
    kernels_.matmul(w.panels(), in, panels.begin, panels.end, out, idx(ld_out), epilogue);
  }

  /// The worker's share of rows.
  void normalise_in_place(const RmsNorm<Worker>& norm, int n_rows, int width,
                          float* x) const noexcept {
    const Range mine = share(n_rows, index_, count());
    for (int row = mine.begin; row < mine.end; ++row) {
      float* const one = x + offset(row, width);
      kernels_.rms_norm(one, norm.weight, norm.epsilon, width, one);
    }
  }

  /// x = (x + w * in, or the norm of that, times `residual`) times `output_scale`, on all workers.
  void add_product(const PackedMatrix& w, const Activations& in, const RmsNorm<Worker>& norm,
                   float residual, float output_scale, float* x) noexcept {
    const bool plain = norm.weight == nullptr && residual == 1.0f && output_scale == 1.0f;
    float* const out = plain ? x : shared_.values.data();  // what `in` was made from
    const Epilogue epilogue{plain ? Epilogue::Kind::kAccumulate : Epilogue::Kind::kStore, nullptr};
    const std::size_t run_bytes =
        in.n_rows <= kTileRows ? Scratch::kRunBytes : Scratch::kRunBytesOfManyRows;
    const int n_panels = std::max(1, static_cast<int>(run_bytes / w.panels().panel_bytes));
    deal_out(w.n_panels(), n_panels,
             [&](Range panels) { multiply(w, in, panels, out, w.n_out(), epilogue); });
    barrier();
    if (plain) return;
    // A norm needs its whole row.
    const Range mine = share(in.n_rows, index_, count());
    for (int row = mine.begin; row < mine.end; ++row) {
      const std::size_t first = offset(row, w.n_out());
      const float* y = out + first;
      if (norm.weight != nullptr) {
        kernels_.rms_norm(y, norm.weight, norm.epsilon, w.n_out(), own_.row.data());
        y = own_.row.data();
      }
      for (int i = 0; i < w.n_out(); ++i) {
        float& sum = x[first + idx(i)];
        sum = (sum + residual * y[i]) * output_scale;
      }
    }
    barrier();
  }

  /// The products of a few panels, into the worker's own tile from its first column on.
  void multiply_into_tile(const PackedMatrix& w, const Inputs& in, Range panels) noexcept {
    multiply_into_tile(w.panels(), in, panels);
  }
  void multiply_into_tile(PackedPanels part, const Inputs& in, Range panels) noexcept {
    part.data += idx(panels.begin) * part.panel_bytes;
    part.n_out -= panels.begin * kPanelRows;
    part.n_panels -= panels.begin;
    kernels_.matmul(part, in.of(part.type), 0, panels.size(), own_.tile.data(),
                    Scratch::kTileColumns, {});
  }

  // The parts of mixture().
  void gather_pairs(const MixtureArgs<Worker>& a, const Routing& routing) noexcept;
  void say_shared(const SharedExpert<Worker>& a, Activation activation, const Inputs& in) noexcept;
  void activate_experts(const MixtureArgs<Worker>& a, const Routing& routing,
                        const Inputs& in) noexcept;
  void say_experts(const MixtureArgs<Worker>& a, const Routing& routing, float* said) noexcept;
  void add_weighted(const Routing& routing, const float* said, int n_rows, int n_used, int d_model,
                    bool has_shared, float* x) noexcept;

  /// activation(gate * in) .* factors, the input of the product with `next`.
  /// @param factors_of  those of the columns that panels of `gate` make
  template <typename FactorsOf>
  Intermediate activated(const PackedMatrix& gate, const PackedMatrix& next, Activation activation,
                         const Inputs& in, FactorsOf&& factors_of) noexcept {
    const int d_ff = gate.n_out();
    const Intermediate hidden = shared_.intermediate(next.type(), in.n_rows, d_ff);
    for_tiles(gate.n_panels(), d_ff, [&](Range panels, int column, int n) {
      multiply(gate, in.of(gate.type()), panels, hidden.values, d_ff, {});
      const Factors factors = factors_of(panels, column);
      for (int row = 0; row < in.n_rows; ++row) {
        kernels_.gated_activation(activation, hidden.row(row) + column,
                                  factors.first + offset(row, factors.stride), n);
      }
      hidden.add(kernels_, in.n_rows, column, column + n);
    });
    return hidden;
  }

  /// f(run) for runs of up to `length` of n things, each on one worker: first the runs of a
  /// worker's own share, then what slower workers have left of theirs. Who computes a thing makes
  /// no difference to it, and a core that is slower than others, or taken away for a while, does
  /// not keep them waiting.
  ///
  /// There is a barrier between any two of these. So while two sets of counters take turns, nobody
  /// looks at the one that is set back.
  template <typename F>
  void deal_out(int n, int length, F&& f) noexcept {
    const int set = deals_++ % 2;
    own_.taken[1 - set].store(0, std::memory_order_relaxed);
    for (int i = 0; i < count(); ++i) {
      const int worker = (index_ + i) % count();
      const Range part = share(n, worker, count());
      std::atomic<int>& taken = shared_.workers[idx(worker)].taken[set];
      for (;;) {
        const int begin = part.begin + length * taken.fetch_add(1, std::memory_order_relaxed);
        if (begin >= part.end) break;
        f(Range{begin, std::min(begin + length, part.end)});
      }
    }
  }

  /// f(panels, first column, columns) for the tiles of a matrix with n_out outputs.
  template <typename F>
  void for_tiles(int n_panels, int n_out, F&& f) noexcept {
    constexpr int kLength = Scratch::kTilePanels;
    deal_out((n_panels + kLength - 1) / kLength, 1, [&](Range tile) {
      const int begin = tile.begin * kLength;
      const Range panels{begin, std::min(begin + kLength, n_panels)};
      const int column = panels.begin * kPanelRows;
      f(panels, column, std::min(panels.end * kPanelRows, n_out) - column);
    });
  }

  /// The task has computed what its queries of KV head `head` attend to. Query heads of a row lie
  /// side by side: the end of a row, whole rows, a row's beginning.
  void hand_over(const AttendTask& task, float* gate, int first_row, int head,
                 const Intermediate& attended) noexcept {
    for (int query = task.begin; query < task.end;) {
      const int begin = query % task.group;
      const int n_heads = std::min(task.group - begin, task.end - query);
      const int n_rows = n_heads == task.group ? (task.end - query) / task.group : 1;
      const int column = (head * task.group + begin) * task.d_head;
      const int end = column + n_heads * task.d_head;
      if (gate != nullptr)
        apply_gate(gate, attended, first_row + query / task.group, n_rows, column, end - column);
      attended.add(kernels_, n_rows, column, end);
      query += n_rows * n_heads;
    }
  }

  /// Some columns of some rows are multiplied by the sigmoid of the gate, which is used up.
  /// @shape gate [rows of the pass, attended.in.n_in]
  void apply_gate(float* gate, const Intermediate& attended, int row, int n_rows, int column,
                  int n) noexcept {
    for (const int end = row + n_rows; row < end; ++row) {
      float* const of_row = gate + offset(row, attended.in.n_in) + column;
      kernels_.gated_activation(Activation::kSigmoid, of_row, attended.row(row) + column, n);
      std::copy_n(of_row, n, attended.row(row) + column);
    }
  }

  // Of recurrent layers.
  template <StateStorage V>
  float* project(const RecurrentArgs<Worker, V>& a,
                 std::initializer_list<const PackedMatrix*> matrices) noexcept;
  template <StateStorage V>
  ConvolveTask taps_of(const RecurrentArgs<Worker, V>& a, std::size_t s, int i, int n,
                       int first) const noexcept;
  template <StateStorage V>
  void put_in(const SelectiveScanArgs<Worker, V>& a, const float* projected) noexcept;
  template <StateStorage V>
  void put_in(const GatedDeltaNetArgs<Worker, V>& a, const float* projected) noexcept;
  template <StateStorage V>
  void convolve_heads(const GatedDeltaNetArgs<Worker, V>& a, Range columns) noexcept;

  /// Norm, where there is one, and rotation of some heads.
  void turn(const RmsNorm<Worker>& norm, const RopeTable<Worker>& rope, int n_rows, int d_head,
            Range heads, float* x, int width) noexcept {
    const int half = rope.n_rot / 2;
    for (int row = 0; row < n_rows; ++row) {
      for (int head = heads.begin; head < heads.end; ++head) {
        float* const one = x + offset(row, width) + offset(head, d_head);
        if (norm.weight != nullptr) {
          kernels_.rms_norm(one, norm.weight, norm.epsilon, d_head, one);
        }
        kernels_.rope(rope.kind, rope.n_rot, rope.cos + offset(row, half),
                      rope.sin + offset(row, half), one);
      }
    }
  }

  /// Write some heads of a sequence's rows behind its committed ones.
  /// @shape k [rows of the pass, width]
  void store_keys(const SequenceRows& rows, const AnyRows::Layer& kv, int d_head, Range heads,
                  const float* k, int width) noexcept {
    auto* const as_stored = reinterpret_cast<std::byte*>(own_.attend.data());
    for_each_stored(rows, heads, [&](int head, int i, int row) {
      store_row_as(kv.k.format, k + offset(i, width) + offset(head, d_head), d_head, as_stored);
      kv.put_key(head, row, d_head, as_stored);
    });
  }
  void store_values(const SequenceRows& rows, const AnyRows::Layer& kv, int d_head, Range heads,
                    const float* v, int width) noexcept {
    for_each_stored(rows, heads, [&](int head, int i, int row) {
      store_row_as(kv.v.format, v + offset(i, width) + offset(head, d_head), d_head,
                   kv.v.row(head, kv.place(row)));
    });
  }

  /// f(head, row of the pass, row of the cache), head by head: keys of a head share lines of memory.
  template <typename F>
  static void for_each_stored(const SequenceRows& rows, Range heads, F&& f) noexcept {
    for (int head = heads.begin; head < heads.end; ++head) {
      for (int i = 0; i < rows.n_rows; ++i) {
        f(head, rows.first_row + i, rows.row_of(rows.first_node + i));
      }
    }
  }

  void store_row_as(RowFormat format, const float* from, int d_head, std::byte* row) noexcept {
    if (format == RowFormat::kF16) {  // what the loop of store_row() would do, in vectors
      kernels_.store_half(from, d_head, reinterpret_cast<std::uint16_t*>(row));
    } else {
      store_row(format, {from, idx(d_head)}, row);
    }
  }

  static void describe(const SequenceRows& rows, AttendTask& task) noexcept {
    task.size = rows.size;
    task.first_node = rows.first_node;
    task.path = rows.path.data();
    task.path_begin = rows.chain() ? nullptr : rows.path_begin.data();
  }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  Scratch& shared_;
  Scratch::Worker& own_;
  const int index_;
  int deals_ = 0;
};

}  // namespace foredraft::inline v0::cpu
