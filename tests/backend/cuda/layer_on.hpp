#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>

#include "backend/mini_model.hpp"

/// One layer between an embedding and a head, on a backend whose memory the host may not read: what
/// each operator computes is handed out by the operator `tap`.
namespace layer_on {

namespace fd = foredraft;
using fd::idx;

/// What the operators computed. @shape [rows, ...]
struct Outputs {
  std::vector<float> embedded, q, attended, fed, logits, maxima;
  std::vector<double> sums;
  std::vector<fd::TokenId> argmax;
};

/// @tparam S  what the cache is asked for
template <typename B, typename S, typename C = fd::LinearCache<S>>
class Layer {
  using Worker = typename B::Worker;
  using R = fd::RowsIn<S>;
  using Vector = typename B::template Buffer<float>;

 public:
  Layer(B& backend, const mini::Config& config, int sinks = 0)
      : backend_(backend), config_(config), cache_(cache_shape(sinks), 300, kMostRows) {
    const int d_q = shape().d_q, d_kv = shape().d_kv, d_model = shape().d_model,
              d_ff = shape().d_ff;
    const std::pair<int, int> shapes[] = {
        {config.n_vocab, d_model}, {d_q, d_model},  {d_kv, d_model},
        {d_kv, d_model},           {d_model, d_q},  {d_ff, d_model},
        {d_ff, d_model},           {d_model, d_ff}, {config.n_vocab, d_model}};
    unsigned seed = 0;
    for (const auto& [n_out, n_in] : shapes) {
      const fd::TensorType type = config.types[matrices_.size()];
      matrices_.push_back(backend.pack(mini::weights(type, n_out, n_in, ++seed).view()));
    }
    for (const int n : {d_q, d_kv, d_kv, d_model, d_model, d_model, d_model, d_model}) {
      vectors_.emplace_back();
      const auto values = mini::normals(idx(n), ++seed, 0.3f);
      (void)vectors_.back().write(values);
    }
    for (const int n : {int{shape().d_head}, int{shape().d_head}, d_q, d_kv}) {
      vectors_.emplace_back();
      (void)vectors_.back().write(mini::normals(idx(n), ++seed, 1.0f));
    }
  }

  C& cache() { return cache_; }

  /// Stage nodes and forward those from the first on.
  Outputs forward(const std::vector<fd::Node>& nodes, float temperature = 0.8f) {
    cache_.stage(nodes);
    Outputs out = forward_staged(0, cache_.staged(), temperature);
    cache_.discard();
    return out;
  }
  /// A chain that becomes part of the text.
  void commit(const std::vector<fd::TokenId>& tokens) {
    std::vector<fd::Node> nodes;
    std::vector<fd::NodeIndex> path;
    for (const fd::TokenId token : tokens) {
      path.push_back(static_cast<int>(nodes.size()));
      nodes.push_back({token, path.back() - 1});
    }
    cache_.stage(nodes);
    (void)forward_staged(0, cache_.staged(), 1.0f);
    cache_.commit(path);
  }

  /// Rows of all that are staged, from `first` on.
  Outputs forward_staged(int first, int n_rows, float temperature) {
    Pass pass = rows_of(first, n_rows);
    make_room(pass, temperature);
    fd::PassShape most = shape();
    most.n_rows = n_rows;
    Outputs& out = pass.out;
    backend_.run(most, [&](Worker& worker) noexcept {
      worker.embed(fd::EmbedArgs<Worker>{&matrices_[0], pass.tokens, 1.5f, pass.x});
      hand_out(worker, pass.x, shape().d_model, out.embedded);
      worker.qkv(qkv_args(pass));
      hand_out(worker, pass.q, shape().d_q, out.q);
      worker.attend(attend_args(pass));
      hand_out(worker, pass.x, shape().d_model, out.attended);
      worker.feed_forward(feed_forward_args(pass));
      hand_out(worker, pass.x, shape().d_model, out.fed);
      worker.head(head_args(pass));
    });
    return std::move(out);
  }

 private:
  static constexpr int kMostRows = 70;  // of a pass

  /// What operators are handed, which has to live until they have run.
  struct Pass {
    int n_rows = 0;
    std::vector<fd::TokenId> tokens = {};
    std::vector<std::int32_t> rows = {};
    std::vector<float> cos = {}, sin = {};
    std::vector<fd::SequenceRows> sequences = {};
    std::vector<typename R::Layer> kv = {};
    fd::RopeTable<Worker> rope = {};
    fd::Out<Worker> x = nullptr, q = nullptr, gate = nullptr;
    Outputs out = {};
    std::vector<float*> logits = {}, maxima = {};  // of each row in `out`
    std::vector<fd::SumsOfRuns> sums = {};
  };

  Pass rows_of(int first, int n_rows) {
    Pass pass;
    pass.n_rows = n_rows;
    for (int i = 0; i < n_rows; ++i) {
      pass.tokens.push_back(cache_.token(first + i));
      pass.rows.push_back(i);
      for (int pair = 0; pair < n_rot() / 2; ++pair) {
        const float angle = static_cast<float>(cache_.position(first + i)) /
                            std::pow(100.0f, static_cast<float>(pair) / 8.0f);
        pass.cos.push_back(std::cos(angle));
        pass.sin.push_back(std::sin(angle));
      }
    }
    pass.sequences.push_back(cache_.rows(first, n_rows, 0));
    pass.kv.push_back(cache_.layer(0));
    return pass;
  }

  void make_room(Pass& pass, float temperature) {
    const auto n = idx(pass.n_rows);
    const auto d_model = idx(shape().d_model), d_q = idx(shape().d_q);
    const auto n_vocab = idx(config_.n_vocab);
    const auto n_runs = (n_vocab + fd::Scores::kRun - 1) / fd::Scores::kRun;
    pass.out = Outputs{std::vector<float>(n * d_model), std::vector<float>(n * d_q),
                       std::vector<float>(n * d_model), std::vector<float>(n * d_model),
                       std::vector<float>(n * n_vocab), std::vector<float>(n * n_runs),
                       std::vector<double>(n * n_runs), std::vector<fd::TokenId>(n)};
    for (std::size_t i = 0; i < n; ++i) {
      pass.logits.push_back(pass.out.logits.data() + i * n_vocab);
      pass.maxima.push_back(pass.out.maxima.data() + i * n_runs);
      pass.sums.push_back({pass.out.sums.data() + i * n_runs, temperature});
    }
    pass.x = x_.reserve(n * d_model);
    pass.q = q_.reserve(n * d_q);
    pass.gate = gate_.reserve(n * d_q);
    pass.rope =
        fd::RopeTable<Worker>{config_.rope, n_rot(), cos_.write(pass.cos), sin_.write(pass.sin)};
  }

  fd::In<Worker> vector(std::size_t i) { return fd::In<Worker>(vectors_[i].reserve(0)); }
  fd::In<Worker> bias(std::size_t i) { return config_.bias ? vector(i) : fd::In<Worker>(nullptr); }
  fd::RmsNorm<Worker> norm(std::size_t i, bool there = true) {
    return there ? fd::RmsNorm<Worker>{vector(i), 1e-5f} : fd::RmsNorm<Worker>{};
  }

  fd::QkvArgs<Worker, R> qkv_args(const Pass& pass) {
    const mini::Config& c = config_;
    return {.x = pass.x,
            .n_rows = pass.n_rows,
            .norm = norm(3, !c.scales),
            .wq = &matrices_[1],
            .wk = &matrices_[2],
            .wv = &matrices_[3],
            .q_bias = bias(0),
            .k_bias = bias(1),
            .v_bias = bias(2),
            .n_heads = c.n_heads(),
            .n_kv_heads = c.n_kv_heads(),
            .d_head = shape().d_head,
            .rope = pass.rope,
            .sequences = pass.sequences,
            .kv = pass.kv,
            .q = pass.q,
            .q_norm = norm(c.scales ? 10 : 8, c.norms || c.scales),
            .k_norm = norm(c.scales ? 11 : 9, c.norms || c.scales),
            .norms_all_heads = c.scales,
            .w_gate = c.norms ? &matrices_[1] : nullptr,
            .gate = pass.gate};
  }

  fd::AttendArgs<Worker, R> attend_args(const Pass& pass) {
    const mini::Config& c = config_;
    return {.q = pass.q,
            .n_rows = pass.n_rows,
            .n_heads = c.n_heads(),
            .n_kv_heads = c.n_kv_heads(),
            .d_head = shape().d_head,
            .scale = 0.2f,
            .sequences = pass.sequences,
            .kv = pass.kv,
            .wo = &matrices_[4],
            .x = pass.x,
            .window = c.window,
            .post_norm = norm(4, c.norms),
            .softcap = c.scales ? 2.0f : 0.0f,
            .residual = c.scales ? 0.7f : 1.0f,
            .gate = c.norms ? pass.gate : nullptr};
  }

  fd::FeedForwardArgs<Worker> feed_forward_args(const Pass& pass) {
    const mini::Config& c = config_;
    return {.x = pass.x,
            .n_rows = pass.n_rows,
            .norm = norm(5, !c.scales),
            .activation = c.activation,
            .gate = &matrices_[5],
            .up = &matrices_[6],
            .down = &matrices_[7],
            .post_norm = norm(6, c.norms),
            .residual = c.scales ? 0.3f : 1.0f};
  }

  fd::HeadArgs<Worker> head_args(Pass& pass) {
    const mini::Config& c = config_;
    return {.x = pass.x,
            .rows = pass.rows,
            .norm = norm(7),
            .w = &matrices_[8],
            .argmax = pass.out.argmax,
            .logits = pass.logits,
            .maxima = pass.maxima,
            .sums = pass.sums,
            .scale = c.scales ? 0.5f : 1.0f,
            .softcap = c.scales ? 1.5f : 0.0f};
  }

  fd::CacheShape cache_shape(int sinks) const {
    fd::CacheShape all({{config_.n_kv_heads(), shape().d_head, config_.window}}, 300);
    all.sinks = sinks;
    return all;
  }
  const fd::PassShape& shape() const { return config_.shape; }
  int n_rot() const { return config_.shape.d_head / 4 * 2; }  // half of a head does not turn

  static void hand_out(Worker& worker, fd::In<Worker> x, int n, std::vector<float>& to) noexcept {
    std::vector<fd::Tap> taps;
    for (std::size_t row = 0; row < to.size() / idx(n); ++row) {
      taps.push_back({static_cast<int>(row), to.data() + row * idx(n)});
    }
    worker.tap(fd::TapArgs<Worker>{.x = x, .d_model = n, .taps = taps});
  }

  B& backend_;
  mini::Config config_;
  C cache_;
  std::vector<typename B::Matrix> matrices_;
  std::vector<Vector> vectors_;
  Vector x_, q_, gate_, cos_, sin_;
};

}  // namespace layer_on
