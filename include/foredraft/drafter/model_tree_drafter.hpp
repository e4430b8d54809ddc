#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
};

/// A smaller model of the same vocabulary drafts a tree, whose shape is fixed before any token is
/// drawn.
///
/// A node's number of children depends on the settings, the limit and how many tokens its own q
/// has, never on what was drawn elsewhere: so every child has the law q that is handed over. For
/// that reason equal independent siblings both stay, and children that a narrow q does not give are
/// not made up for by others.
/// @cost a forward pass of the draft model for each level but the last, with all its nodes as rows
/// @source independent siblings: Miao et al. 2023 (SpecInfer), arXiv:2305.09781; without
/// replacement: Jeon et al. 2024, arXiv:2402.14160, Chen et al. 2024 (Sequoia), arXiv:2402.12374
template <typename T, Cache C = LinearCache<f16>>
  requires Target<T, C>
class ModelTreeDrafter {
 public:
  struct Snapshot {
    typename DraftModel<T, C>::Snapshot model;
    DraftChoice choice;
  };

  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = Shape::kTree;

  /// @param n_ctx positions of its cache; 0: as many as it was trained for
  /// @errors kInvalidOption
  explicit ModelTreeDrafter(T& model, ModelTreeSettings settings = {}, int n_ctx = 0)
      : ModelTreeDrafter(model, C(model.shape(), n_ctx), std::move(settings)) {}
  ModelTreeDrafter(T& model, C cache, ModelTreeSettings settings)
      : model_(model, std::move(cache)), settings_(std::move(settings)), choice_(settings_.choice) {
    for (const int children : settings_.branching) {
      if (children >= 1 && children < DraftTree::kMaxNodes) continue;
      throw Error(ErrorCode::kInvalidOption, std::to_string(children) + " children in branching",
                  "1 to 63", "make the list shorter for a tree that is less deep");
    }
    if (settings_.law) check(*settings_.law);
    if (settings_.siblings == Siblings::kPointMass) {
      throw Error(ErrorCode::kInvalidOption, "drawn siblings that are point mass",
                  "kIndependent or kWithoutReplacement",
                  "set sampling to kArgmax for the best tokens as point mass");
    }
  }

  int max_depth() const noexcept {
    return std::min({static_cast<int>(settings_.branching.size()), model_.max_nodes(),
                     DraftTree::kMaxNodes - 1});
  }

  /// @errors kVocabularyMismatch, naming the first piece in which the two vocabularies differ
  template <typename Other>
  void check_target(const Other& target) const {
    model_.check_target(target);
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    const int room = model_.begin(context.tokens);
    const SamplingOptions law = settings_.law.value_or(context.sampling);
    how_ = resolve(context, law);
    picker_.begin(context, law, how_, settings_.siblings, model_.vocab_size());

    // Every node has a place in the planned tree; a narrow q leaves places empty, and those below
    // them, but moves nobody. Children of place i of a level take the places i * branches and on.
    std::array<int, DraftTree::kMaxNodes> place{};
    const int depth = std::min({limit.depth, max_depth(), room});
    int left = std::min(limit.nodes, DraftTree::kMaxNodes - 1);
    int planned = 1;  // places of this level
    int rows = 0;     // of all levels so far
    NodeIndex first = 0;
    for (int level = 0; level < depth && left > 0; ++level) {
      rows += planned;
      if (rows > model_.max_nodes()) break;
      const int branches = settings_.branching[index(level)];
      const int children = std::min(planned * branches, left);
      const NodeIndex end = draft.size();
      model_.forward(draft, picker_.want(std::min(branches, children)));
      for (NodeIndex node = first; node < end; ++node) {
        const int begin = place[index(node)] * branches;
        const NodeIndex born = draft.size();
        picker_.add(node, std::min(branches, children - begin), model_.scores(), model_.row(node),
                    draft);
        for (NodeIndex child = born; child < draft.size(); ++child) {
          place[index(child)] = begin + child - born;
        }
      }
      first = end;
      left -= children;
      planned = children;
    }
    n_own_ = draft.size();
    std::copy(draft.nodes().begin(), draft.nodes().end(), own_.begin());
  }

  void absorb(const PromptBlock&) const noexcept {
  }  // the prompt is read when the first draft is wanted

  void commit(const Round& round) noexcept {
    model_.commit(round);
    learn(round);
  }

  void truncate(int n) noexcept {
    model_.truncate(n);
    // Another text begins, even if with the same words: a seed's text must not depend on what was
    // generated before.
    choice_ = settings_.choice;
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const { return {model_.snapshot(), choice_}; }
  void restore(const Snapshot& snapshot) {
    model_.restore(snapshot.model);
    choice_ = snapshot.choice;
  }

  const C& cache() const noexcept { return model_.cache(); }
  const DraftChoice& choice() const noexcept { return choice_; }

 private:
  static std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }

  /// Decided from settings and past rounds, before anything is drawn.
  DraftSampling resolve(const Context& context, const SamplingOptions& law) noexcept {
    choosing_ = false;
    if (law.greedy()) return DraftSampling::kArgmax;
    if (settings_.sampling != DraftSampling::kAuto) return settings_.sampling;
    if (context.sampling.greedy()) return DraftSampling::kArgmax;
    if (!context.uses_law) return DraftSampling::kCoupled;
    choosing_ = true;
    return choice_.way();
  }

  /// Only rounds that verified this drafter's own draft say something about its ways.
  void learn(const Round& round) noexcept {
    const std::span<const Node> nodes = round.draft.nodes();
    const int depth = round.draft.max_depth();
    if (!choosing_ || depth == 0 ||
        !std::equal(nodes.begin(), nodes.end(), own_.begin(), own_.begin() + n_own_))
      return;
    const int accepted = static_cast<int>(round.path.size()) - 1;
    // Behind the accepted positions one more was tried, unless draft or round ended there.
    const int tried = std::min({accepted + 1, depth, static_cast<int>(round.tokens.size())});
    choice_.learn(how_, accepted, tried);
  }

  DraftModel<T, C> model_;
  ModelTreeSettings settings_;
  SiblingPicker picker_;
  DraftChoice choice_;
  bool choosing_ = false;                         // the last draft's way was chosen ...
  DraftSampling how_ = {};                        // ... and is this one
  std::array<Node, DraftTree::kMaxNodes> own_{};  // the last draft
  int n_own_ = 0;
};

}  // namespace foredraft::inline v0
