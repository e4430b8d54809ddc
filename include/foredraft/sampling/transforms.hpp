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

/// The text before a row: all final tokens, then the draft from the anchor's child down to `node`.
struct History {
  std::span<const TokenId> tokens = {};
  const DraftTree* draft = nullptr;
  NodeIndex node = 0;
};

/// Makes p from a row of logits: penalties, temperature, then top-k, top-p, min-p, then
/// renormalisation.
///
/// Each step sees the law that the step before left. Ties are broken towards the lower id
/// everywhere, so p is a function of the row and its history alone. Arithmetic is double: the law
/// tests hold p to 1e-12. Weights are relative to the likeliest token, so nothing overflows; a
/// token more than 1e-308 times less likely than that counts as impossible. The object only keeps
/// buffers between rows.
class Transforms {
 public:
  /// @param history what the penalties look back on; may be empty where there are none
  /// @shape logits [n_vocab] @units out.p sums to 1
  /// @errors kInvalidLogits for NaN, +inf, or a row without any value above -inf
  /// @cost O(n_vocab), with top-p also a sort of what top-k left
  void apply(const SamplingOptions& options, std::span<const float> logits, const History& history,
             Law& out) {
    const TokenId best = Scores::argmax_of(logits);
    if (best < 0 ||
        logits[static_cast<std::size_t>(best)] == std::numeric_limits<float>::infinity()) {
      throw Error(ErrorCode::kInvalidLogits, "a row of logits with NaN, +inf or no finite value",
                  "finite logits, -inf for impossible tokens",
                  "the weights or the target's forward pass are damaged");
    }
    out.clear();
    if (options.argmax_suffices()) {
      out.ids.push_back(best);
      out.p.push_back(1.0);
      return;
    }
    candidates_.clear();
    for (std::size_t id = 0; id < logits.size(); ++id) {
      candidates_.push_back({static_cast<TokenId>(id), logits[id], 0.0});
    }
    if (options.penalises()) penalise(options, history);
    scale(options);
    keep_top_k(options.greedy() ? 1 : options.top_k);
    for (Candidate& candidate : candidates_) candidate.weight = std::exp(candidate.score);
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
    double score;   // the logit; after scale() how far below the greatest, in units of temperature
    double weight;  // exp(score)
  };

  static bool likelier(const Candidate& a, const Candidate& b) noexcept {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  }

  /// @source repeat: Keskar et al. 2019, arXiv:1909.05858, with the sign handled as is usual since;
  /// presence and frequency: as the OpenAI API defines them
  void penalise(const SamplingOptions& options, const History& history) {
    const std::size_t n = options.penalty_last_n < 0
                              ? history.tokens.size() + DraftTree::kMaxNodes
                              : static_cast<std::size_t>(options.penalty_last_n);
    history_.clear();
    for (NodeIndex node = history.node; node > 0 && history_.size() < n;
         node = history.draft->parent(node)) {
      history_.push_back(history.draft->token(node));
    }
    const auto before = history.tokens.last(std::min(n - history_.size(), history.tokens.size()));
    history_.insert(history_.end(), before.begin(), before.end());
    std::sort(history_.begin(), history_.end());
    for (auto token = history_.begin(); token != history_.end();) {
      const auto next = std::upper_bound(token, history_.end(), *token);
      const auto times = static_cast<double>(next - token);
      const auto id = static_cast<std::size_t>(*token);
      token = next;
      if (id >= candidates_.size()) continue;  // a draft model may know fewer tokens
      double& score = candidates_[id].score;
      score = score > 0 ? score / options.repeat_penalty : score * options.repeat_penalty;
      score -= options.presence_penalty;
      score -= options.frequency_penalty * times;
    }
  }

  /// The greatest score is taken off before the division: tiny temperatures must not overflow.
  void scale(const SamplingOptions& options) noexcept {
    const double temperature = options.greedy() ? 1.0 : options.temperature;
    double greatest = -std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_) greatest = std::max(greatest, candidate.score);
    for (Candidate& candidate : candidates_) {
      candidate.score = (candidate.score - greatest) / temperature;
    }
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
  std::vector<TokenId> history_;  // what the penalties look back on, in any order
};

}  // namespace foredraft::inline v0
