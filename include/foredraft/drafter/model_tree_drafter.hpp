#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/sampling_checks.hpp>
#include <foredraft/drafter/best_first_tree.hpp>
#include <foredraft/drafter/draft_choice.hpp>
#include <foredraft/drafter/draft_model.hpp>
#include <foredraft/drafter/sibling_picker.hpp>

namespace foredraft::inline v0 {

struct ModelTreeSettings {
  /// Children of each node, by its depth: all nodes of depth i get branching[i] of them. What
  /// exceeds Limit::nodes is left out from the end of the level. The anchor has depth 0.
  std::vector<int> branching = {3, 2, 1, 1};
  /// How drawn siblings are made: kIndependent or kWithoutReplacement. The rule has to verify them.
  Siblings siblings = Siblings::kWithoutReplacement;
  DraftSampling sampling = DraftSampling::kAuto;
  /// The law that drafts are drawn from; absent: as the target is sampled.
  std::optional<SamplingOptions> law = {};
  /// The choice between drawn and argmax drafts, where kAuto leaves it open.
  DraftChoice choice = DraftChoice();
  /// Drafts of point masses grow where the model is surest, and do not have that shape. Drawn ones
  /// always have it: their shape is settled before any token is.
  std::optional<BestFirstSettings> best_first = {};
  /// Of a text that the model lags behind by more than this many tokens it reads the last ones. A
  /// controller asks for fewer than that where more would not pay.
  int tail = std::numeric_limits<int>::max();
};

/// A smaller model of the same vocabulary drafts a tree. Its shape is fixed before any token is drawn,
/// or follows what the model is sure of (BestFirstTree).
///
/// A node's number of children depends on the settings, the limit and how many tokens its own q
/// has, never on what was drawn elsewhere: so every child has the law q that is handed over. For
/// that reason equal independent siblings both stay, and children that a narrow q does not give are
/// not made up for by others.
/// @cost a forward pass of the draft model for each level but the last, with all its nodes as rows, or
/// those that are followed
/// @source independent siblings: Miao et al. 2023 (SpecInfer), arXiv:2305.09781; without
/// replacement: Jeon et al. 2024, arXiv:2402.14160, Chen et al. 2024 (Sequoia), arXiv:2402.12374
template <typename T, Cache C = DraftCacheFor<T>>
  requires Target<T, C>
class ModelTreeDrafter : public DrafterBase {
 public:
  using DraftCache = C;
  struct Snapshot {
    typename DraftModel<T, C>::Snapshot model;
    DraftChoice choice;

    /// Not the choice: it is learnt again, and not worth a format.
    static void parts(auto& self, auto& archive) { archive(self.model); }
  };

  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = Shape::kTree;

  /// @param n_ctx positions of its cache; 0: as many as it was trained for
  /// @errors kInvalidOption
  explicit ModelTreeDrafter(T& model, ModelTreeSettings settings = {}, int n_ctx = 0)
      : ModelTreeDrafter(model, C(model.shape(), n_ctx), std::move(settings)) {}
  ModelTreeDrafter(T& model, C cache, ModelTreeSettings settings)
      : model_(model, std::move(cache), settings.tail),
        settings_(std::move(settings)),
        way_(settings_.sampling, settings_.choice) {
    for (const int children : settings_.branching) {
      if (children >= 1 && children < DraftTree::kMaxNodes) continue;
      throw Error(ErrorCode::kInvalidOption, std::to_string(children) + " children in branching",
                  "1 to 63", "make the list shorter for a tree that is less deep");
    }
    if (settings_.law) check(*settings_.law);
    if (settings_.best_first) check(*settings_.best_first);
    if (settings_.siblings == Siblings::kPointMass) {
      throw Error(ErrorCode::kInvalidOption, "drawn siblings that are point mass",
                  "kIndependent or kWithoutReplacement",
                  "set sampling to kArgmax for the best tokens as point mass");
    }
  }

  int max_depth() const noexcept {
    const int levels = settings_.best_first ? DraftTree::kMaxNodes - 1 : planned_levels();
    return std::min({levels, model_.max_nodes(), DraftTree::kMaxNodes - 1});
  }

  std::optional<int> backlog(int n_tokens) const noexcept { return model_.backlog(n_tokens); }

  std::string summary() const { return model_.summary(); }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  void attach(const TargetInfo& target) const { model_.attach(target); }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    begin(context, limit, draft);
    while (request()) {
      model_.make_pass();
      advance(draft);
    }
  }

  /// The same in steps.
  void begin(const Context& context, Limit limit, DraftTree& draft) {
    const int room = model_.begin(context.tokens, limit.read, limit.read_at_once);
    const SamplingOptions law = settings_.law.value_or(context.sampling);
    const DraftSampling how = way_.begin(context, law);
    best_first_ = settings_.best_first && how != DraftSampling::kDrawn;
    picker_.begin(context, law, how, settings_.siblings, model_.vocab_size(),
                  best_first_ || limit.stop_below > 0);
    limit.depth = std::min({limit.depth, max_depth(), room});
    if (best_first_) {
      tree_.begin(draft, *settings_.best_first, limit, model_.max_nodes());
    } else {
      plan_ = Plan{.depth = std::min(limit.depth, planned_levels()),
                   .left = std::min(limit.nodes, DraftTree::kMaxNodes - 1),
                   .stop_below = limit.stop_below};
    }
    next(draft);
  }
  std::optional<Request<C>> request() noexcept { return model_.request(); }
  void advance(DraftTree& draft, double = 0) {
    if (model_.advance()) {
      if (best_first_) {
        tree_.grow(draft, [this](NodeIndex node, NodeIndex row, int count, DraftTree& to) {
          picker_.add(node, count, model_.scores(), model_.row(row), to);
        });
      } else {
        grow(draft);
      }
    }
    next(draft);
  }

  // The prompt is read when the first draft is wanted, so there is nothing to absorb.
  void commit(const Round& round) noexcept {
    model_.commit(round);
    way_.learn(round);
  }

  void truncate(int n) noexcept {
    model_.truncate(n);
    way_.reset();
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const { return {model_.snapshot(), way_.choice()}; }
  void restore(const Snapshot& snapshot) {
    model_.restore(snapshot.model);
    way_.restore(snapshot.choice);
  }

  const C& cache() const noexcept { return model_.cache(); }
  const DraftChoice& choice() const noexcept { return way_.choice(); }

 protected:
  C& draft_cache() noexcept { return model_.cache(); }

 private:
  /// What is left to be drafted, level by level. Every node has a place in the planned tree; a
  /// narrow q leaves places empty, and those below them, but moves nobody. Children of place i of a
  /// level take the places i * branches and on.
  struct Plan {
    int depth = 0;         // levels
    int left = 0;          // nodes
    float stop_below = 0;  // path probability
    int level = 0;         // the one that gets children next ...
    NodeIndex first = 0;   // ... its first node ...
    int planned = 1;       // ... and its places
    int rows = 0;          // of all levels so far
    std::array<int, DraftTree::kMaxNodes> place = {};
  };

  int planned_levels() const noexcept { return static_cast<int>(settings_.branching.size()); }
  int branches() const noexcept { return settings_.branching[idx(plan_.level)]; }
  int children() const noexcept { return std::min(plan_.planned * branches(), plan_.left); }

  /// Ask for the rows of the next level, once the draft model has caught up and where there is one.
  void next(const DraftTree& draft) {
    way_.drafted(draft);
    if (best_first_) {
      if (model_.request() || !tree_.open()) return;
      return model_.expand(tree_.followed(), picker_.want(settings_.best_first->children));
    }
    if (model_.request() || plan_.level >= plan_.depth || plan_.left <= 0) return;
    if (plan_.stop_below > 0 && plan_.level > 0 && best_path(draft) < plan_.stop_below) return;
    plan_.rows += plan_.planned;
    if (plan_.rows > model_.max_nodes()) return;
    model_.expand(draft, picker_.want(std::min(branches(), children())));
  }

  /// Probability of the best path to the newest level, by the draft model's own confidence.
  float best_path(const DraftTree& draft) const noexcept {
    float best = 0;
    for (NodeIndex node = plan_.first; node < draft.size(); ++node) {
      float path = 1;
      for (NodeIndex i = node; i > 0; i = draft.parent(i)) path *= draft.confidence(i);
      best = std::max(best, path);
    }
    return best;
  }

  /// Give the nodes of this level, whose rows are there, their children.
  void grow(DraftTree& draft) {
    const int born = children();
    const NodeIndex end = draft.size();
    for (NodeIndex node = plan_.first; node < end; ++node) {
      const int begin = plan_.place[idx(node)] * branches();
      const NodeIndex first_child = draft.size();
      picker_.add(node, std::min(branches(), born - begin), model_.scores(), model_.row(node),
                  draft);
      for (NodeIndex child = first_child; child < draft.size(); ++child) {
        plan_.place[idx(child)] = begin + child - first_child;
      }
    }
    plan_.first = end;
    plan_.left -= born;
    plan_.planned = born;
    ++plan_.level;
  }

  DraftModel<T, C> model_;
  ModelTreeSettings settings_;
  SiblingPicker picker_;
  Plan plan_;
  BestFirstTree tree_;
  bool best_first_ = false;  // the draft of the round is that tree, not the planned one
  DraftWay way_;
};

}  // namespace foredraft::inline v0
