#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/constraint.hpp>
#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Where an answer stands under a constraint: the constraint's state, and whether an end token was
/// among the tokens. A value: whoever looks ahead makes a copy, and only what is committed replaces
/// the one of the sequence.
class ConstraintPath {
 public:
  /// No constraint.
  ConstraintPath() = default;
  /// The beginning of an answer.
  /// @param ends  tokens that end a text: legal where the constraint may end, and only there
  ConstraintPath(AnyConstraint constraint, std::shared_ptr<const std::vector<TokenId>> ends)
      : constraint_(std::move(constraint)), ends_(std::move(ends)), state_(constraint_.start()) {}

  const AnyConstraint& constraint() const noexcept { return constraint_; }
  /// Nothing more may follow, not even an end token: the text is over.
  bool over() const { return ended_ || (state_ && constraint_.finished(state_)); }
  /// The path that led here was forbidden: nothing is said of what follows.
  bool dead() const noexcept { return !ended_ && !state_; }

  bool allows(TokenId token) const { return !ConstraintPath(*this).step(token).dead(); }

  /// Go on with a token. Behind a forbidden one the path is dead, and stays so.
  ConstraintPath& step(TokenId token) {
    if (ended_ || !state_) {
      ended_ = false;
      state_ = nullptr;
    } else if (is_end(token)) {
      ended_ = constraint_.may_end(state_);
      state_ = nullptr;
    } else {
      state_ = constraint_.next(state_, token);
    }
    return *this;
  }

  /// A row in which forbidden tokens are impossible.
  /// @param out  room for it @shape row, out [n_vocab]
  /// @return whether any is left
  /// @cost O(n_vocab), and that of the constraint's mask
  bool forbid(std::span<const float> row, std::vector<float>& out) const {
    constexpr float kImpossible = -std::numeric_limits<float>::infinity();
    out.assign(row.size(), kImpossible);
    bool any = false;
    const auto allow = [&](TokenId token) {
      if (idx(token) >= row.size()) return;  // a draft model may know fewer tokens
      out[idx(token)] = row[idx(token)];
      any = any || row[idx(token)] != kImpossible;
    };
    if (state_) {
      constraint_.mask(state_)->for_each([&](TokenId token) {
        if (!is_end(token)) allow(token);
      });
      if (constraint_.may_end(state_)) std::for_each(ends_->begin(), ends_->end(), allow);
    }
    return any;
  }

  std::vector<TokenId> forced(int n) const {
    if (!state_) return {};
    return constraint_.forced(state_, n);
  }

 private:
  bool is_end(TokenId token) const noexcept {
    return std::binary_search(ends_->begin(), ends_->end(), token);
  }

  AnyConstraint constraint_;
  std::shared_ptr<const std::vector<TokenId>> ends_;  // ascending
  AnyConstraint::State state_;                        // null: ended or dead
  bool ended_ = false;
};

/// The path to each node of a draft, worked out once.
class NodePaths {
 public:
  /// @param anchor  the path to node 0
  void begin(const ConstraintPath& anchor) {
    paths_.resize(1);
    paths_[0] = anchor;
  }

  /// Nodes may have been added since the last call, not changed.
  const ConstraintPath& at(const DraftTree& draft, NodeIndex node) {
    while (paths_.size() <= idx(node)) {
      const auto next = static_cast<NodeIndex>(paths_.size());
      ConstraintPath path = paths_[idx(draft.parent(next))];
      path.step(draft.token(next));
      paths_.push_back(std::move(path));
    }
    return paths_[idx(node)];
  }

 private:
  std::vector<ConstraintPath> paths_;  // [nodes looked at]
};

/// Take away found tokens that the constraint forbids, and all behind them: they would be rejected,
/// and cost a row each. Drawn tokens stay: to drop one because of what it is would change the law of
/// the others. What follows the end of the text is taken away, too.
/// @param anchor  the path to node 0
inline void drop_forbidden(const ConstraintPath& anchor, DraftTree& draft) {
  NodePaths paths;
  paths.begin(anchor);
  std::uint64_t keep = 1;
  for (NodeIndex node = 1; node < draft.size(); ++node) {
    const NodeIndex parent = draft.parent(node);
    const bool drawn = draft.siblings(parent) != Siblings::kPointMass;
    const bool reached = (keep >> parent & 1) != 0;
    if (reached && (drawn || !paths.at(draft, node).dead())) keep |= std::uint64_t{1} << node;
  }
  draft.keep_only(keep);
}

}  // namespace foredraft::inline v0
