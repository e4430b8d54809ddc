#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <foredraft/cache/linear.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/detail/round_parts.hpp>
#include <foredraft/sampling/transforms.hpp>

namespace foredraft::inline v0 {

/// How a draft model picks its tokens.
enum class DraftSampling : std::uint8_t {
  /// The best of the three: argmax at temperature 0; above it coupled for rules that make no use of
  /// q, else drawn.
  kAuto,
  kArgmax,   ///< its best token, as point mass
  kCoupled,  ///< sampled with the noise that will sample the target, as point mass: agrees far more
             ///< often than chance
  kDrawn,    ///< drawn from q, which is handed over
};

struct ModelDrafterSettings {
  DraftSampling sampling = DraftSampling::kAuto;
  /// The law that drafts are drawn from; absent: as the target is sampled.
  std::optional<SamplingOptions> law = {};
};

/// A smaller model of the same vocabulary drafts.
///
/// It has a cache of its own. What that cache lacks of the final tokens (after full acceptance,
/// rounds without a draft, a new prompt) is forwarded first. The rows of drafted tokens stay staged
/// until the round is decided; those that turned out final are kept, the others vanish.
/// @cost depth forward passes of the draft model with one row each
/// @source Leviathan et al. 2023, arXiv:2211.17192
template <typename T, Cache C = LinearCache<f16>>
  requires Target<T, C>
class ModelDrafter {
 public:
  struct Snapshot {
    typename C::Snapshot cache;
  };

  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = Shape::kChain;

  /// @param n_ctx positions of its cache; 0: as many as it was trained for
  explicit ModelDrafter(T& model, ModelDrafterSettings settings = {}, int n_ctx = 0)
      : ModelDrafter(model, C(model.shape(), n_ctx), std::move(settings)) {}
  ModelDrafter(T& model, C cache, ModelDrafterSettings settings)
      : model_(&model), cache_(std::move(cache)), settings_(std::move(settings)) {}

  int max_depth() const noexcept { return std::min(cache_.max_staged(), DraftTree::kMaxNodes - 1); }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  template <typename Other>
  void check_target(const Other& target) const {
    if constexpr (requires { check_same_vocabulary(target, *model_); }) {
      check_same_vocabulary(target, *model_);
    } else if (target.vocab_size() != model_->vocab_size()) {
      throw Error(ErrorCode::kVocabularyMismatch,
                  "a draft vocabulary of " + std::to_string(model_->vocab_size()),
                  std::to_string(target.vocab_size()), "draft with a model of the same family");
    }
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    cache_.discard();  // of a round that failed
    catch_up(context.tokens);
    const int depth = std::min({limit.depth, limit.nodes, cache_.max_staged(),
                                cache_.capacity() - static_cast<int>(context.tokens.size()) + 1});
    const SamplingOptions law = settings_.law.value_or(context.sampling);
    const DraftSampling sampling = resolve(context, law);
    for (NodeIndex node = 0; node < depth; ++node) {
      forward_node(draft.token(node), node,
                   sampling == DraftSampling::kArgmax ? RowNeed::kArgmax : RowNeed::kLogits);
      draft.add(node, choose(context, law, sampling, node, draft));
    }
  }

  void absorb(const PromptBlock&) const noexcept {
  }  // catch_up reads the prompt when the first draft is wanted

  /// Keep the staged rows that are final: the anchor and each drafted token that stands where it
  /// was drafted. Like the target's cache it never holds the last final token.
  void commit(const Round& round) noexcept {
    int kept = 0;
    if (cache_.staged() > 0 && cache_.size() == round.anchor_position) {
      const int most = std::min(cache_.staged(), static_cast<int>(round.tokens.size()));
      kept = 1;
      while (kept < most && staged_[static_cast<std::size_t>(kept)] ==
                                round.tokens[static_cast<std::size_t>(kept) - 1])
        ++kept;
    }
    std::array<NodeIndex, DraftTree::kMaxNodes> path;
    for (int i = 0; i < kept; ++i) path[static_cast<std::size_t>(i)] = i;
    cache_.commit({path.data(), static_cast<std::size_t>(kept)});
    cache_.discard();
  }

  void truncate(int n) noexcept {
    if constexpr (Truncatable<C>) {
      cache_.truncate(n);
    } else if (n < cache_.size()) {
      cache_.restore(typename C::Snapshot{});
    }
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const { return {cache_.snapshot()}; }
  void restore(const Snapshot& snapshot) { cache_.restore(snapshot.cache); }

  const C& cache() const noexcept { return cache_; }

 private:
  static constexpr int kBlock =
      512;  // catch-up rows per pass: long enough that weights are read seldom

  DraftSampling resolve(const Context& context, const SamplingOptions& law) const noexcept {
    if (law.greedy()) return DraftSampling::kArgmax;
    if (settings_.sampling != DraftSampling::kAuto) return settings_.sampling;
    return context.uses_law ? DraftSampling::kDrawn : DraftSampling::kCoupled;
  }

  /// Forward and commit the final tokens that the cache lacks, all but the anchor, as far as the
  /// cache reaches.
  void catch_up(std::span<const TokenId> tokens) {
    const int rows = std::min(static_cast<int>(tokens.size()) - 1, cache_.capacity());
    while (cache_.size() < rows) {
      const int begin = cache_.size();
      const int count = std::min({rows - begin, kBlock, cache_.max_staged()});
      cache_.stage(detail::chain_of(tokens, begin, count));
      forward(0, count, RowNeed::kNothing);
      cache_.commit(detail::first_nodes(count));
    }
  }

  void forward_node(TokenId token, NodeIndex node, RowNeed need) {
    const Node staged{token, node - 1};
    staged_[static_cast<std::size_t>(node)] = token;
    cache_.stage({&staged, 1});
    forward(node, 1, need);
  }

  void forward(NodeIndex first, int count, RowNeed need) {
    Request<C> request{&cache_, first, count, {need, {}}, &scores_};
    model_->forward(std::span<Request<C>>(&request, 1));
  }

  /// The token after `node`, whose row has just been computed.
  TokenId choose(const Context& context, const SamplingOptions& law, DraftSampling sampling,
                 NodeIndex node, DraftTree& draft) {
    if (sampling == DraftSampling::kArgmax) {
      const TokenId best = scores_.argmax(0);
      if (best >= 0) return best;
      throw Error(ErrorCode::kInvalidLogits, "a row of the draft model with NaN or no finite value",
                  "finite logits", "the draft model's weights are damaged");
    }
    const bool drawn = sampling == DraftSampling::kDrawn;
    Law& q = drawn ? draft.drawn_from(node) : scratch_;
    transforms_.apply(law, scores_.logits(0), q);
    const RngKey key =
        drawn ? RngKey{Purpose::kDraft, context.anchor_position(), node}
              : RngKey{Purpose::kTargetSample, context.anchor_position() + node + 1, 0};
    return q.ids[context.rng->categorical(key, q.ids, q.p)];
  }

  T* model_;
  C cache_;
  ModelDrafterSettings settings_;
  std::array<TokenId, DraftTree::kMaxNodes>
      staged_{};  // tokens of the staged rows: the anchor, then drafts
  Scores scores_;
  Transforms transforms_;
  Law scratch_;
};

}  // namespace foredraft::inline v0
