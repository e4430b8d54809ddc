#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/copied_run.hpp>
#include <foredraft/drafter/ngram_mod_table.hpp>

namespace foredraft::inline v0 {

/// Proposes what followed the text's last n tokens the last time that any text had them, token by
/// token, out of a table that several sequences may share.
///
/// What is learnt belongs to no text: truncate() and reset() leave it, forget() drops it for all
/// who share it. Where a text begins and more than `most_occupancy` of the table is in use, it is
/// emptied, before the prompt is entered; so is that of everybody else who drafts from it. It is
/// emptied, too, where `most_failures` drafts in a row were wrong at a quarter of their length or
/// before.
///
/// Memory: that of the table, and size_n tokens.
/// @cost a proposal O(size_n + drafted) of which each token is a cache miss; entering O(size_n) a
/// token
/// @source llama.cpp, "ngram-mod"; it empties the table behind the prompt, which is then not in it
class NgramMod : public DrafterBase {
 public:
  struct Settings {
    int n_min = 1;   ///< a chain that ends before so many tokens is not proposed
    int n_max = 63;  ///< tokens proposed at most
    double most_occupancy = 0.25;
    int most_failures = 5;
  };

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  struct Snapshot {};

  /// With a table of its own.
  NgramMod() : NgramMod(std::make_shared<NgramModTable>()) {}
  explicit NgramMod(std::shared_ptr<NgramModTable> table)
      : NgramMod(std::move(table), Settings{}) {}
  /// @errors kInvalidOption
  NgramMod(std::shared_ptr<NgramModTable> table, Settings settings)
      : settings_(settings), table_(std::move(table)) {
    if (table_ == nullptr || settings.n_min < 0 || settings.n_max < std::max(1, settings.n_min) ||
        settings.n_max >= DraftTree::kMaxNodes || settings.most_failures < 1 ||
        !(settings.most_occupancy > 0.0 && settings.most_occupancy <= 1.0)) {
      throw Error(ErrorCode::kInvalidOption, "settings of NgramMod out of range",
                  "a table, 0 <= n_min <= n_max < 64, 0 < most_occupancy <= 1, most_failures >= 1");
    }
    window_.reserve(idx(table_->size_n()) + DraftTree::kMaxNodes);
  }

  int max_depth() const noexcept { return settings_.n_max; }
  NgramModTable& table() noexcept { return *table_; }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    enter(context.tokens);
    drafted_ = 0;
    const int depth = std::min({limit.depth, limit.nodes, settings_.n_max});
    if (depth < 1 || context.tokens.size() < size_n()) return;
    chain(context, std::max(depth, settings_.n_min));
    const auto found = static_cast<int>(window_.size() - size_n());
    if (found < settings_.n_min) return;
    drafted_ = std::min(found, depth);
    anchor_ = context.anchor_position();
    for (int i = 0; i < drafted_; ++i) {
      expected_[idx(i)] = window_[size_n() + idx(i)];
      draft.set_confidence(draft.extend(expected_[idx(i)]), succession(table_->size_n() + i));
    }
  }

  void commit(const Round& round) noexcept {
    const int drafted = std::exchange(drafted_, 0);
    if (drafted == 0 || anchor_ != round.anchor_position) return;
    const int seen = std::min(drafted, static_cast<int>(round.tokens.size()));
    int right = 0;
    while (right < seen && expected_[idx(right)] == round.tokens[idx(right)]) ++right;
    table_->note(right < seen && 4 * right < drafted);
  }

  void truncate(int n) noexcept {
    if (n < entered_) entered_ = n, begins_ = true;
    drafted_ = 0;
  }
  void reset() noexcept {
    truncate(0);
    begins_ = true;
  }
  /// Drop what was learnt from all texts, for all who share the table. The present one is entered
  /// again.
  void forget() noexcept {
    table_->renew();
    entered_ = 0;
  }
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) noexcept { reset(); }

  /// Write the table. Nobody may change it meanwhile. @errors as NgramModTable
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    table_->save(out, vocabulary);
  }
  /// Draft from the table of a file from now on; others keep the one that was shared so far.
  /// @errors as NgramModTable; kInvalidOption for a table of longer or shorter n-grams
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    auto table = NgramModTable::load(in, vocabulary);
    if (table->size_n() != table_->size_n()) {
      throw Error(ErrorCode::kInvalidOption,
                  "a table of " + std::to_string(table->size_n()) + "-grams",
                  "one of " + std::to_string(table_->size_n()) + "-grams",
                  "draft from n-grams of that length, or learn anew");
    }
    table_ = std::move(table);
    epoch_ = table_->epoch();
    entered_ = 0;
  }

 private:
  std::size_t size_n() const noexcept { return idx(table_->size_n()); }

  /// Make room where there is none, and enter the tokens that are new.
  void enter(std::span<const TokenId> tokens) noexcept {
    if (std::exchange(begins_, false) && table_->occupancy() > settings_.most_occupancy) {
      table_->renew();
    }
    if (table_->failures() >= settings_.most_failures) table_->clear();
    if (const std::uint32_t epoch = table_->epoch(); epoch != epoch_) {
      epoch_ = epoch;
      entered_ = 0;
    }
    const auto size = static_cast<int>(tokens.size());
    for (entered_ = std::max(entered_, table_->size_n()); entered_ < size; ++entered_) {
      const auto place = idx(entered_);
      table_->put(table_->hash(tokens.subspan(place - size_n(), size_n())), tokens[place]);
    }
    entered_ = std::min(entered_, size);
  }

  /// Leaves the last n tokens and at most `most` that follow in window_.
  void chain(const Context& context, int most) {
    const auto last = context.tokens.last(size_n());
    window_.assign(last.begin(), last.end());
    for (int i = 0; i < most; ++i) {
      const auto token = table_->find(table_->hash(std::span(window_).last(size_n())));
      if (!token || *token >= context.n_vocab) break;
      window_.push_back(*token);
    }
  }

  Settings settings_;
  std::shared_ptr<NgramModTable> table_;
  int entered_ = 0;  // tokens of the text that are in the table
  bool begins_ = true;
  std::uint32_t epoch_ = 0;
  std::vector<TokenId> window_;
  std::array<TokenId, DraftTree::kMaxNodes> expected_{};  // what was proposed
  int drafted_ = 0;
  Position anchor_ = 0;
};

static_assert(Drafter<NgramMod>);

}  // namespace foredraft::inline v0
