#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/token_set.hpp>
#include <foredraft/sampling/history.hpp>
#include <foredraft/sampling/mirostat.hpp>
#include <foredraft/sampling/transforms.hpp>

namespace foredraft::inline v0 {

/// The row of a slot: logits of the token that follows its text.
struct SlotRow {
  int slot = 0;
  std::span<const float> logits = {};  ///< @shape [n_vocab]
  Runs runs = {};                      ///< of the row, where the target hands them over
  const TokenSet* allowed = nullptr;   ///< what a constraint lets through; null: all
};

/// Draws the token behind a text from its row of logits: all transforms and the draw, in one go.
/// For one thread. The object only keeps buffers, so a row may come to any of several.
class RowDraw {
 public:
  /// Make room, so that operator() allocates nothing for rows of at most `n_vocab` logits behind
  /// texts of at most `n_tokens`, under these options or those of an earlier call.
  void reserve(const SamplingOptions& options, std::size_t n_vocab, std::size_t n_tokens) {
    transforms_.reserve(options, n_vocab, n_tokens, law_);
    lazy_.reserve(n_vocab);
    masked_.reserve(n_vocab);
  }

  /// @param text  what the options look back on
  /// @param mirostat  its state behind the text, which the token moves where the options use it
  /// @errors kInvalidLogits; kInvalidConstraint where nothing is both possible and allowed;
  ///   kInvalidOption where biases, bad words and the like leave no token
  /// @cost that of Transforms::apply
  TokenId operator()(const SamplingOptions& options, const SlotRow& row, const TokenRing& text,
                     Mirostat& mirostat, Rng& rng) {
    const bool whole = row.allowed == nullptr;
    const std::span<const float> logits = whole ? row.logits : masked(row);
    const Runs runs = whole ? row.runs : Runs{};
    const RngKey key{Purpose::kTargetSample, static_cast<Position>(text.size()), 0};
    const std::span<const TokenId> newest = text.newest();
    const History history{.tokens = newest,
                          .most_surprise = mirostat.most_surprise(options),
                          .forgotten = text.size() - newest.size()};
    if (options.tempered()) {
      transforms_.apply_lazily(options, logits, history, lazy_, runs);
      return rng.pick(key, lazy_);
    }
    transforms_.apply(options, logits, history, law_, runs);
    if (options.greedy()) return law_.ids.front();
    const std::size_t drawn = rng.categorical(key, law_.ids, law_.p);
    if (options.mirostat != 0) mirostat.observe(options, law_.p[drawn]);
    return law_.ids[drawn];
  }

 private:
  /// The row without what is not allowed.
  std::span<const float> masked(const SlotRow& row) {
    constexpr float kImpossible = -std::numeric_limits<float>::infinity();
    masked_.assign(row.logits.size(), kImpossible);
    bool any = false;
    row.allowed->for_each([&](TokenId token) {
      if (idx(token) >= row.logits.size()) return;
      masked_[idx(token)] = row.logits[idx(token)];
      any = any || masked_[idx(token)] != kImpossible;
    });
    if (any) return masked_;
    throw Error(ErrorCode::kInvalidConstraint,
                "a row in which no token is both possible and allowed",
                "a token that the constraint allows", "");
  }

  Transforms transforms_;
  TemperedRow lazy_;
  Law law_;
  std::vector<float> masked_;  // [n_vocab]
};

}  // namespace foredraft::inline v0
