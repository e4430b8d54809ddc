#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <xsimd/xsimd.hpp>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/sampling/greatest_logit.hpp>

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
  /// @cost O(n_vocab): one exponential a token, none for tokens that top-k drops
  void apply(const SamplingOptions& options, std::span<const float> logits, const History& history,
             Law& out) {
    out.clear();
    const std::span<const float> row =
        options.penalises() ? penalised(options, logits, history) : logits;
    const float greatest = greatest_logit(row);
    if (options.greedy()) {
      out.ids.push_back(
          static_cast<TokenId>(std::find(row.begin(), row.end(), greatest) - row.begin()));
      out.p.push_back(1.0);
      return;
    }
    if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < row.size()) {
      keep_top_k(row, static_cast<std::size_t>(options.top_k));
    } else if (options.min_p > 0.0f && options.top_p == 1.0f) {
      // What min-p will drop needs no weight. The bar is a little low; normalise() is exact.
      keep_above(row, greatest + options.temperature * (std::log(double{options.min_p}) - 1e-3));
    } else {
      keep_all(row);
    }
    weigh(greatest, options.temperature);
    if (options.top_p < 1.0f) keep_top_p(options.top_p);
    normalise(options.min_p, out);
  }

 private:
  using Batch = xsimd::batch<double>;

  /// @source repeat: Keskar et al. 2019, arXiv:1909.05858, with the sign handled as is usual since;
  /// presence and frequency: as the OpenAI API defines them
  std::span<const float> penalised(const SamplingOptions& options, std::span<const float> logits,
                                   const History& history) {
    penalised_.assign(logits.begin(), logits.end());
    const std::size_t n = options.penalty_last_n < 0
                              ? history.tokens.size() + DraftTree::kMaxNodes
                              : static_cast<std::size_t>(options.penalty_last_n);
    seen_.clear();
    for (NodeIndex node = history.node; node > 0 && seen_.size() < n;
         node = history.draft->parent(node)) {
      seen_.push_back(history.draft->token(node));
    }
    const auto before = history.tokens.last(std::min(n - seen_.size(), history.tokens.size()));
    seen_.insert(seen_.end(), before.begin(), before.end());
    std::sort(seen_.begin(), seen_.end());
    for (auto token = seen_.begin(); token != seen_.end();) {
      const auto next = std::upper_bound(token, seen_.end(), *token);
      const auto times = static_cast<double>(next - token);
      const auto id = static_cast<std::size_t>(*token);
      token = next;
      if (id >= penalised_.size()) continue;  // a draft model may know fewer tokens
      const double x = penalised_[id];
      const double repeat = options.repeat_penalty;
      penalised_[id] =
          static_cast<float>((x > 0 ? x / repeat : x * repeat) - options.presence_penalty -
                             options.frequency_penalty * times);
    }
    return penalised_;
  }

  void keep_all(std::span<const float> row) {
    ids_.resize(row.size());
    std::iota(ids_.begin(), ids_.end(), 0);
    weights_.assign(row.begin(), row.end());
  }

  void keep_above(std::span<const float> row, double bar) {
    ids_.clear();
    weights_.clear();
    for (std::size_t id = 0; id < row.size(); ++id) {
      if (row[id] < bar) continue;
      ids_.push_back(static_cast<TokenId>(id));
      weights_.push_back(row[id]);
    }
  }

  /// Keep the k likeliest tokens, in the order of ids. One pass with a bar that rises: whenever
  /// four times as many tokens as wanted have come over it, all but the best k of them are dropped.
  void keep_top_k(std::span<const float> row, std::size_t k) {
    const auto logit = [row](TokenId id) { return row[static_cast<std::size_t>(id)]; };
    const auto likelier = [&](TokenId a, TokenId b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    };
    const auto drop_all_but_best = [&] {
      const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(k);
      std::nth_element(ids_.begin(), end - 1, ids_.end(), likelier);
      ids_.erase(end, ids_.end());
      return logit(ids_.back());
    };
    ids_.clear();
    float bar = -std::numeric_limits<float>::infinity();
    for (std::size_t id = 0; id < row.size(); ++id) {
      if (row[id] < bar) continue;
      ids_.push_back(static_cast<TokenId>(id));
      if (ids_.size() == 4 * k + 64) bar = drop_all_but_best();
    }
    if (ids_.size() > k) drop_all_but_best();
    std::sort(ids_.begin(), ids_.end());
    weights_.clear();
    for (const TokenId id : ids_) weights_.push_back(logit(id));
  }

  /// Logits become weights, exp((logit - greatest) / temperature): 1 for the likeliest token. The
  /// greatest is taken off before the division: tiny temperatures must not overflow.
  void weigh(double greatest, double temperature) {
    // Filled up to whole batches, so that equal logits have equal weights wherever they stand.
    const std::size_t n = weights_.size();
    weights_.resize((n + Batch::size - 1) / Batch::size * Batch::size, greatest);
    for (std::size_t i = 0; i < n; i += Batch::size) {
      const Batch x = Batch::load_unaligned(&weights_[i]) - Batch(greatest);
      xsimd::exp(x / Batch(temperature)).store_unaligned(&weights_[i]);
    }
    weights_.resize(n);
  }

  /// Keep the fewest tokens whose weights reach `p` of the sum. Tokens lighter than the n-th part
  /// of what may be missing cannot be among them, so few are left to be sorted.
  void keep_top_p(double p) {
    const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    const double enough = p * sum;
    const double light = (sum - enough) / static_cast<double>(weights_.size()) * 0.5;
    order_.clear();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] > light) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
    });
    double mass = 0;
    std::size_t keep = 0;
    while (keep < order_.size() && mass < enough) mass += weights_[order_[keep++]];
    order_.resize(std::max<std::size_t>(keep, 1));
    std::sort(order_.begin(), order_.end());
    for (std::size_t i = 0; i < order_.size(); ++i) {  // places only move down
      ids_[i] = ids_[order_[i]];
      weights_[i] = weights_[order_[i]];
    }
    ids_.resize(order_.size());
    weights_.resize(order_.size());
  }

  /// Keep tokens of at least `min_p` times the greatest weight, which is 1, and those that are
  /// possible at all.
  void normalise(double min_p, Law& out) {
    const auto kept = [min_p](double weight) { return weight >= min_p && weight > 0; };
    std::array<double, 8> sums{};  // side by side: one sum would wait for itself at every step
    std::size_t n = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      sums[i % sums.size()] += kept(weights_[i]) ? weights_[i] : 0.0;
      n += kept(weights_[i]);
    }
    const double scale = 1.0 / std::accumulate(sums.begin(), sums.end(), 0.0);
    if (n < weights_.size()) {
      std::size_t to = 0;
      for (std::size_t i = 0; to < n; ++i) {
        ids_[to] = ids_[i];
        weights_[to] = weights_[i];
        to += kept(weights_[i]);
      }
      ids_.resize(n);
      weights_.resize(n);
    }
    for (double& weight : weights_) weight *= scale;
    // Handed over, not copied: the buffers of the last law come back as buffers.
    std::swap(out.ids, ids_);
    std::swap(out.p, weights_);
  }

  std::vector<TokenId> ids_;     // tokens still possible, ascending
  std::vector<double> weights_;  // of ids_: logits, then weights
  std::vector<std::size_t> order_;
  std::vector<float> penalised_;  // [n_vocab]
  std::vector<TokenId> seen_;     // what the penalties look back on, in any order
};

}  // namespace foredraft::inline v0
