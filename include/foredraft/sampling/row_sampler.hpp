#pragma once

#include <array>
#include <bitset>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <foredraft/core/constraint_path.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/sampling/mirostat.hpp>
#include <foredraft/sampling/transforms.hpp>

namespace foredraft::inline v0 {

/// The rows of a round as an acceptance rule sees them: the best token of a node, or p behind it.
/// p at a node is the law of the token that follows that node, after all transforms; what looks back
/// on the text sees the drafted tokens down to the node, and mirostat's bound has moved with them.
class RowSampler {
 public:
  /// Look at a round. `options`, `scores`, `draft` and what `tokens` shows must outlive the use.
  /// @param tokens all final tokens; the last is the anchor
  /// @param constraint where the anchor stands under one; null: there is none
  /// @param mirostat its state at the anchor
  void begin(const SamplingOptions& options, const Scores& scores, const DraftTree& draft,
             std::span<const TokenId> tokens, const ConstraintPath* constraint = nullptr,
             const Mirostat& mirostat = {}) {
    options_ = &options;
    law_of_ = lazy_of_ = -1;
    known_.reset();
    mirostat_[0] = mirostat;
    known_.set(0);
    scores_ = &scores;
    draft_ = &draft;
    tokens_ = tokens;
    constrained_ = constraint != nullptr;
    masked_of_ = -1;
    if (constrained_) paths_.begin(*constraint);
  }

  /// Options that would be gone when they are read.
  void begin(const SamplingOptions&&, const Scores&, const DraftTree&, std::span<const TokenId>,
             const ConstraintPath* = nullptr, const Mirostat& = {}) = delete;

  /// How much of a row law() and draw() read.
  static RowNeed need(const SamplingOptions& options) noexcept {
    if (options.argmax_suffices()) return RowNeed::kArgmax;
    const bool whole = !options.adjusts() && !options.stepwise() && options.top_k == 0;
    return whole && options.top_p < 1.0f ? RowNeed::kSums : RowNeed::kLogits;
  }
  /// How much of a row probability() reads as well.
  static RowNeed need_with_probability(const SamplingOptions& options) noexcept {
    return options.tempered() && !options.adjusts() ? RowNeed::kSums : need(options);
  }

  const SamplingOptions& options() const noexcept { return *options_; }
  Position anchor_position() const noexcept { return static_cast<Position>(tokens_.size()) - 1; }

  /// Position of the token that follows `node`.
  Position position_after(NodeIndex node) const noexcept {
    return anchor_position() + draft_->depth(node) + 1;
  }

  /// The most probable token after `node`, before any cut. @errors kInvalidLogits
  TokenId argmax(NodeIndex node) const {
    if (options_->adjusts()) {
      SamplingOptions greedy = *options_;
      greedy.temperature = 0.0f;
      return law(node, greedy).ids.front();
    }
    TokenId best = scores_->argmax(node);
    if (best >= 0 && forbids(node, best)) best = Scores::argmax_of(logits(node));
    if (best >= 0) return best;
    throw Error(ErrorCode::kInvalidLogits,
                "a row of logits with NaN or no finite value" + at_position(node),
                "finite logits, -inf for impossible tokens",
                "the weights or the target's forward pass are damaged");
  }

  /// p after `node`. The reference is good until another node's law, argmax, probability or draw is
  /// asked for.
  /// @errors kInvalidLogits @cost O(n_vocab), once for calls with the same node
  const Law& law(NodeIndex node) const {
    if (law_of_ == node) return law_;
    law(node, *options_);
    law_of_ = node;
    return law_;
  }

  /// The same under other options than those of the call.
  const Law& law(NodeIndex node, const SamplingOptions& options) const {
    law_of_ = lazy_of_ = -1;
    if (options.argmax_suffices()) {  // only the argmax was asked of the target
      law_.clear();
      law_.ids.push_back(argmax(node));
      law_.p.push_back(1.0);
    } else {
      naming_position(node, [&] {
        const History past = history(node);  // first: it may look at other rows
        transforms_.apply(options, logits(node), past, law_, runs(node));
      });
    }
    return law_;
  }

  /// p after `node` as weights, of which few need be worked out; null where some are cut off, and at
  /// temperature 0. Good until another node is asked for, or law() or argmax().
  /// @errors kInvalidLogits
  /// @cost O(n_vocab / Scores::kRun) where the target hands over maxima and nothing is penalised
  TemperedRow* lazily(NodeIndex node) const {
    if (!options_->tempered()) return nullptr;
    if (lazy_of_ != node) {
      lazy_of_ = -1;
      naming_position(node, [&] {
        const History past = history(node);  // first: it may look at other rows
        transforms_.apply_lazily(*options_, logits(node), past, lazy_, runs(node));
      });
      lazy_of_ = node;
    }
    return &lazy_;
  }

  /// p(token) after `node`. @errors kInvalidLogits
  /// @cost where nothing is cut off that of TemperedRow::total(), else that of law()
  double probability(NodeIndex node, TokenId token) const {
    if (TemperedRow* p = lazily(node)) return (*p)(token);
    return law(node)(token);
  }

  /// The state of mirostat behind `token`, which follows `node`. @errors kInvalidLogits
  Mirostat mirostat_behind(NodeIndex node, TokenId token) const {
    Mirostat state = mirostat_at(node);
    naming_position(node, [&] {
      transforms_.apply(*options_, logits(node),
                        {tokens_, draft_, node, state.most_surprise(*options_)}, moving_,
                        runs(node));
    });
    state.observe(*options_, moving_(token));
    return state;
  }

  /// A token drawn from p after `node`; at temperature 0 the most probable one.
  /// @errors kInvalidLogits
  /// @cost O(n_vocab / Scores::kRun) where the target hands over maxima and nothing is penalised,
  /// but O(n_vocab) for top-p that is not behind top-k, unless it hands over sums as well
  TokenId draw(NodeIndex node, RngKey key, Rng& rng) const {
    if (options_->greedy()) return argmax(node);
    if (TemperedRow* p = lazily(node)) return rng.pick(key, *p);
    const Law& p = law(node);
    return p.ids[rng.categorical(key, p.ids, p.p)];
  }

 private:
  /// The path to the node says what may follow. One that is forbidden does not, and nothing is
  /// asked behind the end of the text: such rows are read, but what comes of them is thrown away.
  bool constrained(NodeIndex node) const {
    if (!constrained_) return false;
    const ConstraintPath& path = paths_.at(*draft_, node);
    return !path.dead() && !path.over();
  }
  bool forbids(NodeIndex node, TokenId token) const {
    return constrained(node) && !paths_.at(*draft_, node).allows(token);
  }

  /// The row without what the constraint forbids; good until another node is asked for.
  std::span<const float> logits(NodeIndex node) const {
    if (!constrained(node)) return scores_->logits(node);
    if (masked_of_ != node) {
      masked_of_ = lazy_of_ = -1;  // lazy_ may look at the row that is written over
      if (!paths_.at(*draft_, node).forbid(scores_->logits(node), masked_)) {
        throw Error(ErrorCode::kInvalidConstraint,
                    "a row in which no token is both possible and allowed" + at_position(node),
                    "a token that the constraint allows",
                    "is there a token for each byte that the constraint asks for?");
      }
      masked_of_ = node;
    }
    return masked_;
  }
  /// What the target says of the row holds only for the whole of it.
  Runs runs(NodeIndex node) const { return constrained(node) ? Runs{} : scores_->runs(node); }

  History history(NodeIndex node) const {
    History history{tokens_, draft_, node};
    if (options_->mirostat != 0) history.most_surprise = mirostat_at(node).most_surprise(*options_);
    return history;
  }

  /// Worked out along the path to the node, once a round.
  const Mirostat& mirostat_at(NodeIndex node) const {
    if (!known_[idx(node)]) {
      mirostat_[idx(node)] = mirostat_behind(draft_->parent(node), draft_->token(node));
      known_.set(idx(node));
    }
    return mirostat_[idx(node)];
  }

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

  const SamplingOptions* options_ = nullptr;
  const Scores* scores_ = nullptr;
  const DraftTree* draft_ = nullptr;
  std::span<const TokenId> tokens_;
  // Buffers and what was last asked for: no result depends on earlier calls.
  mutable Transforms transforms_;
  mutable Law law_;
  mutable TemperedRow lazy_;
  mutable NodeIndex law_of_ = -1;
  mutable NodeIndex lazy_of_ = -1;
  bool constrained_ = false;
  mutable NodePaths paths_;
  mutable std::vector<float> masked_;  // [n_vocab]
  mutable NodeIndex masked_of_ = -1;
  mutable std::array<Mirostat, DraftTree::kMaxNodes> mirostat_{};  // at the nodes
  mutable std::bitset<DraftTree::kMaxNodes> known_;                // of those
  mutable Law moving_;
};

}  // namespace foredraft::inline v0
