#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/backend/key_blocks.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// The backend that others are measured by: one lane, weights as floats, all sums and functions in
/// double, inputs never quantized. Written to be obviously right.
class Reference {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  class Lane {
   public:
    int index() const noexcept { return 0; }
    int count() const noexcept { return 1; }
    void barrier() noexcept {}

    void embed(const EmbedArgs<Matrix>& a) noexcept {
      for (int row = 0; row < a.n_rows; ++row) {
        for (int i = 0; i < a.table->cols(); ++i) {
          a.x[row * a.table->cols() + i] = (*a.table)(a.tokens[row], i) * a.scale;
        }
      }
    }

    template <typename T>
    void qkv(const QkvArgs<Matrix, T>& a) noexcept {
      for (std::size_t s = 0; s < a.sequences.size(); ++s) {
        const SequenceRows& sequence = a.sequences[s];
        const KvLayer<T>& kv = a.kv[s];
        std::vector<T> block(at(kKeyBlock * row_elements<T>(a.d_head)));
        for (int head = 0; head < a.n_kv_heads; ++head) {
          complete_key_blocks(kv.k + at(head) * kv.head_stride, a.d_head, kv.in_blocks, kv.size,
                              block.data());
        }
        for (int i = 0; i < sequence.n_rows; ++i) {
          const int row = sequence.first_row + i;
          const Vector x = normalised(a.x, row, a.norm, a.wq->cols());
          Vector q = product(*a.wq, x, a.q_bias);
          Vector k = product(*a.wk, x, a.k_bias);
          const Vector v = product(*a.wv, x, a.v_bias);
          for (int head = 0; head < a.n_heads; ++head)
            rotate(a.rope, row, q.data() + head * a.d_head);
          for (int head = 0; head < a.n_kv_heads; ++head)
            rotate(a.rope, row, k.data() + head * a.d_head);
          for (Eigen::Index d = 0; d < q.size(); ++d) {
            a.q[row * q.size() + d] = static_cast<float>(q[d]);
          }
          const int place = sequence.size + sequence.first_node + i;
          for (int head = 0; head < a.n_kv_heads; ++head) {
            const std::size_t first =
                at(head) * kv.head_stride + at(place) * at(row_elements<T>(a.d_head));
            const Eigen::Index d = static_cast<Eigen::Index>(head) * a.d_head;
            store(k.segment(d, a.d_head), kv.k + first);
            store(v.segment(d, a.d_head), kv.v + first);
          }
        }
      }
    }

    template <typename T>
    void attend(const AttendArgs<Matrix, T>& a) noexcept {
      for (std::size_t s = 0; s < a.sequences.size(); ++s) {
        const SequenceRows& sequence = a.sequences[s];
        for (int i = 0; i < sequence.n_rows; ++i) {
          // Where the positions that this row sees are stored.
          std::vector<int> stored;
          const int staged = sequence.chain()
                                 ? sequence.first_node + i + 1
                                 : sequence.path_begin[at(i) + 1] - sequence.path_begin[at(i)];
          for (int p = 0; p < sequence.size; ++p) stored.push_back(p);
          for (int p = 0; p < staged; ++p) {
            stored.push_back(sequence.chain() ? sequence.size + p
                                              : sequence.path[at(sequence.path_begin[at(i)] + p)]);
          }
          const int row = sequence.first_row + i;
          Vector attended(a.n_heads * a.d_head);
          for (int head = 0; head < a.n_heads; ++head) {
            attended.segment(head * a.d_head, a.d_head) =
                attend_head(a, a.kv[s], stored, row, head);
          }
          add_product(*a.wo, attended, a.x, row);
        }
      }
    }

    void feed_forward(const FeedForwardArgs<Matrix>& a) noexcept {
      for (int row = 0; row < a.n_rows; ++row) {
        const Vector x = normalised(a.x, row, a.norm, a.gate->cols());
        const Vector gate = product(*a.gate, x, nullptr);
        const Vector up = product(*a.up, x, nullptr);
        Vector hidden(gate.size());
        for (Eigen::Index n = 0; n < gate.size(); ++n) {
          hidden[n] = activate(a.activation, gate[n]) * up[n];
        }
        add_product(*a.down, hidden, a.x, row);
      }
    }

    void head(const HeadArgs<Matrix>& a) noexcept {
      for (std::size_t i = 0; i < a.rows.size(); ++i) {
        const Vector logits =
            product(*a.w, normalised(a.x, a.rows[i], a.norm, a.w->cols()), nullptr);
        float greatest = -std::numeric_limits<float>::infinity();
        TokenId best = -1;
        bool damaged = false;
        for (Eigen::Index n = 0; n < logits.size(); ++n) {
          const auto value = static_cast<float>(logits[n]);
          if (!a.logits.empty() && a.logits[i] != nullptr) a.logits[i][n] = value;
          if (!a.maxima.empty() && a.maxima[i] != nullptr) {
            float& most = a.maxima[i][static_cast<std::size_t>(n) / Scores::kRun];
            most = static_cast<std::size_t>(n) % Scores::kRun == 0 ? value : std::max(most, value);
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

    static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }

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

    static Vector normalised(const float* x, int row, const RmsNorm& norm, Eigen::Index n) {
      const Vector in = input(x, row, n);
      const double scale =
          1.0 / std::sqrt(in.squaredNorm() / static_cast<double>(n) + norm.epsilon);
      return in.cwiseProduct(input(norm.weight, 0, n)) * scale;
    }

    static Vector product(const Matrix& w, const Vector& x, const float* bias) {
      Vector y(w.rows());
      for (Eigen::Index n = 0; n < w.rows(); ++n) {
        y[n] = w.row(n).cast<double>().dot(x.transpose()) + (bias == nullptr ? 0.0 : bias[n]);
      }
      return y;
    }

    /// x += w * in, of one row of x.
    static void add_product(const Matrix& w, const Vector& in, float* x, int row) {
      const Vector y = product(w, in, nullptr);
      Eigen::Map<Eigen::VectorXf> sum(x + row * y.size(), y.size());
      sum = (sum.cast<double>() + y).cast<float>();
    }

    /// @param head  first dimension of a head, changed in place
    static void rotate(const RopeTable& rope, int row, double* head) noexcept {
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

    template <typename T>
    static Vector attend_head(const AttendArgs<Matrix, T>& a, const KvLayer<T>& kv,
                              const std::vector<int>& stored, int row, int head) {
      const std::ptrdiff_t kv_head = head / (a.n_heads / a.n_kv_heads);
      const auto begin = kv_head * static_cast<std::ptrdiff_t>(kv.head_stride);
      const float* q = a.q + std::ptrdiff_t{row} * a.n_heads * a.d_head + head * a.d_head;
      Vector weights(static_cast<Eigen::Index>(stored.size()));
      for (std::size_t p = 0; p < stored.size(); ++p) {
        const Vector key = key_of(kv.k + begin, stored[p], a.d_head, kv.size);
        weights[static_cast<Eigen::Index>(p)] = key.dot(input(q, 0, a.d_head)) * a.scale;
      }
      weights = (weights.array() - weights.maxCoeff<Eigen::PropagateNaN>()).exp();
      weights /= weights.sum();
      Vector sums = Vector::Zero(a.d_head);
      for (std::size_t p = 0; p < stored.size(); ++p) {
        const T* v = kv.v + begin + std::ptrdiff_t{stored[p]} * row_elements<T>(a.d_head);
        sums += weights[static_cast<Eigen::Index>(p)] * values_of(v, a.d_head);
      }
      return sums;
    }

    /// Write a row in the storage format of the cache.
    template <typename T>
    static void store(const Vector& row, T* to) {
      const Eigen::VectorXf values = row.cast<float>();
      constexpr int n = kValuesPerElement<T>;
      for (int d = 0; d < values.size(); d += n, ++to) {
        if constexpr (n == 1) *to = static_cast<T>(values[d]);
        if constexpr (n != 1) *to = T(values.data() + d);
      }
    }

    template <typename T>
    static Vector values_of(const T* row, int d_head) {
      Vector values(d_head);
      constexpr int n = kValuesPerElement<T>;
      for (int d = 0; d < d_head; ++d) {
        if constexpr (n == 1) values[d] = static_cast<double>(static_cast<float>(row[d]));
        if constexpr (n != 1) values[d] = static_cast<double>(row[d / n][d % n]);
      }
      return values;
    }

    /// The key in a storage row of a head whose keys begin at `keys`.
    template <typename T>
    static Vector key_of(const T* keys, int row, int d_head, Position size) {
      std::vector<T> key(at(row_elements<T>(d_head)));
      if constexpr (kValuesPerElement<T> == 1) {
        for (int d = 0; d < d_head; ++d) key[at(d)] = keys[key_place(row, d, d_head, size)];
      } else {
        const std::ptrdiff_t n = row_elements<T>(d_head);
        if (row >= positions_in_key_blocks(size)) return values_of(keys + row * n, d_head);
        std::vector<T> rows(at(kKeyBlock) * key.size());
        key_block_to_rows(keys + row / kKeyBlock * kKeyBlock * n, d_head, rows.data());
        std::copy_n(rows.begin() + row % kKeyBlock * n, n, key.begin());
      }
      return values_of(key.data(), d_head);
    }

    static double activate(Activation activation, double x) noexcept {
      if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
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
  std::vector<float> vector(const TensorView& weights) const { return dequantized_vector(weights); }

  template <typename Body>
  void run(const PassShape&, Body&& body) {
    Lane lane;
    body(lane);
  }
};

static_assert(Backend<Reference>);

}  // namespace foredraft::inline v0
