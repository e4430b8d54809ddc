#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/cpu/panel_layout.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/load.hpp>

#include "../support/random_weights.hpp"

namespace bench {

namespace fd = foredraft;

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::cpu::AnyRows>;
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Bytes of the matrices that every forward pass reads.
struct WeightBytes {
  double packed = 0;   ///< as they lie in memory
  double in_file = 0;  ///< the same matrices in the file
  double values = 0;   ///< weights: multiply-adds of one row
};

/// All matrices but an embedding that is not the head too: of that one, a pass reads single rows.
inline WeightBytes weight_bytes(const fd::Gguf& file) {
  WeightBytes sum;
  const bool own_head = file.find_tensor("output.weight") != nullptr;
  for (const auto& tensor : file.tensors()) {
    if (tensor.data.empty()) continue;
    const fd::TensorView view = file.view(tensor);
    if (view.n_out <= 1 || (own_head && tensor.name == "token_embd.weight")) continue;
    const auto layout = fd::cpu::panel_layout(view.type);
    const auto block_k = fd::idx(layout.block_k);
    const std::size_t panels = (view.n_out + fd::cpu::kPanelRows - 1) / fd::cpu::kPanelRows;
    sum.packed +=
        static_cast<double>(panels * ((view.n_in + block_k - 1) / block_k) * layout.bytes);
    sum.in_file += static_cast<double>(view.data.size());
    sum.values += static_cast<double>(view.n_out * view.n_in);
  }
  return sum;
}

/// Times forward passes of one model at any position of a text. What the text says does not matter:
/// keys and values are noise, and tokens are any.
class Passes {
 public:
  static constexpr int kBlock = 512;        // tokens of a prompt in one pass
  static constexpr int kVerifiedRows = 64;  // most rows of a verification

  /// @param format  of keys and values
  Passes(Model& model, int n_positions, fd::RowFormat format = fd::RowFormat::kF16)
      : model_(model), cache_(shape_of(model, format), n_positions + kBlock, kBlock) {
    fill(n_positions);
  }

  /// A verification: m rows behind `position` committed ones, the best token of each.
  /// @units seconds
  double verification(int m, int position) {
    go_to(position);
    cache_.stage(chain(0, m));
    const auto begin = Clock::now();
    forward(m, m);
    const double seconds = seconds_since(begin);
    cache_.discard();
    return seconds;
  }

  /// m tokens into an empty cache, in blocks of 512. Up to 64 tokens the best token of every row is
  /// computed, as in a verification; beyond that only the last row's, as in a prompt.
  double prompt(int m) {
    go_to(0);
    const auto begin = Clock::now();
    for (int done = 0; done < m;) {
      const int count = std::min(m - done, kBlock);
      cache_.stage(chain(done, count));
      done += count;
      forward(count, m <= kVerifiedRows ? count : done == m ? 1 : 0);
      cache_.commit(path(count));
    }
    return seconds_since(begin);
  }

  /// n tokens one by one from an empty cache.
  double decoding(int n) {
    go_to(0);
    const auto begin = Clock::now();
    for (int i = 0; i < n; ++i) {
      const fd::Node node{static_cast<fd::TokenId>(i == 0 ? 100 : std::max(0, best())), -1};
      cache_.stage(std::span(&node, 1));
      forward(1, 1);
      cache_.commit(path(1));
    }
    return seconds_since(begin);
  }

 private:
  static fd::CacheShape shape_of(const Model& model, fd::RowFormat format) {
    fd::CacheShape shape = model.shape();
    shape.formats = {format, format};
    return shape;
  }

  /// Noise for keys and values.
  void fill(int n_positions) {
    const auto& c = model_.config();
    const fd::AttentionShape& a = c.layers.front().attention;  // all are alike
    const auto d_head = fd::idx(a.d_head);
    const auto noise = random_floats(d_head + 61, 0.3f);
    for (int layer = 0; layer < static_cast<int>(c.layers.size()); ++layer) {
      auto rows = cache_.layer(layer);
      for (int i = 0; i < n_positions; ++i) {
        const auto row = std::span(noise).subspan(fd::idx(i % 61), d_head);
        for (int head = 0; head < a.n_kv_heads; ++head) rows.put(head, i, row, row);
      }
    }
  }

  static std::vector<fd::Node> chain(int first, int count) {
    std::vector<fd::Node> nodes;
    for (int i = 0; i < count; ++i) nodes.push_back({100 + (first + i) * 37 % 1000, i - 1});
    return nodes;
  }
  static std::vector<fd::NodeIndex> path(int count) {
    std::vector<fd::NodeIndex> nodes;
    for (int i = 0; i < count; ++i) nodes.push_back(i);
    return nodes;
  }

  void go_to(int position) {
    cache_.truncate(position);
    while (cache_.size() < position) {
      const int count = std::min(position - cache_.size(), kBlock);
      cache_.stage(chain(0, count));
      cache_.commit(path(count));
    }
  }

  /// One pass; the best token of the last `n_read` rows is wanted.
  void forward(int count, int n_read) {
    std::vector<fd::Request<Cache>> requests;
    const int n_unread = count - n_read;
    if (n_unread > 0) {
      requests.push_back({&cache_, 0, n_unread, {fd::RowNeed::kNothing, {}}, &unread_});
    }
    if (n_read > 0) {
      requests.push_back({&cache_, n_unread, n_read, {fd::RowNeed::kArgmax, {}}, &scores_});
    }
    model_.forward(std::span(requests));
  }

  fd::TokenId best() const { return scores_.argmax(0); }

  Model& model_;
  Cache cache_;
  fd::Scores scores_;
  fd::Scores unread_;
};

}  // namespace bench
