#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <foredraft/backend/cpu/recurrence.hpp>
#include <foredraft/backend/cpu/worker.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/index.hpp>

/// The operators of recurrent layers on Cpu. Each begins with one matrix product for all rows and
/// ends with one; between them a worker computes some channels, or some heads, for all rows, step by
/// step. So the order of the steps of a row is the same in every pass.
namespace foredraft::inline v0::cpu {

// What of a state is computed at once: floats of a scan's rows, and columns of a delta net's state, which
// is kept by such columns, [d_value / kStateColumns][d_key][kStateColumns]. Fewer columns would make sums
// wait for themselves.
inline constexpr int kStatePart = 4096;
inline constexpr int kStateColumns = 64;

/// w * norm(x) of all rows, for all matrices side by side. @return [n_rows, sum of their n_out]
template <StateStorage V>
float* Worker::project(const RecurrentArgs<Worker, V>& a,
                       std::initializer_list<const PackedMatrix*> matrices) noexcept {
  const Inputs in = normalised(a.x, nullptr, a.n_rows, a.norm, matrices);
  float* const out = shared_.in.data();
  int width = 0;
  int n_panels = 0;
  for (const PackedMatrix* w : matrices) {
    width += w->n_out();
    n_panels += w->n_panels();
  }
  deal_out(n_panels, Scratch::kTilePanels, [&](Range run) {
    int first = 0;  // panel of the first matrix, behind those before it
    float* column = out;
    for (const PackedMatrix* w : matrices) {
      const Range panels{std::max(run.begin - first, 0), std::min(run.end - first, w->n_panels())};
      multiply(*w, in.of(w->type()), panels, column, width, {});
      first += w->n_panels();
      column += w->n_out();
    }
  });
  barrier();
  return out;
}

/// What row i of a sequence and the n - 1 tokens before it have put in, from value `first` on.
template <StateStorage V>
ConvolveTask Worker::taps_of(const RecurrentArgs<Worker, V>& a, std::size_t s, int i, int n,
                             int first) const noexcept {
  ConvolveTask task;
  task.n_taps = n;
  for (int back = n - 1; back >= 0; --back) {
    const float* const row =
        back == 0 ? a.own_row(s, i) : a.kept[s].row(a.states[s].before(a.sequences[s], i, back));
    task.taps[n - 1 - back] = row == nullptr ? nullptr : row + first;
  }
  return task;
}

template <StateStorage V>
void Worker::short_conv(const ShortConvArgs<Worker, V>& a) noexcept {
  const int width = a.shape.width;
  const float* const projected = project(a.common, {a.in});
  const auto in_of = [&](std::size_t s, int i) {
    return projected + offset(a.common.sequences[s].first_row + i, 3 * width);
  };
  const Intermediate mixed = shared_.intermediate(a.out->type(), a.common.n_rows, width);
  const Range blocks = share((width + 15) / 16, index_, count());
  const int begin = blocks.begin * 16;
  const int end = std::min(blocks.end * 16, width);
  if (begin < end) {
    for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
      for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
        const float* const in = in_of(s, i);
        float* const put_in = a.common.own_row(s, i);
        for (int c = begin; c < end; ++c) put_in[c] = in[c] * in[2 * width + c];
      }
    }
    for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
      for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
        ConvolveTask task = taps_of(a.common, s, i, a.shape.kernel, begin);
        task.kernel = a.kernel + begin;
        task.kernel_stride = idx(width);
        task.n = end - begin;
        task.out = mixed.row(a.common.sequences[s].first_row + i) + begin;
        kernels_.convolve(task);
        const float* const gate = in_of(s, i) + width + begin;
        for (int c = 0; c < task.n; ++c) task.out[c] *= gate[c];
      }
    }
    mixed.add(kernels_, a.common.n_rows, begin, end);
  }
  barrier();
  add_product(*a.out, mixed.in, {}, 1.0f, 1.0f, a.common.x);
}

/// What all rows put in: channels by share, each as it is and convolved, and time steps.
template <StateStorage V>
void Worker::put_in(const SelectiveScanArgs<Worker, V>& a, const float* projected) noexcept {
  const int width = a.shape.width;
  const int d_conv = a.shape.d_conv();
  const Range blocks = share((d_conv + 15) / 16, index_, count());
  const int begin = blocks.begin * 16;
  const int end = std::min(blocks.end * 16, d_conv);
  const Range heads = share(a.shape.n_heads, index_, count());
  for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
    for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
      const float* const in =
          projected + offset(a.common.sequences[s].first_row + i, a.shape.d_in()) + width;
      if (begin < end) std::copy(in + begin, in + end, a.common.own_row(s, i) + begin);
      for (int head = heads.begin; head < heads.end; ++head) {
        const float t = in[d_conv + head] + a.dt_bias[head];
        // From 20 on the sum rounds to t.
        a.common.own_row(s, i)[2 * d_conv + head] = t > 20.0f ? t : std::log1p(std::exp(t));
      }
    }
  }
  if (begin >= end) return;
  for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
    for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
      ConvolveTask task = taps_of(a.common, s, i, a.shape.kernel, begin);
      task.kernel = a.kernel + begin;
      task.kernel_stride = idx(d_conv);
      task.bias = a.conv_bias == nullptr ? nullptr : a.conv_bias + begin;
      task.activate = true;
      task.n = end - begin;
      task.out = a.common.own_row(s, i) + d_conv + begin;
      kernels_.convolve(task);
    }
  }
}

template <StateStorage V>
void Worker::selective_scan(const SelectiveScanArgs<Worker, V>& a) noexcept {
  const int width = a.shape.width;
  const int d_conv = a.shape.d_conv();
  const int d_head = a.shape.d_head;
  const int d_state = a.shape.d_state;
  float* const projected = project(a.common, {a.in});
  put_in(a, projected);
  barrier();
  const Intermediate mixed = shared_.intermediate(a.out->type(), a.common.n_rows, width);
  const Range heads = share(a.shape.n_heads, index_, count());
  const int rows_at_once = std::max(kStatePart / d_state / 4 * 4, 4);
  for (int head = heads.begin; head < heads.end; ++head) {
    const int group = head / (a.shape.n_heads / a.shape.n_groups);
    for (int p = 0; p < d_head; p += rows_at_once) {
      const int n = std::min(rows_at_once, d_head - p);
      for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
        const SequenceRows& sequence = a.common.sequences[s];
        const typename V::Layer& kept = a.common.kept[s];
        kept.walk(sequence, a.common.states[s], {head, offset(p, d_state), offset(n, d_state)},
                  own_.state.data(), [&](float* state, std::int32_t row, int i) {
                    const float* const in = kept.row(row) + d_conv;
                    const float* const u = in + offset(head, d_head) + p;
                    const float* const b = in + width + group * d_state;
                    const float* const c = b + offset(a.shape.n_groups, d_state);
                    const float dt = in[d_conv + head];
                    float* const y =
                        i < 0 ? nullptr
                              : mixed.row(sequence.first_row + i) + offset(head, d_head) + p;
                    kernels_.scan_step({state, n, d_state, std::exp(dt * a.decay[head]), dt,
                                        a.skip[head], u, b, c, y});
                  });
      }
    }
  }
  barrier();
  // Norms need all heads of a row.
  const int group = width / a.shape.n_groups;
  const Range mine = share(a.common.n_rows, index_, count());
  for (int row = mine.begin; row < mine.end; ++row) {
    float* const gated = projected + offset(row, a.shape.d_in());
    kernels_.gated_activation(Activation::kSilu, gated, mixed.row(row), width);
    for (int c = 0; c < width; c += group) {
      kernels_.rms_norm(gated + c, a.group_norm.weight + c, a.group_norm.epsilon, group,
                        mixed.row(row) + c);
    }
  }
  if (mine.size() > 0) mixed.add(kernels_, mine.size(), 0, width);
  barrier();
  add_product(*a.out, mixed.in, {}, 1.0f, 1.0f, a.common.x);
}

/// The convolution of some channels, for all rows.
template <StateStorage V>
void Worker::convolve_heads(const GatedDeltaNetArgs<Worker, V>& a, Range columns) noexcept {
  const int d_conv = a.shape.d_conv();
  for (std::size_t s = 0; columns.size() > 0 && s < a.common.sequences.size(); ++s) {
    for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
      ConvolveTask task = taps_of(a.common, s, i, a.shape.kernel, columns.begin);
      task.kernel = a.kernel + columns.begin;
      task.kernel_stride = idx(d_conv);
      task.activate = true;
      task.n = columns.size();
      task.out = a.common.own_row(s, i) + d_conv + columns.begin;
      kernels_.convolve(task);
    }
  }
}

/// What all rows put in. Queries and keys are shared by heads, whose length needs all channels.
template <StateStorage V>
void Worker::put_in(const GatedDeltaNetArgs<Worker, V>& a, const float* projected) noexcept {
  const int d_conv = a.shape.d_conv();
  const int d_key = a.shape.d_key;
  const int n_key_heads = a.shape.n_key_heads;
  const int all_keys = 2 * n_key_heads * d_key;
  const Range key_heads = share(2 * n_key_heads, index_, count());
  const Range blocks = share((a.shape.width + 15) / 16, index_, count());
  const Range keys{key_heads.begin * d_key, key_heads.end * d_key};
  const Range values{all_keys + blocks.begin * 16, std::min(all_keys + blocks.end * 16, d_conv)};
  const Range heads = share(a.shape.n_heads, index_, count());
  for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
    for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
      const float* const in =
          projected + offset(a.common.sequences[s].first_row + i, a.shape.d_in());
      for (const Range& part : {keys, values}) {
        std::copy(in + part.begin, in + std::max(part.begin, part.end),
                  a.common.own_row(s, i) + part.begin);
      }
      const float* const of_heads = in + d_conv + a.shape.width;  // beta, then alpha
      for (int head = heads.begin; head < heads.end; ++head) {
        const float t = of_heads[a.shape.n_heads + head] + a.dt_bias[head];
        const float dt = t > 20.0f ? t : std::log1p(std::exp(t));
        float* const to = a.common.own_row(s, i) + 2 * d_conv + head;
        to[0] = std::exp(a.decay[head] * dt);
        to[a.shape.n_heads] = 1.0f / (1.0f + std::exp(-of_heads[head]));
      }
    }
  }
  convolve_heads(a, keys);
  convolve_heads(a, values);
  const float of_queries = 1.0f / std::sqrt(static_cast<float>(d_key));
  for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
    for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
      for (int head = key_heads.begin; head < key_heads.end; ++head) {
        kernels_.set_length(a.common.own_row(s, i) + d_conv + head * d_key, d_key, kLengthEpsilon,
                            head < n_key_heads ? of_queries : 1.0f);
      }
    }
  }
}

template <StateStorage V>
void Worker::gated_delta_net(const GatedDeltaNetArgs<Worker, V>& a) noexcept {
  const int width = a.shape.width;
  const int d_conv = a.shape.d_conv();
  const int d_key = a.shape.d_key;
  const int d_value = a.shape.d_value;
  const int all_keys = int{a.shape.n_key_heads} * d_key;
  float* const projected = project(a.common, {a.qkv, a.gate, a.beta, a.alpha});
  put_in(a, projected);
  barrier();
  const Intermediate mixed = shared_.intermediate(a.out->type(), a.common.n_rows, width);
  const Range heads = share(a.shape.n_heads, index_, count());
  for (int head = heads.begin; head < heads.end; ++head) {
    const int column = head * d_value;
    for (int first = 0; first < d_value; first += kStateColumns) {
      const int n = std::min(kStateColumns, d_value - first);
      for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
        const SequenceRows& sequence = a.common.sequences[s];
        const typename V::Layer& kept = a.common.kept[s];
        kept.walk(sequence, a.common.states[s], {head, offset(first, d_key), offset(n, d_key)},
                  own_.state.data(), [&](float* state, std::int32_t row, int i) {
                    const float* const in = kept.row(row);
                    const float* const q = in + d_conv + a.shape.key_head(head) * d_key;
                    const float* const v = in + d_conv + 2 * all_keys + column + first;
                    const float* const of_head = in + 2 * d_conv + head;
                    float* const y =
                        i < 0 ? nullptr : mixed.row(sequence.first_row + i) + column + first;
                    kernels_.delta_step({state, d_key, n, of_head[0], of_head[a.shape.n_heads], q,
                                         q + all_keys, v, y});
                  });
      }
    }
    for (int row = 0; row < a.common.n_rows; ++row) {
      float* const y = mixed.row(row) + column;
      float* const gate = projected + offset(row, a.shape.d_in()) + d_conv + column;
      kernels_.rms_norm(y, a.head_norm.weight, a.head_norm.epsilon, d_value, y);
      kernels_.gated_activation(Activation::kSilu, gate, y, d_value);
      std::copy_n(gate, d_value, y);
    }
    mixed.add(kernels_, a.common.n_rows, column, column + d_value);
  }
  barrier();
  add_product(*a.out, mixed.in, {}, 1.0f, 1.0f, a.common.x);
}

}  // namespace foredraft::inline v0::cpu
