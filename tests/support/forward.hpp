#pragma once

#include <span>
#include <vector>

#include <foredraft/core/concepts.hpp>

/// Rows of the staged nodes first .. first + count - 1, as the logits that the target hands out.
template <typename M, typename C>
std::vector<std::vector<float>> forward_rows(M& model, C& cache, foredraft::NodeIndex first,
                                             int count) {
  foredraft::Scores scores;
  foredraft::Request<C> request{&cache, first, count, {foredraft::RowNeed::kLogits, {}}, &scores};
  model.forward(std::span(&request, 1));
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < count; ++i) {
    const auto row = std::as_const(scores).logits(i);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

inline std::vector<foredraft::Node> chain_nodes(std::span<const foredraft::TokenId> tokens) {
  std::vector<foredraft::Node> nodes;
  for (const auto token : tokens) nodes.push_back({token, static_cast<int>(nodes.size()) - 1});
  return nodes;
}
