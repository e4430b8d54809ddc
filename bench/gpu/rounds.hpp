#pragma once

#include <string>
#include <utility>
#include <vector>

#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/no_draft.hpp>

#include "support/oracle_drafter.hpp"

namespace bench {

/// Whole decoding behind a prompt. Weights are random, so no drafter would be right: one of them knows the
/// text and errs at a rate that is given, the other one is the target itself.
/// @tparam Model, Cache  a target and a cache of it
template <typename Model, typename Cache>
class Rounds {
 public:
  static constexpr int kTokens = 96;
  static constexpr int kDrafted = 7;

  struct Way {
    std::string name;
    double seconds_a_token = 0;
    double seconds_a_round = 0;
    double other_seconds_a_round = 0;  // all but the target's passes: a draft model's are in it
  };

  Rounds(Model& model, int context) : model_(model), context_(context) {
    for (int i = 0; i < context; ++i) prompt_.push_back(100 + i % 1000);
    (void)decode("", foredraft::NoDraft{}, 0, &text_);
    text_.insert(text_.begin(), prompt_.begin(), prompt_.end());
  }

  std::vector<Way> measure() {
    const auto oracle = [this](double error) {
      return OracleDrafter(text_, model_.vocab_size(), error, 1);
    };
    return {decode("plain", foredraft::NoDraft{}, 0),
            decode("7 drafted, all right", oracle(0), kDrafted),
            decode("7 drafted, 0.8 of them right", oracle(0.2), kDrafted),
            decode("7 drafted by the model itself",
                   foredraft::ModelDrafter<Model, Cache>{model_, cache(), {}}, kDrafted)};
  }

 private:
  Cache cache() const { return Cache(model_.shape(), context_ + 2 * kTokens); }

  template <typename D>
  Way decode(std::string name, D drafter, int depth,
             std::vector<foredraft::TokenId>* text = nullptr) {
    foredraft::Decoder decoder{model_, cache(), std::move(drafter), foredraft::Greedy{}};
    const foredraft::Options options{.max_tokens = kTokens, .n_draft = depth, .ignore_end = true};
    (void)decoder.prefill(prompt_, options);
    const auto result = decoder.resume(options);
    if (text != nullptr) *text = result.tokens;
    const auto& seconds = result.stats.seconds;
    const auto rounds = static_cast<double>(result.stats.rounds);
    return {std::move(name), seconds.total / kTokens, seconds.total / rounds,
            (seconds.total - seconds.verify) / rounds};
  }

  Model& model_;
  int context_;
  std::vector<foredraft::TokenId> prompt_;
  std::vector<foredraft::TokenId> text_;  // the prompt's included
};

}  // namespace bench
