#pragma once

#include <span>
#include <string>
#include <type_traits>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/sampling/transforms.hpp>

namespace foredraft::inline v0 {

/// The rows of a round as an acceptance rule sees them: the best token of a node, or p behind it.
/// p at a node is the law of the token that follows that node, after all transforms; penalties
/// count the drafted tokens down to the node.
class RowSampler {
 public:
  /// Look at a round. All arguments but `options` must outlive the use.
  /// @param tokens all final tokens; the last is the anchor
  void begin(const SamplingOptions& options, const Scores& scores, const DraftTree& draft,
             std::span<const TokenId> tokens) noexcept {
    options_ = options;
    scores_ = &scores;
    draft_ = &draft;
    tokens_ = tokens;
  }

  const SamplingOptions& options() const noexcept { return options_; }
  Position anchor_position() const noexcept { return static_cast<Position>(tokens_.size()) - 1; }

  /// Position of the token that follows `node`.
  Position position_after(NodeIndex node) const noexcept {
    return anchor_position() + draft_->depth(node) + 1;
  }

  /// The most probable token after `node`. @errors kInvalidLogits
  TokenId argmax(NodeIndex node) const {
    if (options_.penalises()) {
      SamplingOptions greedy = options_;
      greedy.temperature = 0.0f;
      return law(node, greedy).ids.front();
    }
    const TokenId best = scores_->argmax(node);
    if (best >= 0) return best;
    throw Error(ErrorCode::kInvalidLogits,
                "a row of logits with NaN or no finite value" + at_position(node),
                "finite logits, -inf for impossible tokens",
                "the weights or the target's forward pass are damaged");
  }

  /// p after `node`. The reference is good until law(), argmax() or draw() is called.
  /// @errors kInvalidLogits @cost O(n_vocab)
  const Law& law(NodeIndex node) const { return law(node, options_); }

  /// The same under other options than those of the call.
  const Law& law(NodeIndex node, const SamplingOptions& options) const {
    if (options.argmax_suffices()) {  // only the argmax was asked of the target
      law_.clear();
      law_.ids.push_back(argmax(node));
      law_.p.push_back(1.0);
    } else {
      naming_position(node, [&] {
        transforms_.apply(options, scores_->logits(node), {tokens_, draft_, node}, law_,
                          scores_->maxima(node));
      });
    }
    return law_;
  }

  /// A token drawn from p after `node`; at temperature 0 the most probable one.
  /// @errors kInvalidLogits
  /// @cost O(n_vocab / Scores::kRun) where the target hands over maxima and nothing is penalised,
  /// but O(n_vocab) for top-p that is not behind top-k
  TokenId draw(NodeIndex node, RngKey key, Rng& rng) const {
    if (options_.greedy()) return argmax(node);
    if (options_.cuts()) {
      const Law& p = law(node);
      return p.ids[rng.categorical(key, p.ids, p.p)];
    }
    return naming_position(node, [&] {
      return rng.pick(key, transforms_.lazily(options_, scores_->logits(node),
                                              {tokens_, draft_, node}, scores_->maxima(node)));
    });
  }

 private:
  /// f(), whose errors do not know of which row they speak.
  template <typename F>
  std::invoke_result_t<F> naming_position(NodeIndex node, F&& f) const {
    try {
      return f();
    } catch (const Error& error) {
      throw Error(error.code(), error.found() + at_position(node), error.expected(), error.hint());
    }
  }

  std::string at_position(NodeIndex node) const {
    return ", for the token at position " + std::to_string(position_after(node));
  }

  SamplingOptions options_;
  const Scores* scores_ = nullptr;
  const DraftTree* draft_ = nullptr;
  std::span<const TokenId> tokens_;
  // Buffers only: what law() returns does not depend on earlier calls.
  mutable Transforms transforms_;
  mutable Law law_;
};

}  // namespace foredraft::inline v0
