#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>

#include "passes.hpp"

namespace cli {

/// Passes of a model on some backend.
/// @tparam M  the model
/// @tparam C  its cache
template <typename M, typename C>
class PassesIn final : public Passes {
 public:
  PassesIn(M& model, C cache) : model_(model), cache_(std::move(cache)) {}

  void forward(std::span<const fd::TokenId> tokens, std::size_t n_read, fd::RowNeed need,
               fd::Scores& scores) override {
    std::vector<fd::Node> nodes;
    std::vector<fd::NodeIndex> path;
    for (const fd::TokenId token : tokens) {
      path.push_back(static_cast<fd::NodeIndex>(nodes.size()));
      nodes.push_back({token, path.back() - 1});
    }
    cache_.stage(nodes);
    // Two requests of one pass, because a row's logits cost a row of the head, the largest matrix.
    const int n_unread = static_cast<int>(tokens.size() - n_read);
    fd::Scores unread;
    std::vector<fd::Request<C>> requests;
    if (n_unread > 0) {
      requests.push_back({&cache_, 0, n_unread, {fd::RowNeed::kNothing, {}}, &unread});
    }
    if (n_read > 0) {
      requests.push_back({&cache_, n_unread, static_cast<int>(n_read), {need, {}}, &scores});
    }
    model_.forward(std::span(requests));
    cache_.commit(path);
  }

  void clear() override { cache_.truncate(0); }

 private:
  M& model_;
  C cache_;
};

}  // namespace cli
