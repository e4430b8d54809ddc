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

/// Runs in which the K greatest logits of a row are to be found.
template <int K>
struct BestRuns {
  int size = 0;
  std::array<int, idx(K)> ids;  ///< ascending, so that ties go to the lower token
  float bar;                    ///< what each of the K tokens reaches

  /// Logits of the i-th of them.
  std::span<const float> of(std::span<const float> logits, int i) const noexcept {
    const std::size_t begin = idx(ids[idx(i)]) * Scores::kRun;
    return logits.subspan(begin, std::min(Scores::kRun, logits.size() - begin));
  }
};

/// A token outside of the K best runs has K better ones, the best of those runs.
/// @shape maxima [n_runs]
/// @cost O(n_runs), no allocation
template <int K>
BestRuns<K> best_runs(std::span<const float> maxima) noexcept {
  detail::Greatest<K> runs;
  float bar = std::numeric_limits<float>::lowest();
  for_each_at_least(maxima, bar, [&](std::size_t run) {
    runs.offer(maxima[run], static_cast<int>(run));
    bar = std::max(bar, runs.least());
  });
  // All K places: of a part of them GCC 12 warns that a sort of many would read beyond the array.
  std::fill(runs.ids.begin() + runs.size, runs.ids.end(), std::numeric_limits<int>::max());
  std::sort(runs.ids.begin(), runs.ids.end());
  return {runs.size, runs.ids, bar};
}

/// The K tokens with the greatest logits, best first, ties to the lower id. Tokens of logit -inf
/// and NaN are left out; the rest of `best` is not touched.
/// @shape logits [n_vocab]
/// @param runs  of these logits
/// @return how many were found
/// @cost O(K * Scores::kRun), no allocation
template <int K>
int top_tokens(std::span<const float> logits, const BestRuns<K>& runs,
               std::array<TokenId, idx(K)>& best) noexcept {
  detail::Greatest<K> tokens;
  float bar = runs.bar;
  for (int i = 0; i < runs.size; ++i) {
    const auto run = runs.of(logits, i);
    const int first = runs.ids[idx(i)] * static_cast<int>(Scores::kRun);
    for_each_at_least(run, bar, [&](std::size_t k) {
      tokens.offer(run[k], first + static_cast<int>(k));
      bar = std::max(bar, tokens.least());
    });
  }
  std::copy(tokens.ids.begin(), tokens.ids.begin() + tokens.size, best.begin());
  return tokens.size;
}

/// Likewise, of all logits. @cost O(n_vocab)
template <int K>
int top_tokens(std::span<const float> logits, std::array<TokenId, idx(K)>& best) noexcept {
  detail::Greatest<K> tokens;
  float bar = std::numeric_limits<float>::lowest();
  for_each_at_least(logits, bar, [&](std::size_t token) {
    tokens.offer(logits[token], static_cast<int>(token));
    bar = std::max(bar, tokens.least());
  });
  std::copy(tokens.ids.begin(), tokens.ids.begin() + tokens.size, best.begin());
  return tokens.size;
}

}  // namespace foredraft::inline v0
