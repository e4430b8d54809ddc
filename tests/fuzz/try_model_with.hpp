#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/load.hpp>

#include "fuzz/demand.hpp"
#include "fuzz/try_model.hpp"

namespace fuzz {

/// Equal to the bit; of NaN only that it is one.
inline bool same_rows(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        std::isnan(a[i]) ? std::isnan(b[i])
                         : std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]);
    if (!same) return false;
  }
  return a.size() == b.size();
}

/// A model and one sequence of it.
template <typename B, typename T>
class Trial {
 public:
  using Cache = foredraft::LinearCache<T>;

  explicit Trial(foredraft::Model<B>& model)
      : model_(model), cache_(model.shape(), kPrompt + 8, kPrompt) {}

  /// @param small  quick enough to fill a block of keys
  void run(bool small) {
    prefill(small ? kPrompt : 2);
    const auto chain = forward({{2, -1}, {3, 0}, {0, 1}});
    cache_.discard();
    // The same chain as nodes 0, 2 and 4 of a tree.
    const auto tree = forward({{2, -1}, {1, 0}, {3, 0}, {2, 2}, {0, 2}});
    demand(same_rows(chain[0], tree[0]) && same_rows(chain[1], tree[2]) &&
               same_rows(chain[2], tree[4]),
           "a row depends on what shares its pass");
    const foredraft::NodeIndex path[] = {0, 2};
    cache_.commit(path);
    // Committed and read again, node 4 has become node 1.
    demand(same_rows(chain[2], rows_of(1, 1)[0]), "a row depends on a commit before it");
    const auto snapshot = cache_.snapshot();
    cache_.truncate(1);
    forward({{1, -1}});
    cache_.restore(snapshot);
    demand(same_rows(chain[2], forward({{0, -1}})[0]), "a row depends on a way back");
  }

 private:
  static constexpr int kPrompt = 34;  // a whole block of keys, and two more

  void prefill(int count) {
    std::vector<foredraft::Node> nodes;
    std::vector<foredraft::NodeIndex> path;
    for (int i = 0; i < count; ++i) {
      nodes.push_back({i % model_.vocab_size(), i - 1});
      path.push_back(i);
    }
    cache_.stage(nodes);
    rows_of(0, count, foredraft::RowNeed::kNothing);
    cache_.commit(path);
  }

  std::vector<std::vector<float>> forward(std::vector<foredraft::Node> nodes) {
    for (foredraft::Node& node : nodes) node.token %= model_.vocab_size();
    const int first = cache_.staged();
    cache_.stage(nodes);
    return rows_of(first, static_cast<int>(nodes.size()));
  }

  std::vector<std::vector<float>> rows_of(int first, int count,
                                          foredraft::RowNeed need = foredraft::RowNeed::kSums) {
    foredraft::Scores scores;
    const int taps[] = {0};
    foredraft::Request<Cache> request{&cache_, first, count, {need, taps}, &scores};
    model_.forward(std::span(&request, 1));
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < count; ++i) {
      const auto row = std::as_const(scores).logits(i);
      rows.emplace_back(row.begin(), row.end());
      if (!row.empty()) {
        demand(scores.argmax(i) == foredraft::Scores::argmax_of(row), "argmax");
      }
    }
    return rows;
  }

  foredraft::Model<B>& model_;
  Cache cache_;
};

template <typename B>
void try_model_with(B& backend, std::span<const std::byte> file, TryCache cache) {
  auto model = foredraft::load(backend, foredraft::Gguf::parse(file));
  const bool small = file.size() < (1 << 17);
  switch (cache) {
    case TryCache::kFloat: return Trial<B, float>(model).run(small);
    case TryCache::kHalf: return Trial<B, foredraft::f16>(model).run(small);
    case TryCache::kQ8: return Trial<B, foredraft::q8_0>(model).run(small);
  }
}

void try_model_with_cpu(std::span<const std::byte> file, int workers, TryCache cache);

}  // namespace fuzz
