#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>

/// A drafter that holds its caller to the contract of Drafter, to the letter, and leaves the
/// drafting to another one. What is broken is noted, because half of the contract is noexcept.
template <foredraft::Drafter D>
class StrictDrafter {
  using TokenId = foredraft::TokenId;

  /// All that a drafter can know of its sequence.
  struct Knowledge {
    std::vector<TokenId> tokens;  // final ones; without the newest, while `anchor_open`
    bool anchor_open = true;      // the newest final token has not been named yet
    bool begun = false;           // a round has been committed since the prompt was read
  };

 public:
  static constexpr foredraft::Proposal proposal = D::proposal;
  static constexpr foredraft::Shape shape = D::shape;
  static constexpr bool controls = true;  // it is to see every call
  struct Snapshot {
    typename D::Snapshot inner;
    Knowledge known;
  };

  /// What calls there were, so that a test can see that there were all kinds of them.
  struct Log {
    std::vector<std::string> broken;
    int proposed = 0, idle = 0, absorbed = 0, committed = 0, cold = 0, truncated = 0, restored = 0;
  };

  explicit StrictDrafter(D inner) : inner_(std::move(inner)) {}

  const Log& log() const noexcept { return *log_; }

  int max_depth() const { return inner_.max_depth(); }
  std::span<const int> taps() const { return inner_.taps(); }
  std::optional<int> backlog(int n_tokens) const { return inner_.backlog(n_tokens); }
  std::string summary() const { return inner_.summary(); }
  bool continues() const { return inner_.continues(); }
  foredraft::RowNeed needs() const { return inner_.needs(); }

  void attach(const foredraft::TargetInfo& target) {
    expect(target.n_vocab > 0, "a target with a vocabulary");
    expect(!attached_ && log_->absorbed + log_->proposed + log_->idle + log_->truncated == 0,
           "once, before any other call");
    attached_ = true;
    inner_.attach(target);
  }

  void propose(const foredraft::Context& context, foredraft::Limit limit,
               foredraft::DraftTree& draft) {
    expect(draft.size() == 1 && draft.token(0) == context.anchor(), "the draft is the anchor");
    expect(limit.depth >= 0 && limit.depth <= max_depth(), "a depth within max_depth()");
    expect(limit.nodes >= limit.depth && limit.nodes < foredraft::DraftTree::kMaxNodes,
           "nodes for the whole depth, and no more than a tree holds");
    expect((limit.depth == 0) == (limit.nodes == 0), "nodes if and only if there is depth");
    expect(context.rng != nullptr && context.assumed.empty(), "a source of randomness, no guesses");
    expect(std::all_of(context.tokens.begin(), context.tokens.end(),
                       [&](TokenId token) { return token >= 0 && token < context.n_vocab; }),
           "tokens of the vocabulary");
    expect(context.tokens.size() == known_.tokens.size() + (known_.anchor_open ? 1 : 0) &&
               std::equal(known_.tokens.begin(), known_.tokens.end(), context.tokens.begin()),
           "the final tokens that were absorbed and committed, no other and none missing");
    known_.tokens.assign(context.tokens.begin(), context.tokens.end());
    known_.anchor_open = false;
    ++(limit.depth > 0 ? log_->proposed : log_->idle);
    inner_.propose(context, limit, draft);
    proposed_.assign(draft.nodes().begin(), draft.nodes().end());
  }

  void absorb(const foredraft::PromptBlock& block) {
    expect(known_.anchor_open && !known_.begun, "a prompt before its first round");
    expect(!block.tokens.empty(), "a block of some tokens");
    expect(block.begin == static_cast<foredraft::Position>(known_.tokens.size()),
           "each block behind the one before");
    expect(block.scores != nullptr && block.scores->rows() == static_cast<int>(block.tokens.size()),
           "a row for each token");
    inner_.absorb(block);  // where it throws, nothing has happened
    known_.tokens.insert(known_.tokens.end(), block.tokens.begin(), block.tokens.end());
    ++log_->absorbed;
  }

  void commit(const foredraft::Round& round) noexcept {
    const foredraft::DraftTree& draft = round.draft;
    if (known_.anchor_open) known_.tokens.push_back(draft.token(0));
    known_.anchor_open = false;
    if (!known_.begun && proposed_.empty()) {
      expect(draft.size() == 1, "a first round without a draft");
      ++log_->cold;
    } else {
      expect(std::equal(draft.nodes().begin(), draft.nodes().end(), proposed_.begin(),
                        proposed_.end()),
             "the draft that was proposed for this round");
    }
    expect(round.anchor_position + 1 == static_cast<foredraft::Position>(known_.tokens.size()) &&
               known_.tokens.back() == draft.token(0),
           "the anchor is the newest final token");
    expect(!round.path.empty() && round.path.size() == round.tokens.size() && round.path[0] == 0,
           "a path from the anchor on, and as many tokens");
    for (std::size_t i = 1; i < round.path.size(); ++i) {
      expect(draft.parent(round.path[i]) == round.path[i - 1] &&
                 draft.token(round.path[i]) == round.tokens[i - 1],
             "a path from parent to child, with the tokens of its nodes");
    }
    expect(round.scores.rows() == draft.size(), "a row for each node");
    known_.tokens.insert(known_.tokens.end(), round.tokens.begin(), round.tokens.end());
    known_.begun = true;
    proposed_.clear();
    ++log_->committed;
    inner_.commit(round);
  }

  void truncate(int n) noexcept {
    expect(n >= 0 && n <= static_cast<int>(known_.tokens.size()), "a part of the final tokens");
    known_.tokens.resize(std::min(known_.tokens.size(), foredraft::idx(std::max(n, 0))));
    known_.anchor_open = true;
    known_.begun = false;
    proposed_.clear();
    ++log_->truncated;
    inner_.truncate(n);
  }
  void reset() noexcept {
    truncate(0);
    inner_.reset();
  }
  Snapshot snapshot() const { return {inner_.snapshot(), known_}; }
  void restore(const Snapshot& snapshot) {
    inner_.restore(snapshot.inner);
    known_ = snapshot.known;
    proposed_.clear();
    ++log_->restored;
  }

 private:
  void expect(bool holds, const char* what) noexcept {
    if (!holds) log_->broken.emplace_back(what);
  }

  D inner_;
  Knowledge known_;
  bool attached_ = false;
  std::vector<foredraft::Node> proposed_;  // for a round that is not over; empty: nothing was
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
};
