#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <Eigen/Core>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/backend/host_memory.hpp>
#include <foredraft/backend/host_states.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// The backend that others are measured by: one worker, weights as floats, all sums and functions
/// in double, inputs never quantized. Written to be obviously right.
class Reference : public HostMemory {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  class Worker {
   public:
    using Matrix = Reference::Matrix;
    template <typename T>
    using Pointer = T*;
    static constexpr bool partial_layers = true;

    int index() const noexcept { return 0; }
    int count() const noexcept { return 1; }
    void barrier() noexcept {}

    void embed(const EmbedArgs<Worker>& a) noexcept {
      for (std::size_t row = 0; row < a.tokens.size(); ++row) {
        const auto embedding = a.table->row(a.tokens[row]);
        Eigen::Map<Eigen::RowVectorXf>(a.x + row * idx(embedding.size()), embedding.size()) =
            embedding * a.scale;
      }
    }

    void embed_layers(const EmbedLayersArgs<Worker>& a) noexcept {
      const Eigen::Index width = a.projection->rows();
      for (std::size_t row = 0; row < a.tokens.size(); ++row) {
        const Vector x = input(a.x, static_cast<int>(row), a.projection->cols());
        Vector sum = product(*a.projection, x, nullptr);
        for (Eigen::Index at = 0; at < width; at += a.d_input) {
          const Vector part = sum.segment(at, a.d_input);
          sum.segment(at, a.d_input) = normalised(part, a.norm);
        }
        sum += a.scale * a.table->row(a.tokens[row]).transpose().cast<double>();
        Eigen::Map<Eigen::VectorXf>(a.inputs + static_cast<Eigen::Index>(row) * width, width) =
            (sum * std::sqrt(0.5)).cast<float>();
      }
    }

    template <typename R>
    void qkv(const QkvArgs<Worker, R>& a) noexcept {
      for (std::size_t s = 0; s < a.sequences.size(); ++s) {
        for (int i = 0; i < a.sequences[s].n_rows; ++i) {
          const int row = a.sequences[s].first_row + i;
          const Vector x = normalised(a.x, row, a.norm, a.wq->cols());
          Vector q = product(*a.wq, x, a.q_bias);
          Vector k = a.wk == nullptr ? Vector() : product(*a.wk, x, a.k_bias);
          Vector v = a.wv == nullptr ? k : product(*a.wv, x, a.v_bias);
          const RmsNorm<Worker> none;
          if (a.norms_all_heads) {
            q = normalised(q, a.q_norm);
            if (a.wk != nullptr) k = normalised(k, a.k_norm);
          }
          for (int head = 0; head < a.n_heads; ++head)
            turn(a, a.norms_all_heads ? none : a.q_norm, row, head, q);
          Eigen::Map<Eigen::VectorXf>(a.q + row * q.size(), q.size()) = q.cast<float>();
          if (a.w_gate != nullptr) {
            Eigen::Map<Eigen::VectorXf>(a.gate + row * q.size(), q.size()) =
                product(*a.w_gate, x, nullptr).template cast<float>();
          }
          if (a.wk == nullptr) continue;
          for (int head = 0; head < a.n_kv_heads; ++head) {
            turn(a, a.norms_all_heads ? none : a.k_norm, row, head, k);
            const Vector one = v.segment(head * a.d_head, a.d_head);
            v.segment(head * a.d_head, a.d_head) = normalised(one, a.v_norm);
          }
          typename R::Layer kv = a.kv[s];
          const int place = a.sequences[s].row_of(a.sequences[s].first_node + i);
          for (int head = 0; head < a.n_kv_heads; ++head) {
            const Eigen::VectorXf key = k.segment(head * a.d_head, a.d_head).template cast<float>();
            const Eigen::VectorXf value =
                v.segment(head * a.d_head, a.d_head).template cast<float>();
            kv.put(head, place, {key.data(), idx(a.d_head)}, {value.data(), idx(a.d_head)});
          }
        }
      }
    }

    template <typename R>
    void attend(const AttendArgs<Worker, R>& a) noexcept {
      for (std::size_t s = 0; s < a.sequences.size(); ++s) {
        const SequenceRows& sequence = a.sequences[s];
        for (int i = 0; i < sequence.n_rows; ++i) {
          const int row = sequence.first_row + i;
          Vector attended(a.n_heads * a.d_head);
          for (int head = 0; head < a.n_heads; ++head) {
            attended.segment(head * a.d_head, a.d_head) =
                attend_head(a, a.kv[s], sequence, i, head);
          }
          for (Eigen::Index n = 0; a.gate != nullptr && n < attended.size(); ++n) {
            attended[n] *= activate(Activation::kSigmoid, a.gate[row * attended.size() + n]);
          }
          add_product(*a.wo, attended, a.post_norm, a.residual, 1.0f, a.x, row);
        }
      }
    }

    void feed_forward(const FeedForwardArgs<Worker>& a) noexcept {
      for (int row = 0; row < a.n_rows; ++row) {
        const Vector x = normalised(a.x, row, a.norm, a.gate->cols());
        Vector factor = Vector::Ones(a.gate->rows());
        if (a.up != nullptr) {
          factor = product(*a.up, x, nullptr);
        } else if (a.factor != nullptr) {
          factor = input(a.factor + std::ptrdiff_t{row} * a.factor_stride, 0, factor.size());
        }
        add_product(*a.down, activated(*a.gate, a.activation, x).cwiseProduct(factor), a.post_norm,
                    a.residual, a.output_scale, a.x, row);
      }
    }

    void mixture(const MixtureArgs<Worker>& a) noexcept {
      const Eigen::Index d_model = a.router->cols();
      const Eigen::Index d_ff = a.down->cols();
      for (int row = 0; row < a.n_rows; ++row) {
        const Vector x = normalised(a.x, row, a.norm, d_model);
        const Vector scores = product(*a.router, x, nullptr);
        std::vector<int> ranked(idx(a.n_experts));
        std::iota(ranked.begin(), ranked.end(), 0);
        std::stable_sort(ranked.begin(), ranked.end(),
                         [&](int i, int j) { return scores[i] > scores[j]; });
        Vector weights(a.n_used);
        for (int i = 0; i < a.n_used; ++i) {
          weights[i] = std::exp(scores[ranked[idx(i)]] - scores[ranked[0]]);
        }
        weights /= weights.sum();
        Vector sum = Vector::Zero(d_model);
        if (a.shared.score != nullptr) {
          const double score = product(*a.shared.score, x, nullptr)[0];
          const Vector inner = hidden(*a.shared.gate, *a.shared.up, a.activation, x);
          sum = activate(Activation::kSigmoid, score) * product(*a.shared.down, inner, nullptr);
        }
        for (int i = 0; i < a.n_used; ++i) {
          const int expert = ranked[idx(i)];
          const Vector inner = hidden(a.gate->middleRows(expert * d_ff, d_ff),
                                      a.up->middleRows(expert * d_ff, d_ff), a.activation, x);
          sum +=
              weights[i] * product(a.down->middleRows(expert * d_model, d_model), inner, nullptr);
        }
        Eigen::Map<Eigen::VectorXf> to(a.x + row * d_model, d_model);
        to = (to.cast<double>() + sum).cast<float>();
      }
    }

    template <StateStorage V>
    void short_conv(const ShortConvArgs<Worker, V>& a) noexcept {
      const int width = a.shape.width;
      for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
        for (int i = 0; i < a.common.sequences[s].n_rows; ++i) {
          const int row = a.common.sequences[s].first_row + i;
          const Vector in =
              product(*a.in, normalised(a.common.x, row, a.common.norm, a.in->cols()), nullptr);
          const Vector put_in = in.head(width).cwiseProduct(in.tail(width));
          Eigen::Map<Eigen::VectorXf>(a.common.own_row(s, i), width) = put_in.cast<float>();
          const Vector sum = convolved(a.common, s, i, a.shape.kernel, a.kernel, width);
          add_product(*a.out, in.segment(width, width).cwiseProduct(sum), {}, 1.0f, 1.0f,
                      a.common.x, row);
        }
      }
    }

    template <StateStorage V>
    void selective_scan(const SelectiveScanArgs<Worker, V>& a) noexcept {
      const int width = a.shape.width;
      const int d_conv = a.shape.d_conv();
      for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
        const SequenceRows& sequence = a.common.sequences[s];
        const typename V::Layer& kept = a.common.kept[s];
        std::vector<Vector> gates;
        for (int i = 0; i < sequence.n_rows; ++i) {
          const int row = sequence.first_row + i;
          const Vector in =
              product(*a.in, normalised(a.common.x, row, a.common.norm, a.in->cols()), nullptr);
          gates.push_back(in.head(width));
          float* const put_in = a.common.own_row(s, i);
          Eigen::Map<Eigen::VectorXf>(put_in, d_conv) =
              in.segment(width, d_conv).template cast<float>();
          Vector convolved = Worker::convolved(a.common, s, i, a.shape.kernel, a.kernel, d_conv);
          if (a.conv_bias != nullptr) convolved += input(a.conv_bias, 0, d_conv);
          for (int c = 0; c < d_conv; ++c) {
            put_in[d_conv + c] = static_cast<float>(activate(Activation::kSilu, convolved[c]));
          }
          for (int head = 0; head < a.shape.n_heads; ++head) {
            put_in[2 * d_conv + head] =
                static_cast<float>(softplus(in[width + d_conv + head] + a.dt_bias[head]));
          }
        }
        std::vector<Vector> scanned(gates.size(), Vector(width));
        std::vector<float> scratch(idx(a.shape.d_head) * idx(a.shape.d_state));
        for (int head = 0; head < a.shape.n_heads; ++head) {
          kept.walk(sequence, a.common.states[s], kept.whole(head), scratch.data(),
                    [&](float* state, std::int32_t row, int i) {
                      scan_step(a, kept.row(row), head, state, i < 0 ? nullptr : &scanned[idx(i)]);
                    });
        }
        for (int i = 0; i < sequence.n_rows; ++i) {
          Vector y = scanned[idx(i)];
          for (int c = 0; c < width; ++c) y[c] *= activate(Activation::kSilu, gates[idx(i)][c]);
          const int group = width / a.shape.n_groups;
          for (int c = 0; c < width; c += group) {
            const Vector part = y.segment(c, group);
            y.segment(c, group) = normalised(part, {a.group_norm.weight + c, a.group_norm.epsilon});
          }
          add_product(*a.out, y, {}, 1.0f, 1.0f, a.common.x, sequence.first_row + i);
        }
      }
    }

    template <StateStorage V>
    void gated_delta_net(const GatedDeltaNetArgs<Worker, V>& a) noexcept {
      const GatedDeltaNetShape& shape = a.shape;
      const int d_conv = shape.d_conv();
      const int d_key = shape.d_key;
      const int n_key_heads = shape.n_key_heads;
      for (std::size_t s = 0; s < a.common.sequences.size(); ++s) {
        const SequenceRows& sequence = a.common.sequences[s];
        const typename V::Layer& kept = a.common.kept[s];
        std::vector<Vector> gates;
        for (int i = 0; i < sequence.n_rows; ++i) {
          const Vector x =
              normalised(a.common.x, sequence.first_row + i, a.common.norm, a.qkv->cols());
          gates.push_back(product(*a.gate, x, nullptr));
          float* const put_in = a.common.own_row(s, i);
          Eigen::Map<Eigen::VectorXf>(put_in, d_conv) =
              product(*a.qkv, x, nullptr).template cast<float>();
          Vector convolved = Worker::convolved(a.common, s, i, shape.kernel, a.kernel, d_conv);
          for (double& value : convolved) value = activate(Activation::kSilu, value);
          for (int head = 0; head < 2 * n_key_heads; ++head) {
            auto one = convolved.segment(head * d_key, d_key);
            one /= std::sqrt(one.squaredNorm() + double{kLengthEpsilon});
            if (head < n_key_heads) one /= std::sqrt(static_cast<double>(d_key));
          }
          Eigen::Map<Eigen::VectorXf>(put_in + d_conv, d_conv) = convolved.cast<float>();
          const Vector alpha = product(*a.alpha, x, nullptr);
          const Vector beta = product(*a.beta, x, nullptr);
          for (int head = 0; head < shape.n_heads; ++head) {
            float* const of_head = put_in + 2 * d_conv + head;
            of_head[0] = static_cast<float>(
                std::exp(double{a.decay[head]} * softplus(alpha[head] + a.dt_bias[head])));
            of_head[shape.n_heads] = static_cast<float>(activate(Activation::kSigmoid, beta[head]));
          }
        }
        std::vector<Vector> read(gates.size(), Vector(int{shape.width}));
        std::vector<float> scratch(idx(shape.d_key) * idx(shape.d_value));
        for (int head = 0; head < shape.n_heads; ++head) {
          kept.walk(sequence, a.common.states[s], kept.whole(head), scratch.data(),
                    [&](float* state, std::int32_t row, int i) {
                      delta_step(shape, kept.row(row), head, state,
                                 i < 0 ? nullptr : &read[idx(i)]);
                    });
        }
        for (int i = 0; i < sequence.n_rows; ++i) {
          Vector& y = read[idx(i)];
          for (int c = 0; c < shape.width; c += shape.d_value) {
            const Vector one = y.segment(c, shape.d_value);
            y.segment(c, shape.d_value) = normalised(one, a.head_norm);
          }
          for (int c = 0; c < shape.width; ++c)
            y[c] *= activate(Activation::kSilu, gates[idx(i)][c]);
          add_product(*a.out, y, {}, 1.0f, 1.0f, a.common.x, sequence.first_row + i);
        }
      }
    }

    void tap(const TapArgs<Worker>& a) noexcept {
      for (const auto& [row, to] : a.taps) {
        std::copy_n(a.x + std::ptrdiff_t{row} * a.d_model, a.d_model, to);
      }
    }

    void head(const HeadArgs<Worker>& a) noexcept {
      for (std::size_t i = 0; i < a.rows.size(); ++i) {
        Vector logits = product(*a.w, normalised(a.x, a.rows[i], a.norm, a.w->cols()), nullptr);
        logits = (logits * a.scale).unaryExpr([&](double x) { return capped(x, a.softcap); });
        float greatest = -std::numeric_limits<float>::infinity();
        TokenId best = -1;
        bool damaged = false;
        for (Eigen::Index n = 0; n < logits.size(); ++n) {
          const auto value = static_cast<float>(logits[n]);
          if (!a.logits.empty() && a.logits[i] != nullptr) a.logits[i][n] = value;
          if (!a.maxima.empty() && a.maxima[i] != nullptr) {
            float& most = a.maxima[i][idx(n) / Scores::kRun];
            most = idx(n) % Scores::kRun == 0 ? value : std::max(most, value);
          }
          damaged |= std::isnan(value) || value == std::numeric_limits<float>::infinity();
          if (value > greatest) {
            greatest = value;
            best = static_cast<TokenId>(n);
          }
        }
        a.argmax[i] = damaged ? -1 : best;
        if (!a.sums.empty() && a.sums[i].to != nullptr) add_up_runs(logits, a.sums[i]);
      }
    }

   private:
    using Vector = Eigen::VectorXd;

    /// Weights relative to the greatest logit of their run, all of them as the head hands them out.
    static void add_up_runs(const Vector& logits, const SumsOfRuns& sums) {
      constexpr auto kRun = static_cast<Eigen::Index>(Scores::kRun);
      const Eigen::ArrayXd rounded = logits.cast<float>().cast<double>();
      for (Eigen::Index begin = 0; begin < rounded.size(); begin += kRun) {
        const auto run = rounded.segment(begin, std::min(kRun, rounded.size() - begin));
        const double greatest = run.maxCoeff();
        const bool possible = greatest > -std::numeric_limits<double>::infinity();
        sums.to[begin / kRun] =
            possible ? ((run - greatest) / double{sums.temperature}).exp().sum() : 0.0;
      }
    }

    static Vector input(const float* x, int row, Eigen::Index n) {
      return Eigen::Map<const Eigen::VectorXf>(x + row * n, n).cast<double>();
    }

    static Vector normalised(const float* x, int row, const RmsNorm<Worker>& norm, Eigen::Index n) {
      return normalised(input(x, row, n), norm);
    }
    static Vector normalised(const Vector& in, const RmsNorm<Worker>& norm) {
      if (norm.weight == nullptr) return in;
      const double scale =
          1.0 / std::sqrt(in.squaredNorm() / static_cast<double>(in.size()) + norm.epsilon);
      return in.cwiseProduct(input(norm.weight, 0, in.size())) * scale;
    }

    template <typename Rows>
    static Vector product(const Rows& w, const Vector& x, const float* bias) {
      Vector y(w.rows());
      for (Eigen::Index n = 0; n < w.rows(); ++n) {
        y[n] =
            w.row(n).template cast<double>().dot(x.transpose()) + (bias == nullptr ? 0.0 : bias[n]);
      }
      return y;
    }

    /// activation(gate * x)
    template <typename Rows>
    static Vector activated(const Rows& gate, Activation activation, const Vector& x) {
      return product(gate, x, nullptr).unaryExpr([&](double value) {
        return activate(activation, value);
      });
    }

    /// activation(gate * x) .* (up * x)
    template <typename Rows>
    static Vector hidden(const Rows& gate, const Rows& up, Activation activation, const Vector& x) {
      return activated(gate, activation, x).cwiseProduct(product(up, x, nullptr));
    }

    /// x = (x + w * in, or the norm of that, times `residual`) times `output_scale`, of one row of x.
    static void add_product(const Matrix& w, const Vector& in, const RmsNorm<Worker>& norm,
                            float residual, float output_scale, float* x, int row) {
      const Vector y = normalised(product(w, in, nullptr), norm) * residual;
      Eigen::Map<Eigen::VectorXf> sum(x + row * y.size(), y.size());
      sum = ((sum.cast<double>() + y) * output_scale).cast<float>();
    }

    /// One head of all those in x, which are changed in place.
    template <typename R>
    static void turn(const QkvArgs<Worker, R>& a, const RmsNorm<Worker>& norm, int row, int head,
                     Vector& x) {
      const Eigen::Index first = Eigen::Index{head} * a.d_head;
      const Vector one = x.segment(first, a.d_head);
      x.segment(first, a.d_head) = normalised(one, norm);
      rotate(a.rope, row, x.data() + first);
    }

    /// @param head  first dimension of a head, changed in place
    static void rotate(const RopeTable<Worker>& rope, int row, double* head) noexcept {
      const int n_pairs = rope.n_rot / 2;
      for (int i = 0; i < n_pairs; ++i) {
        double& a = rope.kind == RopeKind::kAdjacent ? head[2 * i] : head[i];
        double& b = rope.kind == RopeKind::kAdjacent ? head[2 * i + 1] : head[i + n_pairs];
        const double cos = rope.cos[row * n_pairs + i];
        const double sin = rope.sin[row * n_pairs + i];
        const double turned = a * cos - b * sin;
        b = a * sin + b * cos;
        a = turned;
      }
    }

    /// Row i of a sequence: softmax over the positions that it sees, in their order.
    template <typename R>
    static Vector attend_head(const AttendArgs<Worker, R>& a, const typename R::Layer& kv,
                              const SequenceRows& sequence, int i, int head) {
      const int kv_head = head / (a.n_heads / a.n_kv_heads);
      const int row = sequence.first_row + i;
      const Vector q =
          input(a.q + std::ptrdiff_t{row} * a.n_heads * a.d_head + std::ptrdiff_t{head} * a.d_head,
                0, a.d_head);
      Eigen::VectorXf stored(a.d_head);  // a key or a value
      const std::span<float> values(stored.data(), idx(a.d_head));
      const Position visible = sequence.visible(i);
      const Position first = a.window == 0 ? 0 : std::max(0, visible - a.window);
      std::vector<Position> seen(idx(std::min<int>(kv.sinks, first)));
      std::iota(seen.begin(), seen.end(), 0);
      for (Position p = first; p < visible; ++p) seen.push_back(p);
      Vector weights(static_cast<Eigen::Index>(seen.size()));
      for (std::size_t n = 0; n < seen.size(); ++n) {
        kv.get_key(kv_head, sequence.row_of(i, seen[n]), values);
        weights[static_cast<Eigen::Index>(n)] =
            capped(stored.cast<double>().dot(q) * a.scale, a.softcap);
      }
      weights = (weights.array() - weights.maxCoeff<Eigen::PropagateNaN>()).exp();
      weights /= weights.sum();
      Vector sums = Vector::Zero(a.d_head);
      for (std::size_t n = 0; n < seen.size(); ++n) {
        kv.get_value(kv_head, sequence.row_of(i, seen[n]), values);
        sums += weights[static_cast<Eigen::Index>(n)] * stored.cast<double>();
      }
      return sums;
    }

    static double capped(double x, float softcap) noexcept {
      return softcap == 0.0f ? x : double{softcap} * std::tanh(x / double{softcap});
    }

    /// The first `width` values that row i and those before it put in, weighted.
    /// @shape kernel [n, width]
    template <StateStorage V>
    static Vector convolved(const RecurrentArgs<Worker, V>& a, std::size_t s, int i, int n,
                            const float* kernel, int width) {
      Vector sum = Vector::Zero(width);
      for (int back = n - 1; back >= 0; --back) {
        const float* const values =
            back == 0 ? a.own_row(s, i)
                      : a.kept[s].row(a.states[s].before(a.sequences[s], i, back));
        if (values == nullptr) continue;  // before the beginning there are zeros
        sum += input(values, 0, width).cwiseProduct(input(kernel, n - 1 - back, width));
      }
      return sum;
    }

    /// The state of a head takes in what a token put in. @param to  all heads of a row, or null
    template <StateStorage V>
    static void scan_step(const SelectiveScanArgs<Worker, V>& a, const float* put_in, int head,
                          float* state, Vector* to) {
      const int n = a.shape.d_state;
      const int d_conv = a.shape.d_conv();
      const int d_head = a.shape.d_head;
      const int n_groups = a.shape.n_groups;
      const int group = head / (a.shape.n_heads / n_groups);
      const float* const u = put_in + d_conv + head * d_head;
      const float* const b = put_in + d_conv + a.shape.width + group * n;
      const float* const c = b + n_groups * n;
      const double dt = put_in[2 * d_conv + head];
      for (int p = 0; p < d_head; ++p) {
        double sum = 0;
        for (int k = 0; k < n; ++k) {
          float& value = state[p * n + k];
          value = static_cast<float>(std::exp(dt * a.decay[head]) * value + dt * u[p] * b[k]);
          sum += double{value} * c[k];
        }
        if (to != nullptr) (*to)[head * d_head + p] = sum + double{a.skip[head]} * u[p];
      }
    }

    /// Likewise, of a gated delta net.
    static void delta_step(const GatedDeltaNetShape& shape, const float* put_in, int head,
                           float* state, Vector* to) {
      using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
      const int d_conv = shape.d_conv();
      const int d_key = shape.d_key;
      const int d_value = shape.d_value;
      const int all_keys = int{shape.n_key_heads} * d_key;
      const float* const q = put_in + d_conv + shape.key_head(head) * d_key;
      const Vector query = input(q, 0, d_key);
      const Vector key = input(q + all_keys, 0, d_key);
      const Vector value = input(put_in + d_conv + 2 * all_keys, head, d_value);
      const double decay = put_in[2 * d_conv + head];
      const double beta = put_in[2 * d_conv + shape.n_heads + head];
      Eigen::Map<Rows> kept(state, d_key, d_value);
      Eigen::MatrixXd next = kept.template cast<double>() * decay;
      const Vector correction = beta * (value - next.transpose() * key);
      next += key * correction.transpose();
      kept = next.cast<float>();
      if (to == nullptr) return;
      to->segment(head * d_value, d_value) = kept.template cast<double>().transpose() * query;
    }

    /// log(1 + exp(t)); from 20 on the sum rounds to t.
    static double softplus(double t) noexcept { return t > 20 ? t : std::log1p(std::exp(t)); }

    static double activate(Activation activation, double x) noexcept {
      if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
      if (activation == Activation::kReluSquared) return x > 0 || std::isnan(x) ? x * x : 0.0;
      if (activation == Activation::kSigmoid) return 1 / (1 + std::exp(-x));
      const double sqrt_2_over_pi = 0.79788456080286535588;
      return 0.5 * x * (1 + std::tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
    }
  };

  /// @errors kShapeMismatch
  Matrix pack(const TensorView& weights) const {
    const std::vector<float> values = dequantized(weights);
    return Eigen::Map<const Matrix>(values.data(), static_cast<Eigen::Index>(weights.n_out),
                                    static_cast<Eigen::Index>(weights.n_in));
  }

  /// @errors kShapeMismatch
  Vector vector(const TensorView& weights) const { return dequantized_vector(weights); }

  template <typename Body>
  void run(const PassShape&, Body&& body) {
    Worker worker;
    body(worker);
  }
};

static_assert(Backend<Reference> && MixesExperts<Reference::Worker>);
static_assert(RecursOver<Reference::Worker, Slots> && RecursOver<Reference::Worker, Replay>);

}  // namespace foredraft::inline v0
