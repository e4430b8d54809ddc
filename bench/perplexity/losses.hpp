#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/model/model.hpp>

namespace bench {

namespace fd = foredraft;

/// -log p(token) under the softmax of a row.
inline double loss(std::span<const float> logits, fd::TokenId token) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
  return std::log(sum) + greatest - static_cast<double>(logits[fd::idx(token)]);
}

inline constexpr int kLossBlock = 64;  // rows whose logits are held at once

/// Losses of every token but the first of each window, each of which begins with the cache empty.
template <typename Cache, typename B>
std::vector<double> losses(fd::Model<B>& model, Cache cache, const std::vector<fd::TokenId>& tokens,
                           int window, const char* name) {
  std::vector<double> result;
  const auto& vocabulary = model.tokenizer().vocabulary();
  fd::Scores scores;
  for (std::size_t begin = 0; begin < tokens.size(); begin += fd::idx(window)) {
    std::vector<fd::TokenId> text;
    if (vocabulary.adds_bos()) text.push_back(vocabulary.bos().value());
    const std::size_t first = text.size();
    const std::size_t end = std::min(tokens.size(), begin + fd::idx(window));
    text.insert(text.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
    cache.truncate(0);
    while (cache.size() + 1 < static_cast<int>(text.size())) {
      const int at = cache.size();
      const int count = std::min(kLossBlock, static_cast<int>(text.size()) - 1 - at);
      std::vector<fd::Node> nodes;
      std::vector<fd::NodeIndex> path;
      for (int i = 0; i < count; ++i) {
        nodes.push_back({text[fd::idx(at + i)], i - 1});
        path.push_back(i);
      }
      cache.stage(nodes);
      fd::Request<Cache> request{&cache, 0, count, {fd::RowNeed::kLogits, {}}, &scores};
      model.forward(std::span(&request, 1));
      cache.commit(path);
      for (int i = 0; i < count; ++i) {
        const auto next = fd::idx(at + i + 1);
        if (next > first) result.push_back(loss(std::as_const(scores).logits(i), text[next]));
      }
    }
    std::fprintf(stderr, "\r%s: %zu of %zu tokens", name, end, tokens.size());
  }
  std::fprintf(stderr, "\n");
  return result;
}

inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Perplexities of two backends on the same tokens: all that the second one has seen.
inline nlohmann::ordered_json compare(const std::vector<double>& ours,
                                      const std::vector<double>& exact) {
  std::vector<double> difference;
  for (std::size_t i = 0; i < exact.size(); ++i) difference.push_back(ours[i] - exact[i]);
  const double shift = mean(difference);
  double squares = 0;
  for (const double d : difference) squares += (d - shift) * (d - shift);
  const auto n = static_cast<double>(difference.size());
  const std::vector<double> same(ours.begin(), ours.begin() + std::ssize(exact));
  return {{"predicted_tokens", exact.size()},
          {"perplexity", std::exp(mean(same))},
          {"exact_perplexity", std::exp(mean(exact))},
          {"difference_percent", 100 * (std::exp(shift) - 1)},
          {"standard_error_percent", 100 * std::sqrt(squares / (n - 1) / n)}};
}

}  // namespace bench
