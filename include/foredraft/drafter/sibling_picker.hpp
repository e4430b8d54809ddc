#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/constraint_path.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/rng.hpp>
#include <foredraft/core/round.hpp>
#include <foredraft/core/sampling_options.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/sampling/row_sampler.hpp>
#include <foredraft/sampling/tempered_row.hpp>
#include <foredraft/sampling/transforms.hpp>

namespace foredraft::inline v0 {

/// How a draft model picks its tokens.
enum class DraftSampling : std::uint8_t {
  /// The best of the three: argmax at temperature 0; above it coupled for rules that make no use of
  /// q, else drawn or argmax, whichever was accepted more often lately (see DraftChoice).
  kAuto,
  kArgmax,   ///< its best tokens, as point mass
  kCoupled,  ///< sampled with the noise that will sample the target, as point mass: agrees far more
             ///< often than chance
  kDrawn,    ///< drawn from q, which is handed over
};

/// Gives nodes of a draft their children, from a draft model's rows.
///
/// How many children a node gets is settled before any of them is drawn: it is the number asked
/// for, or as many as q has tokens. So q stays the law of every drawn token.
class SiblingPicker {
 public:
  /// Begin a round. What `context` refers to must outlive it.
  /// @param law how the draft model's rows become q
  /// @param how any but kAuto
  /// @param drawn how drawn siblings are made, kIndependent or kWithoutReplacement
  /// @param n_vocab tokens of a row; those beyond context.n_vocab are padding and never picked
  /// @param confident say of each child how probable it is, for which rows are read further
  void begin(const Context& context, const SamplingOptions& law, DraftSampling how,
             Siblings drawn = Siblings::kIndependent, int n_vocab = 0, bool confident = false) {
    context_ = context;
    law_ = law;
    how_ = how;
    drawn_ = drawn;
    padded_ = n_vocab > context.n_vocab;
    confident_ = confident;
    masked_of_ = kNone;
    if (context_.constraint != nullptr) paths_.begin(*context_.constraint);
  }

  /// What add() reads of a row to make `count` children.
  Want want(int count) const noexcept {
    if (argmax_suffices(count)) {
      return confident_ ? Want{RowNeed::kSums, {}, 1.0f} : Want{RowNeed::kArgmax, {}};
    }
    const bool whole_law = !best() && whole_row();
    return {whole_law ? std::max(RowNeed::kLogits, RowSampler::need(law_)) : RowNeed::kLogits,
            {},
            law_.temperature};
  }

  /// Give `parent` children, `count` or as many as q allows. `row` of `scores` is that of the
  /// parent.
  /// @errors kInvalidLogits
  /// @cost O(n_vocab) for q, and once more for each coupled child; O(support of q) for each drawn
  /// one; a single coupled child without cuts as RowSampler::draw
  void add(NodeIndex parent, int count, const Scores& scores, int row, DraftTree& draft) {
    if (count <= 0) return;
    const NodeIndex first = draft.size();
    masked_of_ = kNone;
    if (context_.constraint != nullptr) {
      const ConstraintPath& path = paths_.at(draft, parent);
      if (path.over()) return;  // nothing follows the end of the text
      if (!path.dead()) {
        if (!path.forbid(logits(scores, row), masked_)) return;
        masked_of_ = row;
      }
    }
    try {
      switch (how_) {
        case DraftSampling::kDrawn: add_drawn(parent, count, scores, row, draft); break;
        case DraftSampling::kCoupled: add_coupled(parent, count, scores, row, draft); break;
        case DraftSampling::kAuto:
        case DraftSampling::kArgmax: add_best(parent, count, scores, row, draft); break;
      }
      if (confident_) weigh(first, parent, scores, row, draft);
    } catch (const Error& error) {  // it does not know whose row it speaks of
      throw Error(error.code(), "the draft model: " + error.found(), error.expected(),
                  error.hint());
    }
  }

 private:
  /// The children's probabilities, as the target would have them that thinks like the draft model:
  /// before temperature and cuts where it takes the best token, else under the law itself.
  void weigh(NodeIndex first, NodeIndex parent, const Scores& scores, int row, DraftTree& draft) {
    if (how_ == DraftSampling::kDrawn) {
      for (NodeIndex node = first; node < draft.size(); ++node) {
        draft.set_confidence(node, static_cast<float>(draft.law(parent)(draft.token(node))));
      }
      return;
    }
    SamplingOptions law;
    law.temperature = law_.greedy() ? 1.0f : law_.temperature;
    transforms_.apply_lazily(law, logits(scores, row), history(parent, draft), lazy_q_,
                             runs(scores, row));
    for (NodeIndex node = first; node < draft.size(); ++node) {
      draft.set_confidence(node, static_cast<float>(lazy_q_(draft.token(node))));
    }
  }

  bool best() const noexcept {
    return how_ == DraftSampling::kArgmax || how_ == DraftSampling::kAuto;
  }
  bool argmax_suffices(int count) const noexcept {
    return best() && count <= 1 && !law_.adjusts() && whole_row();
  }
  /// Every token of a row may be picked.
  bool whole_row() const noexcept { return !padded_ && context_.constraint == nullptr; }

  /// The law of a row without the padding.
  void apply(const SamplingOptions& options, const Scores& scores, int row, NodeIndex parent,
             const DraftTree& draft, Law& q) {
    transforms_.apply(options, logits(scores, row), history(parent, draft), q, runs(scores, row));
  }

  std::span<const float> logits(const Scores& scores, int row) const noexcept {
    if (masked_of_ == row) return masked_;
    const std::span<const float> all = scores.logits(row);
    return all.first(std::min(all.size(), idx(context_.n_vocab)));
  }
  Runs runs(const Scores& scores, int row) const noexcept {
    const bool whole = masked_of_ != row && logits(scores, row).size() == scores.logits(row).size();
    return whole ? scores.runs(row) : Runs{};
  }
  History history(NodeIndex parent, const DraftTree& draft) const noexcept {
    // Mirostat's bound is that at the anchor: the target's rows would have to move it further.
    return {context_.tokens, &draft, parent, context_.most_surprise};
  }

  void add_drawn(NodeIndex parent, int count, const Scores& scores, int row, DraftTree& draft) {
    Law& q = draft.drawn_from(parent, drawn_);
    apply(law_, scores, row, parent, draft, q);
    weights_ = q.p;
    const bool replace = drawn_ != Siblings::kWithoutReplacement;
    const int n = replace ? count : std::min(count, possible());
    for (int i = 0; i < n; ++i) {
      // Siblings never share a key: it holds the index that the drawn token will have.
      const RngKey key{Purpose::kDraft, context_.anchor_position(), draft.size()};
      const std::size_t chosen = context_.rng->categorical(key, q.ids, weights_);
      draft.add(parent, q.ids[chosen]);
      if (!replace) weights_[chosen] = 0.0;
    }
  }

  /// The noise belongs to the key, not to the draw: taken tokens left out, the same key yields the
  /// next token that the target may well be sampled to be. The first child is the coupled sample.
  /// With noise for each token that is Gumbel top-k.
  /// @source Kool et al. 2019, arXiv:1903.06059
  void add_coupled(NodeIndex parent, int count, const Scores& scores, int row, DraftTree& draft) {
    const Position position = context_.anchor_position() + draft.depth(parent) + 1;
    const RngKey key{Purpose::kTargetSample, position, 0};
    if (count == 1 && law_.tempered()) {
      transforms_.apply_lazily(law_, logits(scores, row), history(parent, draft), lazy_q_,
                               runs(scores, row));
      draft.add(parent, context_.rng->pick(key, lazy_q_));
      return;
    }
    apply(law_, scores, row, parent, draft, q_);
    weights_ = q_.p;
    const int n = std::min(count, possible());
    for (int i = 0; i < n; ++i) {
      const std::size_t chosen = context_.rng->categorical(key, q_.ids, weights_);
      draft.add(parent, q_.ids[chosen]);
      weights_[chosen] = 0.0;
    }
  }

  void add_best(NodeIndex parent, int count, const Scores& scores, int row, DraftTree& draft) {
    if (argmax_suffices(count)) {
      const TokenId best = scores.argmax(row);
      if (best < 0) {
        throw Error(ErrorCode::kInvalidLogits, "a row of logits with NaN or no finite value",
                    "finite logits, -inf for impossible tokens",
                    "the weights or the forward pass are damaged");
      }
      draft.add(parent, best);
      return;
    }
    // Temperature and cuts leave the order of the tokens alone; the penalties do not.
    apply(law_.ranking(count), scores, row, parent, draft, q_);
    order_.resize(q_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return q_.p[a] != q_.p[b] ? q_.p[a] > q_.p[b] : a < b;  // ids ascend with the index
    });
    for (const std::size_t i : order_) draft.add(parent, q_.ids[i]);
  }

  int possible() const noexcept {
    return static_cast<int>(
        std::count_if(weights_.begin(), weights_.end(), [](double w) { return w > 0; }));
  }

  Context context_;
  SamplingOptions law_;
  DraftSampling how_ = DraftSampling::kArgmax;
  Siblings drawn_ = Siblings::kIndependent;
  bool padded_ = false;
  bool confident_ = false;
  static constexpr int kNone = -1;
  NodePaths paths_;
  int masked_of_ = kNone;      // the row whose forbidden tokens ...
  std::vector<float> masked_;  // ... are impossible here; [n_vocab]
  // Buffers.
  Transforms transforms_;
  Law q_;
  TemperedRow lazy_q_;
  std::vector<double> weights_;  // of q's tokens, 0 for those already taken
  std::vector<std::size_t> order_;
};

}  // namespace foredraft::inline v0
