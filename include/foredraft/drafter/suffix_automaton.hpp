#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/drafter/pair_table.hpp>

namespace foredraft::inline v0 {

/// The smallest automaton that reads every string of a text, built token by token, and with it the
/// longest suffix of the text that occurred before.
///
/// A state stands for all strings that end at the same places. To add a token finds the longest
/// suffix that occurred before: it is what the state of the whole text is linked to.
///
/// Bound: at most 2 states and 3 edges a token, at most 250 bytes a token, or 380 while it grows.
/// @cost append amortized O(1)
/// @source Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text"
class SuffixAutomatonIndex {
 public:
  struct Match {
    int length = 0;
    int end = 0;  ///< its newest earlier place: that of its last token, the first appended is at 0
  };

  void clear() noexcept {
    states_.clear();
    edges_.clear();
    table_.clear();
    last_ = 0;
    match_ = {};
  }
  int size() const noexcept { return states_.empty() ? 0 : states_[idx(last_)].length; }
  int states() const noexcept { return static_cast<int>(states_.size()); }
  int edges() const noexcept { return static_cast<int>(edges_.size()); }
  /// The longest suffix that occurred before.
  Match match() const noexcept { return match_; }

  /// @errors std::bad_alloc; it has to be cleared then
  void append(TokenId token) {
    if (states_.empty()) states_.push_back({.link = kNone});
    const int place = size();
    const std::int32_t now = add_state({.length = place + 1, .end = place});
    std::int32_t state = last_;
    while (state != kNone && table_.find(state, token) == kNone) {
      add_edge(state, token, now);
      state = states_[idx(state)].link;
    }
    std::int32_t found = kRoot;
    if (state != kNone) {
      found = edges_[idx(table_.find(state, token))].to;
      if (states_[idx(found)].length != states_[idx(state)].length + 1) {
        found = split(found, state, token);
      }
    }
    states_[idx(now)].link = found;
    match_ = {states_[idx(found)].length, states_[idx(found)].end};
    note_place(found, place);
    last_ = now;
  }

 private:
  static constexpr std::int32_t kNone = PairTable::kNone;
  static constexpr std::int32_t kRoot = 0;
  /// Newest places are kept for so many of the suffixes at each place, longest first. All texts but
  /// those of one repeated token have fewer.
  static constexpr int kNoted = 64;

  struct State {
    std::int32_t length = 0;    // of its longest string
    std::int32_t link = kRoot;  // state of the longest suffix that has more places
    std::int32_t end = 0;       // newest place, as far as kNoted goes
    std::int32_t first_edge = kNone;
  };
  struct Edge {
    TokenId token = 0;
    std::int32_t to = 0;
    std::int32_t next = kNone;  // of the same state
  };

  std::int32_t add_state(const State& state) {
    states_.push_back(state);
    return static_cast<std::int32_t>(states_.size()) - 1;
  }
  void add_edge(std::int32_t from, TokenId token, std::int32_t to) {
    const auto edge = static_cast<std::int32_t>(edges_.size());
    table_.set(from, token, edge);
    edges_.push_back({token, to, states_[idx(from)].first_edge});
    states_[idx(from)].first_edge = edge;
  }

  /// The strings of `state` up to that behind `from` have one more place than the others: they get
  /// a state of their own.
  std::int32_t split(std::int32_t state, std::int32_t from, TokenId token) {
    const State old = states_[idx(state)];
    const std::int32_t shorter =
        add_state({.length = states_[idx(from)].length + 1, .link = old.link, .end = old.end});
    for (std::int32_t edge = old.first_edge; edge != kNone; edge = edges_[idx(edge)].next) {
      const Edge copied = edges_[idx(edge)];
      add_edge(shorter, copied.token, copied.to);
    }
    while (from != kNone) {
      const std::int32_t edge = table_.find(from, token);
      if (edge == kNone || edges_[idx(edge)].to != state) break;
      edges_[idx(edge)].to = shorter;
      from = states_[idx(from)].link;
    }
    states_[idx(state)].link = shorter;
    return shorter;
  }

  void note_place(std::int32_t state, int place) noexcept {
    for (int i = 0; state != kRoot && i < kNoted; ++i) {
      states_[idx(state)].end = place;
      state = states_[idx(state)].link;
    }
  }

  std::vector<State> states_;  // the root first
  std::vector<Edge> edges_;
  PairTable table_;        // (state, token) -> edge
  std::int32_t last_ = 0;  // state of the whole text
  Match match_;
};

/// Finds the longest earlier occurrence of the text's end, however long, and proposes what followed
/// it there. Of several places it takes the newest: texts repeat what is near more often than what
/// is far, and a phrase that changed is repeated as it is now.
///
/// The same as PromptLookup without its limits: no hash, no bound on candidates or on the match,
/// and what a proposal costs does not depend on the text.
///
/// Bound: SuffixAutomatonIndex of max_history tokens. Of a longer text the newest half is indexed
/// again, as is a text that was cut back.
/// @cost a new token amortized O(1), a proposal O(drafted)
/// @source Hu et al. 2024, "SAM Decoding", arXiv:2411.10666
class SuffixAutomaton : public DrafterBase {
 public:
  struct Settings {
    int min_match = 2;              ///< shorter matches are chance more often than not
    double tokens_per_match = 2.0;  ///< drafted tokens for each token of the match
    int max_history = 1 << 16;      ///< tokens that are searched, at least the newest half of them
  };

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  /// Nothing: another text is indexed when it is drafted for.
  struct Snapshot {};

  SuffixAutomaton() : SuffixAutomaton(Settings{}) {}
  /// @errors kInvalidOption
  explicit SuffixAutomaton(const Settings& settings) : settings_(settings) {
    if (settings.min_match < 1 || !(settings.tokens_per_match > 0) || settings.max_history < 2 ||
        settings.max_history > 1 << 28) {
      throw Error(ErrorCode::kInvalidOption, "settings of SuffixAutomaton out of range",
                  "min_match >= 1, tokens_per_match > 0, max_history from 2 to 2^28");
    }
  }

  int max_depth() const noexcept { return DraftTree::kMaxNodes - 1; }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    const std::span<const TokenId> tokens = context.tokens;
    catch_up(tokens);
    const SuffixAutomatonIndex::Match match = index_.match();
    if (match.length < settings_.min_match) return;
    const auto length = static_cast<int>(std::min<double>(
        std::min(limit.depth, limit.nodes), match.length * settings_.tokens_per_match));
    for (int i = 0; i < length; ++i) {
      const std::size_t from = begin_ + idx(match.end + 1 + i);
      // A copy that runs into the end of the text goes on with what it has just proposed.
      const TokenId token = from < tokens.size()
                                ? tokens[from]
                                : draft.token(static_cast<NodeIndex>(from - tokens.size() + 1));
      const float matched = static_cast<float>(match.length + i);
      draft.set_confidence(draft.extend(token), matched / (matched + 1));
    }
  }

  void truncate(int n) noexcept {
    if (idx(std::max(n, 0)) < indexed_) clear();
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) noexcept { clear(); }

  const SuffixAutomatonIndex& index() const noexcept { return index_; }

 private:
  void clear() noexcept {
    index_.clear();
    begin_ = indexed_ = 0;
  }

  void catch_up(std::span<const TokenId> tokens) {
    try {
      for (; indexed_ < tokens.size(); ++indexed_) {
        if (index_.size() == settings_.max_history) {
          index_.clear();
          begin_ = indexed_ -= idx(settings_.max_history / 2);
        }
        index_.append(tokens[indexed_]);
      }
    } catch (...) {
      clear();
      throw;
    }
  }

  Settings settings_;
  SuffixAutomatonIndex index_;
  std::size_t begin_ = 0;    // of the indexed part of the text ...
  std::size_t indexed_ = 0;  // ... and its end
};

static_assert(Drafter<SuffixAutomaton>);

}  // namespace foredraft::inline v0
