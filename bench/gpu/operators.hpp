#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "support/tiny_model.hpp"

namespace bench {

/// The operators of a layer and the head, each by itself: the same one follows itself many times, so that
/// what is measured is the operator, and not how long a pass takes to begin and to end. Each call has weights
/// of its own, as in a model: else those of a small one would come from the GPU's cache. The head hands out
/// its result in each call, which is a part of its time.
/// @tparam B, R  a backend over a device, and its storage of rows in f16
template <typename B, typename R>
class Operators {
  using Worker = typename B::Worker;
  using Cache = foredraft::LinearCache<R>;

 public:
  static constexpr int kTimes = 50;
  static constexpr double kBeyondCaches = 256e6;  // bytes

  struct Operator {
    std::string name;
    double bytes = 0;  // of weights, or of keys and values
    double seconds = 0;
  };

  Operators(B& backend, const TinyModel& model, int context)
      : backend_(backend),
        model_(model),
        d_q_(model.n_heads * model.d_head),
        d_kv_(model.n_kv_heads * model.d_head),
        cache_({1, model.n_kv_heads, model.d_head, context + 64}, context + 64, 64) {
    const auto here = foredraft::scope_of(backend);
    std::vector<kernels_under_test::FileMatrix> files;
    for (const auto& [n_out, n_in] :
         std::initializer_list<std::pair<int, int>>{{d_q_, model.d_model},
                                                    {d_kv_, model.d_model},
                                                    {d_kv_, model.d_model},
                                                    {model.d_model, d_q_},
                                                    {model.d_ff, model.d_model},
                                                    {model.d_ff, model.d_model},
                                                    {model.d_model, model.d_ff},
                                                    {model.n_vocab, model.d_model}}) {
      files.push_back(kernels_under_test::random_matrix(model.type, foredraft::idx(n_out),
                                                        foredraft::idx(n_in), 1));
      bytes_.push_back(
          foredraft::cuda::bytes_of(model.type, foredraft::idx(n_out), foredraft::idx(n_in)));
    }
    const int copies = std::clamp(static_cast<int>(kBeyondCaches / bytes_[3]), 1, kTimes);
    for (int i = 0; i < copies; ++i) {
      layers_.emplace_back();
      for (std::size_t m = 0; m + 1 < files.size(); ++m)
        layers_.back().push_back(backend.pack(files[m].view()));
    }
    head_ = backend.pack(files.back().view());
    ones_ = norm_.write(std::vector<float>(foredraft::idx(model.d_model), 1.0f));
    fill_cache(context);
  }

  /// Each of them once, for one row.
  std::vector<Operator> measure(auto&& seconds_of) {
    const double kv = 2.0 * d_kv_ * cache_.size() * sizeof(foredraft::f16);
    return {
        {"qkv", bytes_[0] + bytes_[1] + bytes_[2], seconds_of([&] { run(1, &Operators::qkv); })},
        {"attend, output", bytes_[3] + kv, seconds_of([&] { run(1, &Operators::attend); })},
        {"feed-forward", bytes_[4] + bytes_[5] + bytes_[6],
         seconds_of([&] { run(1, &Operators::feed_forward); })},
        {"head, argmax", bytes_[7], seconds_of([&] { run(1, &Operators::head); })}};
  }

 private:
  using Call = void (Operators::*)(Worker&, int) noexcept;

  void fill_cache(int context) {
    std::vector<foredraft::Node> nodes;
    for (int i = 0; i < 64; ++i) nodes.push_back({1, i - 1});
    const std::vector<foredraft::NodeIndex> path = foredraft::first_nodes(64);
    while (cache_.size() < context) {
      cache_.stage(nodes);
      run(64, &Operators::qkv, 1);  // writes keys and values
      cache_.commit(path);
    }
    cache_.stage(std::span(nodes).first(1));
  }

  /// One pass with `times` calls.
  void run(int n_rows, Call call, int times = kTimes) {
    const auto here = foredraft::scope_of(backend_);
    const auto n = foredraft::idx(n_rows);
    const auto half = n * foredraft::idx(model_.d_head / 2);
    x_ = x_buffer_.write(std::vector<float>(n * foredraft::idx(model_.d_model), 0.5f));
    to_ = x_buffer_.reserve(0);
    cos_ = cos_buffer_.write(std::vector<float>(half, 1.0f));
    sin_ = sin_buffer_.write(std::vector<float>(half, 0.0f));
    q_ = q_buffer_.write(std::vector<float>(n * foredraft::idx(d_q_), 0.5f));
    sequences_.assign(1, cache_.rows(0, n_rows, 0));
    kv_.assign(1, cache_.layer(0));
    backend_.run({.n_rows = n_rows,
                  .d_model = model_.d_model,
                  .d_ff = model_.d_ff,
                  .d_q = d_q_,
                  .d_kv = d_kv_,
                  .d_head = model_.d_head},
                 [&](Worker& worker) noexcept {
                   for (int i = 0; i < times; ++i) {
                     w_ = layers_[foredraft::idx(i) % layers_.size()].data();
                     (this->*call)(worker, n_rows);
                   }
                 });
  }

  foredraft::RmsNorm<Worker> norm() const { return {ones_, 1e-5f}; }

  void qkv(Worker& worker, int n_rows) noexcept {
    worker.qkv(foredraft::QkvArgs<Worker, R>{
        .x = x_,
        .n_rows = n_rows,
        .norm = norm(),
        .wq = &w_[0],
        .wk = &w_[1],
        .wv = &w_[2],
        .n_heads = model_.n_heads,
        .n_kv_heads = model_.n_kv_heads,
        .d_head = model_.d_head,
        .rope = {foredraft::RopeKind::kHalves, model_.d_head, cos_, sin_},
        .sequences = sequences_,
        .kv = kv_,
        .q = q_buffer_.reserve(0)});
  }
  void attend(Worker& worker, int n_rows) noexcept {
    worker.attend(foredraft::AttendArgs<Worker, R>{
        .q = q_,
        .n_rows = n_rows,
        .n_heads = model_.n_heads,
        .n_kv_heads = model_.n_kv_heads,
        .d_head = model_.d_head,
        .scale = 1.0f / std::sqrt(static_cast<float>(model_.d_head)),
        .sequences = sequences_,
        .kv = kv_,
        .wo = &w_[3],
        .x = to_});
  }
  void feed_forward(Worker& worker, int n_rows) noexcept {
    worker.feed_forward(
        foredraft::FeedForwardArgs<Worker>{.x = to_,
                                           .n_rows = n_rows,
                                           .norm = norm(),
                                           .activation = foredraft::Activation::kSilu,
                                           .gate = &w_[4],
                                           .up = &w_[5],
                                           .down = &w_[6]});
  }
  void head(Worker& worker, int) noexcept {
    worker.head(foredraft::HeadArgs<Worker>{
        .x = x_, .rows = head_rows_, .norm = norm(), .w = &head_, .argmax = argmax_});
  }

  B& backend_;
  const TinyModel& model_;
  int d_q_, d_kv_;
  Cache cache_;
  std::vector<std::vector<typename B::Matrix>> layers_;  // the same weights in each
  typename B::Matrix head_;
  const typename B::Matrix* w_ = nullptr;  // of the layer whose turn it is
  std::vector<double> bytes_;              // of the seven matrices of a layer, and of the head
  typename B::template Buffer<float> norm_, x_buffer_, q_buffer_, cos_buffer_, sin_buffer_;
  foredraft::In<Worker> ones_, x_, q_, cos_, sin_;
  foredraft::Out<Worker> to_;
  std::vector<foredraft::SequenceRows> sequences_;
  std::vector<typename R::Layer> kv_;
  std::vector<std::int32_t> head_rows_{0};
  std::vector<foredraft::TokenId> argmax_{0};
};

}  // namespace bench
