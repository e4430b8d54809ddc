#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cpu/attention.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/key_blocks.hpp>

/// Queries, keys and values of one sequence with committed rows and a tree of staged nodes, for one
/// KV head.
template <typename T>
struct AttentionCase {
  int d_head;
  int group;
  int size;
  std::vector<int> parents;  // of the staged nodes; -1: follows the committed rows
  std::vector<T> k;          // [size + nodes, d_head], all of them rows
  std::vector<T> v;
  std::vector<float> q;  // [nodes, group, d_head]
  std::vector<std::int32_t> path;
  std::vector<std::int32_t> path_begin{0};

  AttentionCase(int d, int g, int n, std::vector<int> tree, unsigned seed)
      : d_head(d), group(g), size(n), parents(std::move(tree)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto rows = static_cast<std::size_t>((size + nodes()) * d_head);
    for (std::size_t i = 0; i < rows; ++i) k.push_back(T(normal(random)));
    for (std::size_t i = 0; i < rows; ++i) v.push_back(T(normal(random)));
    for (int i = 0; i < nodes() * group * d_head; ++i) q.push_back(normal(random));
    for (int node = 0; node < nodes(); ++node) {
      for (const int ancestor : ancestors(node)) path.push_back(size + ancestor);
      path_begin.push_back(static_cast<std::int32_t>(path.size()));
    }
  }

  int nodes() const { return static_cast<int>(parents.size()); }

  /// From the first staged node down to the node itself.
  std::vector<int> ancestors(int node) const {
    std::vector<int> up;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)]) up.insert(up.begin(), node);
    return up;
  }

  /// The keys as a cache stores them.
  std::vector<T> stored_keys() const {
    std::vector<T> stored(k.size());
    for (int row = 0; row < size + nodes(); ++row) {
      for (int d = 0; d < d_head; ++d) {
        stored[foredraft::key_place(row, d, d_head, size)] =
            k[static_cast<std::size_t>(row * d_head + d)];
      }
    }
    return stored;
  }

  foredraft::cpu::AttendTask<T> task(const T* keys, float* out, float* workspace) const {
    foredraft::cpu::AttendTask<T> task;
    task.q = q.data();
    task.out = out;
    task.row_stride = static_cast<std::size_t>(group * d_head);
    task.k = keys;
    task.v = v.data();
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
    const std::vector<T> keys = stored_keys();
    for (int cut = 0; cut < cuts; ++cut) {
      foredraft::cpu::AttendTask<T> part = task(keys.data(), out.data(), workspace.data());
      if (as_chain) part.path = part.path_begin = nullptr;
      const int n = part.end;
      part.begin = n * cut / cuts;
      part.end = n * (cut + 1) / cuts;
      if constexpr (std::is_same_v<T, float>) {
        kernels.attend_float(part);
      } else {
        kernels.attend_half(part);
      }
    }
    return out;
  }

  /// The same node when everything before it has been committed: a case of one node.
  AttentionCase alone(int node) const {
    const std::vector<int> up = ancestors(node);
    AttentionCase one(d_head, group, size + static_cast<int>(up.size()) - 1, {-1}, 0);
    const auto copy_row = [&](int to, int from) {
      for (int d = 0; d < d_head; ++d) {
        one.k[static_cast<std::size_t>(to * d_head + d)] =
            k[static_cast<std::size_t>(from * d_head + d)];
        one.v[static_cast<std::size_t>(to * d_head + d)] =
            v[static_cast<std::size_t>(from * d_head + d)];
      }
    };
    for (int row = 0; row < size; ++row) copy_row(row, row);
    for (std::size_t i = 0; i < up.size(); ++i) copy_row(size + static_cast<int>(i), size + up[i]);
    const auto width = static_cast<std::size_t>(group * d_head);
    for (std::size_t i = 0; i < width; ++i)
      one.q[i] = q[static_cast<std::size_t>(node) * width + i];
    return one;
  }

  /// Softmax attention of one query in double.
  std::vector<double> expected(int node, int head) const {
    std::vector<int> rows;
    for (int row = 0; row < size; ++row) rows.push_back(row);
    for (const int ancestor : ancestors(node)) rows.push_back(size + ancestor);
    const float* query = q.data() + (node * group + head) * d_head;
    std::vector<double> out(static_cast<std::size_t>(d_head));
    double sum = 0;
    for (const int row : rows) {
      double score = 0;
      for (int d = 0; d < d_head; ++d) {
        score +=
            static_cast<double>(query[d]) *
            static_cast<double>(static_cast<float>(k[static_cast<std::size_t>(row * d_head + d)]));
      }
      const double weight = std::exp(score / std::sqrt(static_cast<double>(d_head)));
      sum += weight;
      for (int d = 0; d < d_head; ++d) {
        out[static_cast<std::size_t>(d)] +=
            weight *
            static_cast<double>(static_cast<float>(v[static_cast<std::size_t>(row * d_head + d)]));
      }
    }
    for (double& value : out) value /= sum;
    return out;
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
