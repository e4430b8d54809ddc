#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/sampling/at_least.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// The K greatest of some values with what they belong to, best first, ties to the first offered.
template <int K>
struct Greatest {
  int size = 0;
  std::array<float, idx(K)> values;
  std::array<int, idx(K)> ids;

  /// What a value has to exceed.
  float least() const noexcept {
    return size < K ? -std::numeric_limits<float>::infinity() : values[idx(K - 1)];
  }
  void offer(float value, int id) noexcept {
    if (!(value > least())) return;
    int place = size < K ? size++ : K - 1;
    for (; place > 0 && values[idx(place - 1)] < value; --place) {
      values[idx(place)] = values[idx(place - 1)];
      ids[idx(place)] = ids[idx(place - 1)];
    }
    values[idx(place)] = value;
    ids[idx(place)] = id;
  }
};

}  // namespace detail

/// The K tokens with the greatest logits, best first, ties to the lower id. Tokens of logit -inf
/// and NaN are left out; the rest of `best` is not touched. With the maxima of runs K runs are
/// looked into, without them all.
/// @shape logits [n_vocab], maxima [n_runs] or empty
/// @return how many were found
/// @cost O(n_runs + K * Scores::kRun), no allocation; without maxima O(n_vocab)
template <int K>
int top_tokens(std::span<const float> logits, std::span<const float> maxima,
               std::array<TokenId, idx(K)>& best) noexcept {
  const std::size_t n_runs = (logits.size() + Scores::kRun - 1) / Scores::kRun;
  const auto run_at = [&](std::size_t run) {
    const std::size_t begin = run * Scores::kRun;
    return logits.subspan(begin, std::min(Scores::kRun, logits.size() - begin));
  };
  detail::Greatest<K> tokens;
  float bar = std::numeric_limits<float>::lowest();
  const auto look_into = [&](std::size_t run) {
    for_each_at_least(run_at(run), bar, [&](std::size_t i) {
      const std::size_t token = run * Scores::kRun + i;
      tokens.offer(logits[token], static_cast<int>(token));
      bar = std::max(bar, tokens.least());
    });
  };
  if (maxima.empty()) {
    for (std::size_t run = 0; run < n_runs; ++run) look_into(run);
  } else {
    // A token outside of the K best runs has K better ones, the best of those runs; so has one that is
    // less than each of these.
    detail::Greatest<K> runs;
    for_each_at_least(maxima, bar, [&](std::size_t run) {
      runs.offer(maxima[run], static_cast<int>(run));
      bar = std::max(bar, runs.least());
    });
    std::sort(runs.ids.begin(), runs.ids.begin() + runs.size);  // ties go to the lower id
    for (int i = 0; i < runs.size; ++i) look_into(idx(runs.ids[idx(i)]));
  }
  for (int i = 0; i < tokens.size; ++i) best[idx(i)] = TokenId{tokens.ids[idx(i)]};
  return tokens.size;
}

}  // namespace foredraft::inline v0
