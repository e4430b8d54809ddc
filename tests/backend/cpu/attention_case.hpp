#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cpu/attention.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>

#include "backend/cpu/rounded_weights.hpp"

/// Queries, keys and values of one sequence with committed rows and a tree of staged nodes, for one
/// KV head: keys of K, values of V.
template <typename K, typename V = K>
struct AttentionCase {
  int window = 0;  // 0: every row sees all positions before it
  int ring = 0;    // rows that positions take in turn; 0: each has its own
  float softcap = 0.0f;
  int d_head;
  int group;
  int size;
  std::vector<int> parents;  // of the staged nodes; -1: follows the committed rows
  std::vector<K> k;          // [size + nodes, row_elements(d_head)]
  std::vector<V> v;
  std::vector<float> q;  // [nodes, group, d_head]
  std::vector<foredraft::NodeIndex> path;
  std::vector<std::int32_t> path_begin{0};

  AttentionCase(int d, int g, int n, std::vector<int> tree, unsigned seed)
      : d_head(d), group(g), size(n), parents(std::move(tree)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&]<typename T>(std::vector<T>& rows) {
      for (std::size_t i = 0; i < foredraft::idx(size + nodes()) * row_size<T>(); ++i) {
        if constexpr (foredraft::kValuesPerElement<T> == 1) {
          rows.push_back(T(normal(random)));
        } else {
          std::vector<float> values(foredraft::kValuesPerElement<T>);
          for (float& x : values) x = normal(random);
          rows.push_back(T(values.data()));
        }
      }
    };
    fill(k);
    fill(v);
    for (int i = 0; i < nodes() * group * d_head; ++i) q.push_back(normal(random));
    for (int node = 0; node < nodes(); ++node) {
      for (const int ancestor : ancestors(node)) path.push_back(ancestor);
      path_begin.push_back(static_cast<std::int32_t>(path.size()));
    }
  }

  template <typename T>
  std::size_t row_size() const {
    return foredraft::idx(foredraft::row_elements<T>(d_head));
  }
  int nodes() const { return static_cast<int>(parents.size()); }

  /// From the first staged node down to the node itself.
  std::vector<int> ancestors(int node) const {
    std::vector<int> up;
    for (; node >= 0; node = parents[foredraft::idx(node)]) up.insert(up.begin(), node);
    return up;
  }

  /// Rows as a cache has them, in whole blocks: a ring those that were written last. What nothing was
  /// written to is NaN.
  template <typename T>
  std::vector<T> stored(const std::vector<T>& rows) const {
    constexpr int kBlock = foredraft::cpu::kKeyBlock;
    const int n = ring > 0 ? ring : (size + nodes() + kBlock - 1) / kBlock * kBlock;
    std::vector<T> stored(foredraft::idx(n) * row_size<T>());
    std::memset(static_cast<void*>(stored.data()), 0xff, stored.size() * sizeof(T));
    for (int row = 0; row < size + nodes(); ++row) {
      std::copy_n(&rows[foredraft::idx(row) * row_size<T>()], row_size<T>(),
                  &stored[foredraft::idx(row % n) * row_size<T>()]);
    }
    return stored;
  }

  /// The keys as a cache stores them.
  std::vector<K> stored_keys() const {
    const std::vector<K> rows = stored(k);
    std::vector<K> keys(rows.size());
    const std::size_t block = foredraft::idx(foredraft::cpu::kKeyBlock) * row_size<K>();
    for (std::size_t i = 0; i < rows.size(); i += block) {
      foredraft::cpu::store_keys<K>(reinterpret_cast<const std::byte*>(&rows[i]), d_head,
                                    reinterpret_cast<std::byte*>(&keys[i]));
    }
    return keys;
  }

  foredraft::cpu::AttendTask task(const K* keys, const V* values, float* out,
                                  float* workspace) const {
    foredraft::cpu::AttendTask task;
    task.q = q.data();
    task.out = out;
    task.row_stride = foredraft::idx(group * d_head);
    task.formats = {foredraft::kFormatOf<K>, foredraft::kFormatOf<V>};
    task.k = reinterpret_cast<const std::byte*>(keys);
    task.v = reinterpret_cast<const std::byte*>(values);
    task.window = window;
    task.ring = ring;
    task.softcap = softcap;
    task.d_head = d_head;
    task.group = group;
    task.scale = 1.0f / std::sqrt(static_cast<float>(d_head));
    task.size = size;
    task.path = path.data();
    task.path_begin = path_begin.data();
    task.end = nodes() * group;
    task.workspace = workspace;
    return task;
  }

  /// Output of all nodes, cut into `cuts` runs of queries. `as_chain` leaves out the paths.
  std::vector<float> run(const foredraft::cpu::KernelTable& kernels, int cuts = 1,
                         bool as_chain = false) const {
    std::vector<float> out(q.size());
    std::vector<float> workspace(foredraft::cpu::attend_workspace(d_head));
    const std::vector<K> keys = stored_keys();
    const std::vector<V> values = stored(v);
    for (int cut = 0; cut < cuts; ++cut) {
      foredraft::cpu::AttendTask part =
          task(keys.data(), values.data(), out.data(), workspace.data());
      if (as_chain) part.path = part.path_begin = nullptr;
      const int n = part.end;
      part.begin = n * cut / cuts;
      part.end = n * (cut + 1) / cuts;
      kernels.attend(part);
    }
    return out;
  }

  /// The same node when everything before it has been committed: a case of one node.
  AttentionCase alone(int node) const {
    const std::vector<int> up = ancestors(node);
    AttentionCase one(d_head, group, size + static_cast<int>(up.size()) - 1, {-1}, 0);
    one.window = window;
    one.ring = ring;
    one.softcap = softcap;
    const auto copy_row = [&](int to, int from) {
      const auto copy = [&]<typename T>(const std::vector<T>& rows, std::vector<T>& others) {
        const std::size_t n = row_size<T>();
        std::copy_n(rows.data() + foredraft::idx(from) * n, n,
                    others.data() + foredraft::idx(to) * n);
      };
      copy(k, one.k);
      copy(v, one.v);
    };
    for (int row = 0; row < size; ++row) copy_row(row, row);
    for (std::size_t i = 0; i < up.size(); ++i) copy_row(size + static_cast<int>(i), size + up[i]);
    const auto width = foredraft::idx(group * d_head);
    for (std::size_t i = 0; i < width; ++i) one.q[i] = q[foredraft::idx(node) * width + i];
    return one;
  }

  /// Dimension d of a row of k or v.
  template <typename T>
  double value(const std::vector<T>& rows, int row, int d) const {
    constexpr int n = foredraft::kValuesPerElement<T>;
    const T& element = rows[foredraft::idx(row) * row_size<T>() + foredraft::idx(d / n)];
    if constexpr (n == 1) return static_cast<double>(static_cast<float>(element));
    if constexpr (n != 1) return static_cast<double>(element[d % n]);
  }

  /// A query as scores take it, times 1 / sqrt(d_head): with keys in q8_0, quantized as `kernels`
  /// quantize activations.
  std::vector<double> query(const foredraft::cpu::KernelTable& kernels, int node, int head) const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(d_head));
    std::vector<float> scaled(foredraft::idx(d_head));
    for (std::size_t d = 0; d < scaled.size(); ++d)
      scaled[d] = q[foredraft::idx((node * group + head) * d_head) + d] * scale;
    std::vector<double> query(scaled.begin(), scaled.end());
    if constexpr (!std::is_same_v<K, foredraft::q8_0>) return query;
    using foredraft::cpu::Activations;
    constexpr auto kFormat = foredraft::cpu::ActivationFormat::kInt8Per32;
    std::vector<std::byte> memory(Activations::bytes(kFormat, 1, d_head));
    const Activations row{kFormat, 1, d_head, memory.data()};
    kernels.quantize_row(scaled.data(), row, 0, 0, d_head);
    for (int d = 0; d < d_head; ++d) {
      const Activations::Block block = row.block(0, d / 64);
      const int code = static_cast<std::int8_t>(block.codes[d % 64]);
      query[foredraft::idx(d)] = static_cast<double>(block.per_32(0).scales[d % 64 / 32]) * code;
    }
    return query;
  }

  /// Softmax attention of one query in double. Values in q8_0 are summed by rounded weights where the
  /// query sees a whole block; where floats may round one the other way, `slack` says by how much.
  std::vector<double> expected(const foredraft::cpu::KernelTable& kernels, int node, int head,
                               std::vector<double>& slack) const {
    std::vector<int> rows;
    for (int row = 0; row < size; ++row) rows.push_back(row);
    for (const int ancestor : ancestors(node)) rows.push_back(size + ancestor);
    const int seen = static_cast<int>(rows.size());
    const int first = window > 0 && seen > window ? seen - window : 0;
    const std::vector<double> q_row = query(kernels, node, head);
    std::vector<double> weights(rows.size());
    for (int p = first; p < seen; ++p) {
      double score = 0;
      for (int d = 0; d < d_head; ++d)
        score += q_row[foredraft::idx(d)] * value(k, rows[foredraft::idx(p)], d);
      if (softcap != 0.0f) score = double{softcap} * std::tanh(score / double{softcap});
      weights[foredraft::idx(p)] = std::exp(score);
    }
    std::vector<double> out(foredraft::idx(d_head));
    slack.assign(foredraft::idx(d_head), 0.0);
    constexpr int kBlock = foredraft::cpu::kKeyBlock;
    for (int begin = first / kBlock * kBlock; begin < seen; begin += kBlock) {
      const bool whole = begin >= first && begin + kBlock <= seen;
      if (whole && std::is_same_v<V, foredraft::q8_0>) {
        add_rounded(rows, weights, begin, out, slack);
        continue;
      }
      for (int p = std::max(begin, first); p < std::min(begin + kBlock, seen); ++p) {
        for (int d = 0; d < d_head; ++d)
          out[foredraft::idx(d)] +=
              weights[foredraft::idx(p)] * value(v, rows[foredraft::idx(p)], d);
      }
    }
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (double& value : out) value /= sum;
    for (double& value : slack) value /= sum;
    return out;
  }

 private:
  void add_rounded(const std::vector<int>& rows, const std::vector<double>& weights, int begin,
                   std::vector<double>& out, std::vector<double>& slack) const {
    if constexpr (std::is_same_v<V, foredraft::q8_0>) {
      for (int d = 0; d < d_head; ++d) {
        const auto element = [&](std::size_t p) -> const V& {
          return v[foredraft::idx(rows[foredraft::idx(begin) + p]) * row_size<V>() +
                   foredraft::idx(d / V::kValues)];
        };
        const RoundedWeights rounded(
            [&](std::size_t p) { return weights[foredraft::idx(begin) + p]; },
            [&](std::size_t p) { return double{static_cast<float>(element(p).scale)}; });
        for (std::size_t p = 0; p < RoundedWeights::kBlock; ++p) {
          const int code = element(p).codes[d % V::kValues];
          out[foredraft::idx(d)] += rounded.of_codes[p] * code;
          slack[foredraft::idx(d)] += rounded.slack[p] * std::abs(code);
        }
      }
    }
  }
};

inline std::vector<int> chain_of(int n) {
  std::vector<int> parents;
  for (int i = 0; i < n; ++i) parents.push_back(i - 1);
  return parents;
}

/// Every node follows some earlier one, or the committed rows.
inline std::vector<int> random_tree(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> parents;
  for (int i = 0; i < n; ++i)
    parents.push_back(static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1);
  return parents;
}
