#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/lookahead_pool.hpp>

namespace foredraft::inline v0 {

/// Sizes of Lookahead: W, N and G of the paper. A whole draft has (window + guesses) (ngram - 1)
/// rows with the anchor's: 30 here. llama.cpp's example has 15, 5 and 15, for machines where 120
/// rows cost as much as one.
struct LookaheadSettings {
  int window = 5;       ///< places behind the anchor that are guessed at the same time
  int ngram = 4;        ///< tokens of an n-gram, the one that it is looked up by included
  int guesses = 5;      ///< n-grams that are kept of a token, and drafted behind it
  int max_keys = 4096;  ///< tokens that have n-grams, a multiple of 8
};

/// Lookahead decoding: an experiment that drafts from nothing but the target's own guesses.
///
/// What will follow is a fixed point: tokens each of which is the target's best behind those
/// before. Jacobi's iteration looks for it from any guess, all places in one pass. What it passes
/// through on its way are n-grams that the target finds likely. They are kept, and those that begin
/// with the anchor are drafted.
///
/// A draft is one tree of two parts. *Window*: a chain of guesses behind the anchor, level 0, and
/// from each of its nodes, the anchor included, a column of ngram - 2 more levels. A level holds
/// what the target answered to the level below, a round ago. The row at a column's end is the
/// newest answer; with the column it is an n-gram. Places without an answer hold tokens of the
/// text. *Guesses*: the n-grams of the anchor. What columns and guesses have in common is there
/// once: the window is a chain at first, and again wherever it has found what follows.
///
/// Most of the window is there to be computed, not to be accepted. A controller leaves out what
/// does not pay by itself, and without a window nothing is learnt. So use it alone, with a fixed
/// Options::n_draft of at least window + ngram - 3, and with a rule that verifies trees. Of a draft
/// that was pruned the columns that are whole are learnt from. Where the limit is narrow, the
/// window has fewer columns, and comes before the guesses.
///
/// N-grams outlive the text: they are about tokens. So under rules that test with q a seed does not
/// reproduce a text unless forget() comes first; greedy and matched texts stay the same. Any cut
/// drops the window.
///
/// It pays where a pass of 30 rows takes hardly longer than one of a single row, as on an idle GPU,
/// and where no cheaper drafter finds the same. On a CPU expect it to lose.
///
/// Bound: LookaheadPool, 311 kB by default.
/// @cost a proposal and a commit some microseconds; what it costs are the target's rows
/// @source Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead
/// Decoding", arXiv:2402.02057
class Lookahead : public DrafterBase {
 public:
  using Settings = LookaheadSettings;

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kTree;
  /// Nothing: a window is not kept for later.
  struct Snapshot {};

  Lookahead() : Lookahead(Settings{}) {}
  /// @errors kInvalidOption
  explicit Lookahead(const Settings& settings)
      : settings_((check(settings), settings)),
        pool_(settings.max_keys, settings.guesses, levels()),
        window_(idx(levels() * settings.window), kNone),
        guess_(window_.size(), kNone),
        answers_(idx(settings.window), kNone) {}

  int max_depth() const noexcept { return levels() - 1 + std::max(settings_.window - 1, 1); }
  RowNeed needs() const noexcept { return RowNeed::kArgmax; }

  void attach(const TargetInfo& target) noexcept {
    if (n_vocab_ != target.n_vocab) forget();  // tokens of another target mean other things
    n_vocab_ = target.n_vocab;
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    index();
    guessed_ = limit.depth > 0;
    if (!guessed_) return;
    guess(context);
    draft_window(limit, draft);
    const std::span<const TokenId> found = pool_.find(context.anchor());
    const auto length = idx(levels());
    for (std::size_t first = 0; first < found.size(); first += length) {
      draft_guess(found.subspan(first, length), context.n_vocab, limit, draft);
    }
  }

  void commit(const Round& round) noexcept {
    std::fill(answers_.begin(), answers_.end(), kNone);
    if (guessed_ && round.scores.need() >= RowNeed::kArgmax) take_answers(round);
    guessed_ = false;
    // The first new token moves each level to the left by itself, as it answers the one below.
    const int by = static_cast<int>(round.tokens.size()) - 1;
    for (int level = 0; level < levels(); ++level) {
      for (int i = 0; i < settings_.window; ++i) {
        const int from = i + by;
        TokenId& token = window_[at(level, i)];
        if (from >= settings_.window) {
          token = kNone;
        } else {
          token = level + 1 < levels() ? window_[at(level + 1, from)] : answers_[idx(from)];
        }
      }
    }
  }

  void truncate(int) noexcept {
    std::fill(window_.begin(), window_.end(), kNone);
    guessed_ = false;
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) noexcept { reset(); }

  /// Forget all n-grams, and the window.
  void forget() noexcept {
    pool_.forget();
    notes_.clear();
    reset();
  }

  /// The n-grams so far as a file that knows its vocabulary. @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) {
    take_notes();
    pool_.save(out, vocabulary);
  }
  /// Draft from the n-grams of a file in place of those that are known: between two texts, or before a
  /// decoder is made. @errors as LookaheadPool::load; nothing has changed then
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    pool_.load(in, vocabulary);
    notes_.clear();
    n_vocab_ = static_cast<int>(vocabulary.n_vocab);  // a target with as many is no other one
  }

  /// N-grams as of the last proposal.
  LookaheadPool& pool() noexcept { return pool_; }
  std::size_t bytes() const noexcept {
    return pool_.bytes() + sizeof(TokenId) * (window_.capacity() + guess_.capacity() +
                                              answers_.capacity() + notes_.capacity());
  }

 private:
  static constexpr TokenId kNone = -1;
  // How sure a node is. That guesses are right more often than the window is all that it says.
  static constexpr float kWindowConfidence = 0.1f;
  static constexpr float kGuessConfidence = 0.5f;

  static void check(const Settings& s) {
    const auto within = [](int value, int least, int most) {
      return value >= least && value <= most;
    };
    constexpr int kMost = DraftTree::kMaxNodes;
    if (within(s.window, 1, kMost) && within(s.ngram, 2, kMost) && within(s.guesses, 1, kMost) &&
        (s.window + s.guesses) * (s.ngram - 1) <= kMost &&
        within(s.max_keys, LookaheadPool::kWays, 1 << 20) &&
        s.max_keys % LookaheadPool::kWays == 0) {
      return;
    }
    throw Error(ErrorCode::kInvalidOption, "settings of Lookahead out of range",
                "(window + guesses) (ngram - 1) of at most 64, with n-grams of 2 tokens or more; "
                "max_keys a multiple of 8 up to 1048576",
                "a smaller window, fewer guesses or shorter n-grams");
  }

  int levels() const noexcept { return settings_.ngram - 1; }
  std::size_t at(int level, int column) const noexcept {
    return idx(level * settings_.window + column);
  }

  /// Take in the n-grams of the last commit, and make room for those of the next.
  void index() {
    take_notes();
    notes_.reserve(idx(settings_.window) * idx(settings_.ngram));
  }
  void take_notes() noexcept {
    const auto n = idx(settings_.ngram);
    for (std::size_t first = 0; first < notes_.size(); first += n) {
      pool_.insert(notes_[first], std::span(notes_).subspan(first + 1, n - 1));
    }
    notes_.clear();
  }

  /// A token for each place of the window.
  void guess(const Context& context) noexcept {
    window_[0] = context.anchor();
    for (int level = 0; level < levels(); ++level) {
      for (int i = 0; i < settings_.window; ++i) {
        const TokenId answer = window_[at(level, i)];
        const bool known = answer >= 0 && answer < context.n_vocab;
        guess_[at(level, i)] = known ? answer : anything(context.tokens, level + i);
      }
    }
  }

  /// A token of the text for a place `ahead` of the anchor: any is as good as another, if it stays
  /// the same as the text grows.
  static TokenId anything(std::span<const TokenId> tokens, int ahead) noexcept {
    const std::uint64_t position = tokens.size() + idx(ahead);
    return tokens[(position * 0x9E3779B97F4A7C15u >> 32) & (std::bit_floor(tokens.size()) - 1)];
  }

  /// As many whole columns as there is room for.
  void draft_window(Limit limit, DraftTree& draft) const {
    NodeIndex spine = 0;
    for (int i = 0; i < settings_.window; ++i) {
      const int new_nodes = levels() - (i == 0 ? 1 : 0);
      if (i + levels() - 1 > limit.depth || draft.drafted() + new_nodes > limit.nodes) return;
      if (i > 0) spine = child(draft, spine, guess_[at(0, i)], kWindowConfidence);
      NodeIndex end = spine;
      for (int level = 1; level < levels(); ++level) {
        end = child(draft, end, guess_[at(level, i)], kWindowConfidence);
      }
    }
  }

  static void draft_guess(std::span<const TokenId> tokens, int n_vocab, Limit limit,
                          DraftTree& draft) {
    NodeIndex node = 0;
    for (const TokenId token : tokens) {
      if (token >= n_vocab || draft.depth(node) == limit.depth) return;
      if (draft.drafted() == limit.nodes && draft.child_with(node, token) < 0) return;
      node = child(draft, node, token, kGuessConfidence);
    }
  }

  /// The child with that token, there already or made.
  static NodeIndex child(DraftTree& draft, NodeIndex parent, TokenId token, float confidence) {
    NodeIndex node = draft.child_with(parent, token);
    if (node < 0) node = draft.add(parent, token);
    draft.set_confidence(node, std::max(confidence, draft.confidence(node)));
    return node;
  }

  /// The rows at the ends of the columns. The draft may be a part of what was proposed, or have
  /// other nodes as well; so nodes are found by their tokens.
  void take_answers(const Round& round) noexcept {
    NodeIndex spine = 0;
    for (int i = 0; i < settings_.window; ++i) {
      if (i > 0) spine = round.draft.child_with(spine, guess_[at(0, i)]);
      if (spine < 0) return;
      NodeIndex end = spine;
      for (int level = 1; level < levels() && end >= 0; ++level) {
        end = round.draft.child_with(end, guess_[at(level, i)]);
      }
      if (end < 0) continue;
      answers_[idx(i)] = round.scores.argmax(end);
      // The anchor took the place of a guess, which the levels above may have been answers to.
      const bool of_another = i == 0 && levels() > 1 && guess_[at(1, 0)] != round.scores.argmax(0);
      if (!of_another) note(i);
    }
  }

  /// The n-gram of a column, if it has answers only. There is room: at most one a column is noted
  /// between two proposals.
  void note(int column) noexcept {
    bool answered = answers_[idx(column)] >= 0;
    for (int level = 0; level < levels(); ++level) answered &= window_[at(level, column)] >= 0;
    if (!answered) return;
    for (int level = 0; level < levels(); ++level) notes_.push_back(guess_[at(level, column)]);
    notes_.push_back(answers_[idx(column)]);
  }

  Settings settings_;
  int n_vocab_ = 0;
  LookaheadPool pool_;
  bool guessed_ = false;  // for a round that is not over
  std::vector<TokenId>
      window_;  // [levels, window]; the token at [level, i] is for anchor + level + i
  std::vector<TokenId> guess_;    // the same, as proposed: no place is empty
  std::vector<TokenId> answers_;  // [window] of the last pass
  std::vector<TokenId> notes_;    // [n, ngram] n-grams for the pool
};

static_assert(Drafter<Lookahead>);

}  // namespace foredraft::inline v0
