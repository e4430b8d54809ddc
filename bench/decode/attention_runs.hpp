#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>

#include "../support/random_weights.hpp"

namespace bench {

namespace fd = foredraft;

/// Times attention of all layers of a model one after the other, almost alone: the matrix that
/// follows has a single panel. Calls take turns with several caches, so that keys and values come
/// from memory, as they do behind a pass over the weights.
/// @tparam T  storage type of the caches
template <typename T>
class AttentionRuns {
 public:
  static constexpr int kMostRows = 8;

  /// @param n_positions  committed ones that every row sees
  AttentionRuns(fd::Cpu& cpu, const fd::ModelConfig& config, int n_positions)
      : cpu_(cpu), config_(config), n_positions_(n_positions) {
    constexpr double kEnough = 192 << 20;  // several last level caches of most processors
    do {
      caches_.emplace_back(config.cache_shape(), n_positions + kMostRows, kMostRows);
      fill(caches_.back());
    } while (static_cast<double>(caches_.size()) * bytes() < kEnough);
    const auto width = fd::idx(layer().attention.d_q);
    const std::vector<std::byte> zeros(*fd::row_bytes(fd::TensorType::kQ4_0, width) *
                                       fd::cpu::kPanelRows);
    wo_ = cpu.pack({fd::TensorType::kQ4_0, fd::cpu::kPanelRows, width, zeros});
  }

  /// m rows behind the committed positions.
  double seconds(int m) {
    Cache& cache = caches_[next_++ % caches_.size()];
    cache.stage(chain(m));
    const std::vector<fd::SequenceRows> rows{cache.rows(0, m, 0)};
    std::vector<typename Cache::Rows::Layer> layers;
    for (int i = 0; i < n_layers(); ++i) layers.push_back(cache.layer(i));
    const fd::AttentionShape& a = layer().attention;
    const auto q = random_floats(fd::area(m, a.d_q));
    std::vector<float> x(fd::idx(m * fd::cpu::kPanelRows));
    const fd::PassShape shape{m,     config_.d_model, layer().feed_forward.d_ff,
                              a.d_q, a.d_kv,          a.d_head};
    const auto begin = std::chrono::steady_clock::now();
    cpu_.run(shape, [&](auto& worker) noexcept {
      for (const auto& layer : layers) {
        worker.attend(
            fd::AttendArgs<fd::cpu::Worker, typename Cache::Rows>{.q = q.data(),
                                                                  .n_rows = m,
                                                                  .n_heads = a.n_heads,
                                                                  .n_kv_heads = a.n_kv_heads,
                                                                  .d_head = a.d_head,
                                                                  .scale = a.scale,
                                                                  .sequences = rows,
                                                                  .kv = std::span(&layer, 1),
                                                                  .wo = &wo_,
                                                                  .x = x.data()});
      }
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    cache.discard();
    return time.count();
  }

  /// Bytes of keys and values that one run reads.
  double bytes() const { return Cache::full_bytes(config_.cache_shape(), n_positions_); }
  /// Multiply-adds of one run; a row sees the committed positions, those before it and itself.
  double macs(int m) const {
    const double seen = m * (n_positions_ + (m + 1) / 2.0);
    return 2.0 * n_layers() * layer().attention.d_q * seen;
  }

 private:
  using Cache = fd::LinearCache<T>;

  int n_layers() const { return static_cast<int>(config_.layers.size()); }
  const fd::LayerShape& layer() const { return config_.layers.front(); }  // all are alike

  static std::vector<fd::Node> chain(int n) {
    std::vector<fd::Node> nodes;
    for (int i = 0; i < n; ++i) nodes.push_back({100 + i, i - 1});
    return nodes;
  }

  /// Noise for keys and values, and n_positions_ committed.
  void fill(Cache& cache) const {
    const auto row = fd::idx(fd::row_elements<T>(layer().attention.d_head));
    const auto noise = random_elements<T>(row * 61, 0.3f);
    for (int index = 0; index < n_layers(); ++index) {
      const auto kv = cache.layer(index);
      for (int head = 0; head < layer().attention.n_kv_heads; ++head) {
        auto* const k = reinterpret_cast<T*>(kv.k.row(head, 0));
        auto* const v = reinterpret_cast<T*>(kv.v.row(head, 0));
        for (std::size_t i = 0; i < fd::idx(n_positions_ + kMostRows) * row; ++i)
          k[i] = v[i] = noise[i % noise.size()];
      }
    }
    while (cache.size() < n_positions_) {
      const int n = std::min(kMostRows, n_positions_ - cache.size());
      cache.stage(chain(n));
      std::vector<fd::NodeIndex> path;
      for (int i = 0; i < n; ++i) path.push_back(i);
      cache.commit(path);
    }
  }

  fd::Cpu& cpu_;
  const fd::ModelConfig& config_;
  int n_positions_;
  std::vector<Cache> caches_;
  std::size_t next_ = 0;
  fd::Cpu::Matrix wo_;
};

}  // namespace bench
