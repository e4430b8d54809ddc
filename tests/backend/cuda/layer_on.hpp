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
    const mini::Config& c = config_;
    const auto n = idx(n_rows);
    const auto d_model = idx(shape().d_model);
    std::vector<fd::TokenId> tokens;
    std::vector<std::int32_t> rows;
    std::vector<float> cos, sin;
    for (int i = 0; i < n_rows; ++i) {
      tokens.push_back(cache_.token(first + i));
      rows.push_back(i);
      for (int pair = 0; pair < n_rot() / 2; ++pair) {
        const float angle = static_cast<float>(cache_.position(first + i)) /
                            std::pow(100.0f, static_cast<float>(pair) / 8.0f);
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
    }
    const std::vector<fd::SequenceRows> sequences{cache_.rows(first, n_rows, 0)};
    const std::vector<typename R::Layer> kv{cache_.layer(0)};
    const auto n_runs = (idx(c.n_vocab) + fd::Scores::kRun - 1) / fd::Scores::kRun;
    Outputs out{std::vector<float>(n * d_model),        std::vector<float>(n * idx(shape().d_q)),
                std::vector<float>(n * d_model),        std::vector<float>(n * d_model),
                std::vector<float>(n * idx(c.n_vocab)), std::vector<float>(n * n_runs),
                std::vector<double>(n * n_runs),        std::vector<fd::TokenId>(n)};
    std::vector<float*> logits, maxima;
    std::vector<fd::SumsOfRuns> sums;
    for (std::size_t i = 0; i < n; ++i) {
      logits.push_back(out.logits.data() + i * idx(c.n_vocab));
      maxima.push_back(out.maxima.data() + i * n_runs);
      sums.push_back({out.sums.data() + i * n_runs, temperature});
    }
    const fd::Out<Worker> x = x_.reserve(n * d_model);
    const fd::Out<Worker> q = q_.reserve(n * idx(shape().d_q));
    const fd::Out<Worker> gate = gate_.reserve(n * idx(shape().d_q));
    const fd::RopeTable<Worker> rope{c.rope, n_rot(), cos_.write(cos), sin_.write(sin)};
    const auto vector = [&](std::size_t i) { return fd::In<Worker>(vectors_[i].reserve(0)); };
    const auto norm = [&](std::size_t i, bool there = true) {
      return there ? fd::RmsNorm<Worker>{vector(i), 1e-5f} : fd::RmsNorm<Worker>{};
    };
    fd::PassShape pass = shape();
    pass.n_rows = n_rows;
    backend_.run(pass, [&](Worker& worker) noexcept {
      worker.embed(fd::EmbedArgs<Worker>{&matrices_[0], tokens, 1.5f, x});
      hand_out(worker, x, shape().d_model, out.embedded);
      worker.qkv(fd::QkvArgs<Worker, R>{.x = x,
                                        .n_rows = n_rows,
                                        .norm = norm(3, !c.scales),
                                        .wq = &matrices_[1],
                                        .wk = &matrices_[2],
                                        .wv = &matrices_[3],
                                        .q_bias = c.bias ? vector(0) : fd::In<Worker>(nullptr),
                                        .k_bias = c.bias ? vector(1) : fd::In<Worker>(nullptr),
                                        .v_bias = c.bias ? vector(2) : fd::In<Worker>(nullptr),
                                        .n_heads = c.n_heads(),
                                        .n_kv_heads = c.n_kv_heads(),
                                        .d_head = shape().d_head,
                                        .rope = rope,
                                        .sequences = sequences,
                                        .kv = kv,
                                        .q = q,
                                        .q_norm = norm(c.scales ? 10 : 8, c.norms || c.scales),
                                        .k_norm = norm(c.scales ? 11 : 9, c.norms || c.scales),
                                        .norms_all_heads = c.scales,
                                        .w_gate = c.norms ? &matrices_[1] : nullptr,
                                        .gate = gate});
      hand_out(worker, q, shape().d_q, out.q);
      worker.attend(fd::AttendArgs<Worker, R>{.q = q,
                                              .n_rows = n_rows,
                                              .n_heads = c.n_heads(),
                                              .n_kv_heads = c.n_kv_heads(),
                                              .d_head = shape().d_head,
                                              .scale = 0.2f,
                                              .sequences = sequences,
                                              .kv = kv,
                                              .wo = &matrices_[4],
                                              .x = x,
                                              .window = c.window,
                                              .post_norm = norm(4, c.norms),
                                              .softcap = c.scales ? 2.0f : 0.0f,
                                              .residual = c.scales ? 0.7f : 1.0f,
                                              .gate = c.norms ? gate : nullptr});
      hand_out(worker, x, shape().d_model, out.attended);
      worker.feed_forward(fd::FeedForwardArgs<Worker>{.x = x,
                                                      .n_rows = n_rows,
                                                      .norm = norm(5, !c.scales),
                                                      .activation = c.activation,
                                                      .gate = &matrices_[5],
                                                      .up = &matrices_[6],
                                                      .down = &matrices_[7],
                                                      .post_norm = norm(6, c.norms),
                                                      .residual = c.scales ? 0.3f : 1.0f});
      hand_out(worker, x, shape().d_model, out.fed);
      worker.head(fd::HeadArgs<Worker>{.x = x,
                                       .rows = rows,
                                       .norm = norm(7),
                                       .w = &matrices_[8],
                                       .argmax = out.argmax,
                                       .logits = logits,
                                       .maxima = maxima,
                                       .sums = sums,
                                       .scale = c.scales ? 0.5f : 1.0f,
                                       .softcap = c.scales ? 1.5f : 0.0f});
    });
    return out;
  }

 private:
  static constexpr int kMostRows = 70;  // of a pass

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
