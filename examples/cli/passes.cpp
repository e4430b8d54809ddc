#include "passes.hpp"

#include <cstddef>
#include <vector>

namespace cli {

void forward(Model& model, PlainCache& cache, std::span<const fd::TokenId> tokens,
             std::size_t n_read, fd::RowNeed need, fd::Scores& scores) {
  std::vector<fd::Node> nodes;
  std::vector<fd::NodeIndex> path;
  for (const fd::TokenId token : tokens) {
    path.push_back(static_cast<fd::NodeIndex>(nodes.size()));
    nodes.push_back({token, path.back() - 1});
  }
  cache.stage(nodes);
  // Two requests of one pass, because a row's logits cost a row of the head, the largest matrix.
  const int n_unread = static_cast<int>(tokens.size() - n_read);
  fd::Scores unread;
  std::vector<fd::Request<PlainCache>> requests;
  if (n_unread > 0) {
    requests.push_back({&cache, 0, n_unread, {fd::RowNeed::kNothing, {}}, &unread});
  }
  if (n_read > 0) {
    requests.push_back({&cache, n_unread, static_cast<int>(n_read), {need, {}}, &scores});
  }
  model.forward(std::span(requests));
  cache.commit(path);
}

}  // namespace cli
