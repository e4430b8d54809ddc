#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/scores.hpp>

namespace foredraft::inline v0 {

/// Makes p from a row of logits: temperature, then top-k, top-p, min-p, then renormalisation.
///
/// Each step sees the law that the step before left. Ties are broken towards the lower id
/// everywhere, so p is a function of the row alone. Arithmetic is double: the law tests hold p to
/// 1e-12. The object only keeps buffers between rows.
class Transforms {
 public:
  /// @shape logits [n_vocab] @units out.p sums to 1
  /// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf
  /// @cost O(n_vocab), with top-p also a sort of what top-k left
  void apply(const SamplingOptions& options, std::span<const float> logits, Law& out) {
    const TokenId best = Scores::argmax_of(logits);
    if (best < 0 ||
        logits[static_cast<std::size_t>(best)] == std::numeric_limits<float>::infinity()) {
      throw Error(ErrorCode::kInvalidLogits, "a row of logits with NaN, +inf or no finite value",
                  "finite logits, -inf for impossible tokens",
                  "the weights or the target's forward pass are damaged");
    }
    out.clear();
    if (options.greedy()) {
      out.ids.push_back(best);
      out.p.push_back(1.0);
      return;
    }
    candidates_.clear();
    const float greatest = logits[static_cast<std::size_t>(best)];
    for (std::size_t id = 0; id < logits.size(); ++id) {
      // The greatest logit is taken off before the division: tiny temperatures must not overflow.
      const double scaled = (static_cast<double>(logits[id]) - greatest) / options.temperature;
      candidates_.push_back({static_cast<TokenId>(id), scaled, 0.0});
    }
    keep_top_k(options.top_k);
    for (Candidate& candidate : candidates_) candidate.weight = std::exp(candidate.scaled);
    keep_top_p(options.top_p);
    keep_min_p(options.min_p);
    if (options.top_k > 0 || options.top_p < 1.0f) {  // else nothing has left the order of ids
      std::sort(candidates_.begin(), candidates_.end(),
                [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    }
    const double sum = total();
    for (const Candidate& candidate : candidates_) {
      if (candidate.weight <= 0) continue;
      out.ids.push_back(candidate.id);
      out.p.push_back(candidate.weight / sum);
    }
  }

 private:
  struct Candidate {
    TokenId id;
    double scaled;  // logit below the greatest one, divided by the temperature
    double weight;  // exp(scaled)
  };

  static bool likelier(const Candidate& a, const Candidate& b) noexcept {
    return a.scaled != b.scaled ? a.scaled > b.scaled : a.id < b.id;
  }

  double total() const noexcept {
    double sum = 0;
    for (const Candidate& candidate : candidates_) sum += candidate.weight;
    return sum;
  }

  void keep_top_k(int k) {
    if (k <= 0 || static_cast<std::size_t>(k) >= candidates_.size()) return;
    std::nth_element(candidates_.begin(), candidates_.begin() + k - 1, candidates_.end(), likelier);
    candidates_.resize(static_cast<std::size_t>(k));
  }

  /// Sorts no more than it has to: most of the mass lies in few tokens.
  void keep_top_p(float p) {
    if (p >= 1.0f) return;
    const double enough = static_cast<double>(p) * total();
    for (std::size_t sorted = 256;; sorted *= 8) {
      sorted = std::min(sorted, candidates_.size());
      std::partial_sort(candidates_.begin(),
                        candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                        candidates_.end(), likelier);
      double mass = 0;
      std::size_t keep = 0;
      while (keep < sorted && mass < enough) mass += candidates_[keep++].weight;
      if (mass < enough && sorted < candidates_.size()) continue;
      candidates_.resize(std::max<std::size_t>(keep, 1));
      return;
    }
  }

  void keep_min_p(float p) {
    if (p <= 0.0f) return;
    double greatest = 0;
    for (const Candidate& candidate : candidates_) greatest = std::max(greatest, candidate.weight);
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < p * greatest; });
  }

  std::vector<Candidate> candidates_;
};

}  // namespace foredraft::inline v0
