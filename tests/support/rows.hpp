#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include <foredraft/core/rng.hpp>
#include <foredraft/sampling/row_sampler.hpp>

#include "support/runs.hpp"

/// The rows of a verified draft, written down by hand. @shape logits [nodes of the draft, n_vocab]
struct Rows {
  Rows(const foredraft::DraftTree& draft, const std::vector<std::vector<float>>& logits,
       const foredraft::SamplingOptions& sampling, foredraft::Position anchor_position = 10)
      : Rows(draft, logits, sampling,
             std::vector<foredraft::TokenId>(foredraft::idx(anchor_position) + 1)) {}
  Rows(const foredraft::DraftTree& draft, const std::vector<std::vector<float>>& logits,
       const foredraft::SamplingOptions& sampling, std::vector<foredraft::TokenId> final_tokens)
      : options(sampling), tokens(std::move(final_tokens)) {
    const foredraft::RowNeed need = foredraft::RowSampler::need_with_probability(sampling);
    scores.reset({need, {}, sampling.temperature}, static_cast<int>(logits.size()),
                 static_cast<int>(logits[0].size()));
    for (std::size_t row = 0; row < logits.size(); ++row)
      scores.set_row(static_cast<int>(row), logits[row]);
    sampler.begin(options, scores, draft, tokens);
  }
  /// As a target that hands over all it may.
  void hand_over_runs() {
    for (int row = 0; row < scores.rows(); ++row) {
      const RunsOf runs(scores.logits(row), sampler.options().temperature);
      std::ranges::copy(runs.all().maxima, scores.hand_over_maxima(row).begin());
      if (const auto sums = scores.hand_over_sums(row); !sums.empty())
        std::ranges::copy(runs.all().sums, sums.begin());
    }
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  foredraft::SamplingOptions options;
  std::vector<foredraft::TokenId> tokens;
  foredraft::Scores scores;
  foredraft::RowSampler sampler;
};

/// Answers as it is told, and notes what it was asked.
class ScriptedRng final : public foredraft::Rng {
 public:
  struct Question {
    foredraft::RngKey key;
    double probability = 0;               // of an accept test
    std::vector<foredraft::TokenId> ids;  // of a draw
    std::vector<double> weights;          // of these, none 0, together 1
  };

  ScriptedRng(std::deque<bool> accepts, std::deque<foredraft::TokenId> tokens)
      : accepts_(std::move(accepts)), tokens_(std::move(tokens)) {}

  bool bernoulli(foredraft::RngKey key, double probability) override {
    questions.push_back({key, probability, {}, {}});
    if (accepts_.empty()) throw std::logic_error("an accept test too many");
    const bool answer = accepts_.front();
    accepts_.pop_front();
    return answer;
  }
  std::size_t categorical(foredraft::RngKey key, std::span<const foredraft::TokenId> ids,
                          std::span<const double> weights) override {
    Question question{key, 0, {}, {}};
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!(weights[i] > 0)) continue;
      question.ids.push_back(ids[i]);
      question.weights.push_back(weights[i] / sum);
    }
    questions.push_back(question);
    if (tokens_.empty()) throw std::logic_error("a draw too many");
    const foredraft::TokenId token = tokens_.front();
    tokens_.pop_front();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == token && weights[i] > 0) return i;
    }
    throw std::logic_error("the scripted token is not on offer");
  }

  std::vector<Question> questions;

 private:
  std::deque<bool> accepts_;
  std::deque<foredraft::TokenId> tokens_;
};
