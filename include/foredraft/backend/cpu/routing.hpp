#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// Which rows of a pass go to which experts.
///
/// A pair is a row and one of its experts. Pairs are ordered by expert, and by row within one: an
/// expert that somebody asks for has its rows side by side, as a matrix product wants them. What is
/// chosen for a row, and the order in which its pairs are named, depend on that row alone.
/// @cost memory O(n_rows * n_used + n_experts), reserved before a pass
class Routing {
 public:
  struct Group {
    int expert = 0;
    int begin = 0;  // its pairs: begin .. begin + n_rows - 1
    int n_rows = 0;
  };

  void reserve(int n_rows, int n_experts, int n_used) {
    const std::size_t pairs = idx(n_rows) * idx(n_used);
    experts_.resize(pairs);
    weights_.resize(pairs);
    places_.resize(pairs);
    rows_.resize(pairs);
    next_.resize(idx(n_experts));
    groups_.resize(std::min(idx(n_experts), pairs));
  }

  /// For each row the n_used experts of greatest scores, equal ones by number, each with its share
  /// of the weight: softmax of the scores of these.
  /// @shape scores [n_rows, n_experts]
  /// @cost O(n_rows * n_experts * n_used); no allocation
  void choose(const float* scores, int n_rows, int n_experts, int n_used) noexcept {
    n_used_ = n_used;
    std::fill(next_.begin(), next_.end(), 0);
    for (int row = 0; row < n_rows; ++row) {
      choose_for(row, scores + idx(row) * idx(n_experts), n_experts);
    }
    n_groups_ = 0;
    int begin = 0;
    for (int expert = 0; expert < n_experts; ++expert) {
      const int n = next_[idx(expert)];
      next_[idx(expert)] = begin;
      if (n > 0) groups_[idx(n_groups_++)] = {expert, begin, n};
      begin += n;
    }
    for (int row = 0; row < n_rows; ++row) {
      for (int i = 0; i < n_used; ++i) {
        const int place = next_[idx(expert(row, i))]++;
        places_[at(row, i)] = place;
        rows_[idx(place)] = row;
      }
    }
  }

  int n_groups() const noexcept { return n_groups_; }
  const Group& group(int i) const noexcept { return groups_[idx(i)]; }
  /// The row of each pair. @shape [n_rows * n_used]
  const std::int32_t* rows() const noexcept { return rows_.data(); }
  /// The expert that a row ranks i-th, the weight of what it says, and their pair.
  int expert(int row, int i) const noexcept { return experts_[at(row, i)]; }
  float weight(int row, int i) const noexcept { return weights_[at(row, i)]; }
  int pair(int row, int i) const noexcept { return places_[at(row, i)]; }

 private:
  std::size_t at(int row, int i) const noexcept { return idx(row) * idx(n_used_) + idx(i); }

  void choose_for(int row, const float* scores, int n_experts) noexcept {
    int* const chosen = experts_.data() + at(row, 0);
    for (int i = 0; i < n_used_; ++i) {
      int best = -1;
      for (int expert = 0; expert < n_experts; ++expert) {
        if (std::find(chosen, chosen + i, expert) != chosen + i) continue;
        if (best < 0 || scores[expert] > scores[best]) best = expert;
      }
      chosen[i] = best;
      ++next_[idx(best)];
    }
    double sum = 0;
    for (int i = 0; i < n_used_; ++i) sum += relative(scores, chosen, i);
    for (int i = 0; i < n_used_; ++i) {
      weights_[at(row, i)] = static_cast<float>(relative(scores, chosen, i) / sum);
    }
  }
  static double relative(const float* scores, const int* chosen, int i) noexcept {
    return std::exp(double{scores[chosen[i]]} - double{scores[chosen[0]]});
  }

  int n_used_ = 0;
  int n_groups_ = 0;
  std::vector<int> experts_;        // [n_rows, n_used]
  std::vector<float> weights_;      // likewise
  std::vector<int> places_;         // likewise
  std::vector<std::int32_t> rows_;  // [n_rows * n_used]
  std::vector<int> next_;           // [n_experts]
  std::vector<Group> groups_;       // [n_groups]
};

}  // namespace foredraft::inline v0::cpu
