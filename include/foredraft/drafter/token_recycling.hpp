#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/sampling/top_tokens.hpp>

namespace foredraft::inline v0 {

/// After each token the kSuccessors tokens that the target held likeliest the last time, best
/// first. Rows are made for tokens that were seen.
///
/// Bound: 4 (kSuccessors + 1) bytes a token of the vocabulary, once all were seen; 5.5 MB for
/// 151936 tokens.
class RecyclingMatrix {
 public:
  static constexpr int kSuccessors = Scores::kTop;
  static constexpr TokenId kNone = -1;
  using Row = std::array<TokenId, idx(kSuccessors)>;  ///< kNone behind the last

  int n_vocab() const noexcept { return static_cast<int>(rows_of_.size()); }
  /// Tokens that were seen.
  int size() const noexcept { return static_cast<int>(rows_.size()); }
  std::size_t bytes() const noexcept {
    return rows_of_.capacity() * sizeof(std::int32_t) + rows_.capacity() * sizeof(Row);
  }

  /// Empty, for a vocabulary.
  void reset(int n_vocab) {
    rows_of_.assign(idx(n_vocab), kNone);
    rows_.clear();
  }
  void forget() noexcept {
    std::fill(rows_of_.begin(), rows_of_.end(), kNone);
    rows_.clear();
  }

  /// Null where the token was not seen.
  const Row* find(TokenId token) const noexcept {
    if (token < 0 || token >= n_vocab()) return nullptr;
    const std::int32_t row = rows_of_[idx(token)];
    return row == kNone ? nullptr : &rows_[idx(row)];
  }

  /// Room for `n` more tokens.
  void reserve(int n) {
    const std::size_t want = std::min(rows_.size() + idx(n), rows_of_.size());
    if (rows_.capacity() >= want) return;
    rows_.reserve(std::min(std::max(want, 2 * rows_.capacity()), rows_of_.size()));
  }

  /// The row of a token, made where there is room for it; else null. It allocates nothing.
  Row* make(TokenId token) noexcept {
    if (token < 0 || token >= n_vocab()) return nullptr;
    std::int32_t& row = rows_of_[idx(token)];
    if (row == kNone) {
      if (rows_.size() == rows_.capacity()) return nullptr;
      row = static_cast<std::int32_t>(rows_.size());
      rows_.emplace_back().fill(kNone);
    }
    return &rows_[idx(row)];
  }

  /// Write the rows, for tokens of `vocabulary`, which has n_vocab(): their number, 64 bits, and
  /// for each its token, 8 bits with the number of successors, and these.
  /// @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    PayloadWriter payload;
    payload.put(std::uint64_t{rows_.size()});
    for (TokenId token = 0; token < n_vocab(); ++token) {
      const Row* row = find(token);
      if (row == nullptr) continue;
      payload.put(token);
      const auto end = std::find(row->begin(), row->end(), kNone);
      payload.put(static_cast<std::uint8_t>(end - row->begin()));
      for (auto next = row->begin(); next != end; ++next) payload.put(*next);
    }
    write_table(out, {TableKind::kTokenRecycling, vocabulary, std::move(payload).bytes()});
  }

  /// Rows of a file take the place of all. Where it throws, nothing has changed.
  /// @errors as read_table, and kCorruptFile for what save() does not write
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    const SavedTable table = read_table(in, TableKind::kTokenRecycling, vocabulary);
    const auto most = static_cast<int>(std::min(table.vocabulary.n_vocab, vocabulary.n_vocab));
    PayloadReader payload(table.payload, static_cast<std::uint32_t>(most));
    RecyclingMatrix read;
    or_out_of_memory("a matrix of successors", [&] {
      read.reset(static_cast<int>(vocabulary.n_vocab));
      std::size_t left = payload.take_count(sizeof(TokenId) + 1, "rows");
      read.reserve(static_cast<int>(std::min(left, idx(most))));
      for (; left > 0; --left) {
        const TokenId token = payload.take_token("token");
        if (read.find(token) != nullptr) throw payload.error("a token again", "one row a token");
        Row& row = *read.make(token);
        const auto n = payload.take_within<std::uint8_t>(0, kSuccessors, "number of successors");
        for (int i = 0; i < n; ++i) {
          const TokenId next = payload.take_token("successor");
          if (std::find(row.begin(), row.end(), next) != row.end()) {
            throw payload.error("a successor again", "each once");
          }
          row[idx(i)] = next;
        }
      }
      payload.end();
    });
    *this = std::move(read);
  }

 private:
  std::vector<std::int32_t> rows_of_;  // [n_vocab] row of a token, or kNone
  std::vector<Row> rows_;              // [tokens seen]
};

struct RecyclingSettings {
  /// Drafted tokens. Seven and the anchor are the eight rows that a target checks at about the
  /// price of one.
  int max_nodes = 7;
  double min_probability = 0.02;  ///< of a drafted token, from the anchor on
};

/// Drafts from the target's own second thoughts: every row of logits that a round computed, of
/// rejected drafts too, tells which tokens may follow a token. They are kept for each token, and a
/// draft is grown from them, always the likeliest node next. How likely the first, second, ... of a
/// row is has been learnt from the texts so far.
///
/// The rows of a prompt are learnt where the target hands them out. Where it does not, which is
/// cheaper, what follows a token in the prompt stands in until the target has had a word.
///
/// What was learnt outlives the text, because it is about tokens and not about texts. So under
/// rules that test with q a seed does not reproduce a text unless forget() comes first; greedy and
/// matched texts stay the same.
///
/// Bound: RecyclingMatrix.
/// @cost a round 1 us or two a row where the target hands over the maxima of runs; nothing is
/// allocated but room for tokens that were not seen before
/// @source Luo et al. 2024, "Turning Trash into Treasure", arXiv:2408.08696
template <Shape S = Shape::kChain>
class TokenRecycling : public DrafterBase {
 public:
  using Settings = RecyclingSettings;

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = S;
  struct Snapshot {};

  TokenRecycling() : TokenRecycling(Settings{}) {}
  /// @errors kInvalidOption
  explicit TokenRecycling(const Settings& settings) : settings_(settings) {
    if (settings.max_nodes < 1 || settings.max_nodes >= DraftTree::kMaxNodes ||
        !(settings.min_probability >= 0) || settings.min_probability > 1) {
      throw Error(ErrorCode::kInvalidOption, "settings of TokenRecycling out of range",
                  "max_nodes from 1 to 63, min_probability from 0 to 1");
    }
    forget();
  }

  int max_depth() const noexcept { return settings_.max_nodes; }
  RowNeed needs() const noexcept { return RowNeed::kTop; }

  void attach(const TargetInfo& target) {
    if (matrix_.n_vocab() != target.n_vocab) matrix_.reset(target.n_vocab);
    matrix_.reserve(DraftTree::kMaxNodes);
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    matrix_.reserve(DraftTree::kMaxNodes);
    const int nodes = std::min(limit.nodes, settings_.max_nodes);
    open_.clear();
    if (limit.depth > 0) open(draft, {1.0, 0, 0});
    while (draft.drafted() < nodes && !open_.empty()) {
      std::pop_heap(open_.begin(), open_.end());
      const Open next = open_.back();
      open_.pop_back();
      const TokenId token = (*matrix_.find(draft.token(next.parent)))[idx(next.rank)];
      if (S == Shape::kTree) {
        open(draft, {next.before, next.parent, next.rank + 1});
      }
      if (token >= context.n_vocab) continue;
      const NodeIndex node = draft.add(next.parent, token);
      draft.set_confidence(node, static_cast<float>(probability(next.rank)));
      if (draft.depth(node) < limit.depth) open(draft, {next.probability, node, 0});
    }
  }

  void absorb(const PromptBlock& block) {
    matrix_.reserve(static_cast<int>(block.tokens.size()));
    for (std::size_t i = 0; i < block.tokens.size(); ++i) {
      if (block.scores != nullptr && block.scores->need() >= RowNeed::kTop) {
        const auto row = static_cast<int>(i);
        learn(block.tokens[i], *block.scores, row, find_runs(*block.scores, row));
      } else if (i + 1 < block.tokens.size()) {
        learn(block.tokens[i], block.tokens[i + 1]);
      }
    }
  }

  void commit(const Round& round) noexcept {
    for (std::size_t i = 0; i < round.path.size(); ++i) {
      learn_rank(round.draft.token(round.path[i]), round.tokens[i]);
    }
    if (round.scores.need() < RowNeed::kTop) return;
    std::array<RowRuns, DraftTree::kMaxNodes> runs;
    for (NodeIndex node = 0; node < round.draft.size(); ++node) {
      if (node + 1 < round.draft.size()) fetch(round.scores.runs(node + 1).maxima);
      runs[idx(node)] = find_runs(round.scores, node);
    }
    // Of several rows behind one token that of the text counts most: it comes last.
    std::array<bool, DraftTree::kMaxNodes> on_path = {};
    for (const NodeIndex node : round.path) on_path[idx(node)] = true;
    for (const bool final_rows : {false, true}) {
      for (NodeIndex node = 0; node < round.draft.size(); ++node) {
        if (on_path[idx(node)] != final_rows) continue;
        learn(round.draft.token(node), round.scores, node, runs[idx(node)]);
      }
    }
  }

  void truncate(int) const noexcept {}
  void reset() const noexcept {}
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) const noexcept {}

  /// Forget all that was learnt.
  void forget() noexcept {
    matrix_.forget();
    hits_ = kPrior;
    tried_ = kPriorTried;
  }

  const RecyclingMatrix& matrix() const noexcept { return matrix_; }

  /// The matrix, for a target that is described by `vocabulary`. @errors as RecyclingMatrix
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    matrix_.save(out, vocabulary);
  }
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    matrix_.load(in, vocabulary);
    matrix_.reserve(DraftTree::kMaxNodes);
  }

  /// How often the token of a rank was what followed. Falls with the rank.
  double probability(int rank) const noexcept {
    double least = 1;
    for (int i = 0; i <= rank; ++i) least = std::min(least, hits_[idx(i)] / tried_);
    return least;
  }

 private:
  using RowRuns = BestRuns<RecyclingMatrix::kSuccessors>;
  using Ranks = std::array<double, idx(RecyclingMatrix::kSuccessors)>;
  // What is believed at first, for as much as 32 tokens are worth: about half of the text follows
  // the likeliest tokens of its last context. The sums forget, so that a change of subject is
  // noticed.
  static constexpr Ranks kPrior = {12, 4, 2, 1.3, 1, 0.7, 0.5, 0.4};
  static constexpr double kPriorTried = 32;
  static constexpr double kMostTried = 1024;

  /// A row's token that may be drafted next.
  struct Open {
    double before = 1;  // probability of the parent
    NodeIndex parent = 0;
    int rank = 0;
    double probability = 0;
    friend bool operator<(const Open& a, const Open& b) noexcept {
      return a.probability != b.probability ? a.probability < b.probability : a.parent > b.parent;
    }
  };

  void open(const DraftTree& draft, Open next) {
    if (next.rank == RecyclingMatrix::kSuccessors) return;
    const RecyclingMatrix::Row* row = matrix_.find(draft.token(next.parent));
    if (row == nullptr || (*row)[idx(next.rank)] == RecyclingMatrix::kNone) return;
    next.probability = next.before * probability(next.rank);
    if (next.probability < settings_.min_probability) return;
    open_.push_back(next);
    std::push_heap(open_.begin(), open_.end());
  }

  /// Ask for memory that a pass has left in a far cache.
  static void fetch(std::span<const float> values) noexcept {
    constexpr std::size_t kOfLine = 64 / sizeof(float);
    for (std::size_t i = 0; i < values.size(); i += kOfLine) __builtin_prefetch(&values[i]);
  }

  /// Where a row's greatest logits lie, if the target says so; they are on their way then.
  static RowRuns find_runs(const Scores& scores, int row) noexcept {
    const std::span<const float> logits = scores.logits(row);
    const RowRuns runs = best_runs<RecyclingMatrix::kSuccessors>(scores.runs(row).maxima);
    for (int i = 0; i < runs.size; ++i) fetch(runs.of(logits, i));
    return runs;
  }

  /// The target's successors of a token.
  void learn(TokenId token, const Scores& scores, int row, const RowRuns& runs) noexcept {
    if (scores.argmax(row) < 0) return;  // no row of logits
    RecyclingMatrix::Row* successors = matrix_.make(token);
    if (successors == nullptr) return;
    if (const auto top = scores.top(row); !top.empty()) {
      std::copy(top.begin(), top.end(), successors->begin());
      return;
    }
    const std::span<const float> logits = scores.logits(row);
    constexpr int kBest = RecyclingMatrix::kSuccessors;
    const int n = scores.runs(row).maxima.empty() ? top_tokens<kBest>(logits, *successors)
                                                  : top_tokens<kBest>(logits, runs, *successors);
    std::fill(successors->begin() + n, successors->end(), RecyclingMatrix::kNone);
  }

  /// One of the prompt's, before all others, where the target has not filled the row.
  void learn(TokenId token, TokenId next) noexcept {
    RecyclingMatrix::Row* row = matrix_.make(token);
    if (row == nullptr || row->back() != RecyclingMatrix::kNone) return;
    const auto place = std::find_if(row->begin(), row->end(), [&](TokenId other) {
      return other == next || other == RecyclingMatrix::kNone;
    });
    std::move_backward(row->begin(), place, place + 1);
    row->front() = next;
  }

  void learn_rank(TokenId token, TokenId next) noexcept {
    const RecyclingMatrix::Row* row = matrix_.find(token);
    if (row == nullptr) return;
    if (tried_ >= kMostTried) {
      for (double& hits : hits_) hits /= 2;
      tried_ /= 2;
    }
    tried_ += 1;
    const auto place = std::find(row->begin(), row->end(), next);
    if (place != row->end()) hits_[idx(place - row->begin())] += 1;
  }

  Settings settings_;
  RecyclingMatrix matrix_;
  Ranks hits_ = kPrior;         // of each rank ...
  double tried_ = kPriorTried;  // ... in so many tokens
  std::vector<Open> open_;      // a heap
};

static_assert(Drafter<TokenRecycling<Shape::kChain>> && Drafter<TokenRecycling<Shape::kTree>>);

}  // namespace foredraft::inline v0
