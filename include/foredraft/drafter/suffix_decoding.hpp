#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/suffix_cache.hpp>
#include <foredraft/drafter/suffix_draft.hpp>
#include <foredraft/drafter/suffix_tree.hpp>

namespace foredraft::inline v0 {

/// Settings of SuffixDecoding, named as vLLM's keys where it has them.
struct SuffixSettings {
  int max_tree_depth = 24;          ///< longest string that is counted, of match and draft
  int max_cached_requests = 10000;  ///< outputs that are remembered; 0: none
  double max_spec_factor = 1.0;     ///< drafted tokens for each token of the match
  double min_token_prob = 0.1;      ///< least probability of a drafted token, from the match on
  int max_cached_tokens = 1 << 18;  ///< of the remembered outputs together
  int max_history = 1 << 16;        ///< tokens of the text itself that are searched
};

/// Drafts what followed the text's end most often before: in the text itself, or in the outputs of
/// earlier requests. Of all matches, short and long, the one counts whose draft can be expected to
/// have the most tokens accepted.
///
/// Outputs are remembered when the next text begins (truncate, reset, restore) or end_request() is
/// called. They outlive the text, and may be shared: give several drafters one SuffixCache. So
/// under rules that test with q a seed does not reproduce a text, unless max_cached_requests is 0
/// or forget() comes first; greedy and matched texts stay the same.
///
/// Bound: a SuffixTree of max_history tokens (at most 280 bytes each, 352 while it grows), as many
/// tokens of output, and the cache. Of a longer text the newest half is indexed again.
/// @cost a new token O(max_tree_depth), a proposal as SuffixDraft; the first behind a prompt reads
/// the prompt and inserts the last output
/// @source Oliaro et al. 2024, "SuffixDecoding", arXiv:2411.04975
template <Shape S = Shape::kChain>
class SuffixDecoding : public DrafterBase {
 public:
  using Settings = SuffixSettings;

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = S;
  /// Nothing: another text is indexed when it is drafted for.
  struct Snapshot {};

  SuffixDecoding() : SuffixDecoding(Settings{}) {}
  /// With a cache of its own, unless max_cached_requests is 0. @errors kInvalidOption
  explicit SuffixDecoding(const Settings& settings)
      : SuffixDecoding(settings, settings.max_cached_requests == 0
                                     ? nullptr
                                     : std::make_shared<SuffixCache>(cache_settings(settings))) {}
  /// @param cache of others, too; null: none. Its limits are those it was made with.
  /// @errors kInvalidOption
  SuffixDecoding(const Settings& settings, std::shared_ptr<SuffixCache> cache)
      : settings_(settings),
        text_(settings.max_tree_depth, settings.max_history),
        cache_(std::move(cache)) {
    if (!(settings.max_spec_factor > 0) || !(settings.min_token_prob >= 0) ||
        settings.min_token_prob > 1 || settings.max_cached_requests < 0) {
      throw Error(ErrorCode::kInvalidOption, "settings of SuffixDecoding out of range",
                  "max_spec_factor > 0, min_token_prob from 0 to 1, max_cached_requests >= 0");
    }
    output_.reserve(kReserve);
  }

  int max_depth() const noexcept {
    return std::min(settings_.max_tree_depth, DraftTree::kMaxNodes) - 1;
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    index(context.tokens);
    remember();
    const SuffixDraftRules rules{S, settings_.max_spec_factor, settings_.min_token_prob,
                                 context.n_vocab, limit};
    best_.clear();
    if (limit.depth > 0) {
      std::array<SuffixTree::Locus, SuffixTree::kMaxDepth> matches;
      const int longest = text_.longest_match();
      for (int length = 1; length <= longest; ++length) {
        matches[idx(length - 1)] = text_.match(length);
      }
      best_.consider(text_, {matches.data(), idx(longest)}, rules);
    }
    if (cache_ != nullptr) {
      cache_->read([&](const SuffixTree& tree, std::uint64_t version) {
        matches_.follow(tree, version, context.tokens);
        if (limit.depth > 0) best_.consider(tree, matches_.matches(), rules);
      });
    }
    best_.add_to(draft);
  }

  void commit(const Round& round) noexcept {
    // No more than was reserved, and no part without what comes before it.
    const std::size_t room = std::min(output_.capacity(), idx(settings_.max_history));
    complete_ = complete_ && output_.size() + round.tokens.size() <= room;
    if (complete_) output_.insert(output_.end(), round.tokens.begin(), round.tokens.end());
  }

  void truncate(int n) noexcept {
    end_request();
    if (idx(std::max(n, 0)) >= indexed_) return;
    text_.clear();
    matches_.clear();
    indexed_ = 0;
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const noexcept { return {}; }
  void restore(const Snapshot&) noexcept { reset(); }

  /// The text so far is the output of one request, what comes is that of another. It is remembered
  /// by the next proposal.
  void end_request() noexcept {
    if (output_.size() > finished_.size()) output_.swap(finished_);
    output_.clear();
    complete_ = true;
  }

  /// Forget the outputs of earlier requests, and this one's so far. With a shared cache that is
  /// everybody's.
  void forget() noexcept {
    if (cache_ != nullptr) cache_->forget();
    output_.clear();
    finished_.clear();
    complete_ = true;
  }

  const std::shared_ptr<SuffixCache>& cache() const noexcept { return cache_; }

  /// Write the remembered outputs, this request's included, which ends here.
  /// @errors as SuffixCache; kInvalidOption without a cache
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) {
    require_cache();
    end_request();
    remember();
    cache_->save(out, vocabulary);
  }
  /// Remember the outputs of a file besides. @errors likewise
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    require_cache();
    cache_->load(in, vocabulary);
  }

 private:
  static constexpr std::size_t kReserve = 4 * DraftTree::kMaxNodes;

  void require_cache() const {
    if (cache_ != nullptr) return;
    throw Error(ErrorCode::kInvalidOption, "no cache of earlier outputs",
                "max_cached_requests of 1 or more", "");
  }

  static SuffixCache::Settings cache_settings(const Settings& settings) {
    return {settings.max_tree_depth, settings.max_cached_requests, settings.max_cached_tokens};
  }

  /// Enter what is new of the text.
  void index(std::span<const TokenId> tokens) {
    for (; indexed_ < tokens.size(); ++indexed_) {
      if (text_.size() == text_.capacity()) {
        text_.clear();
        indexed_ -= idx(text_.capacity() / 2);
      }
      text_.append(tokens[indexed_]);
    }
  }

  /// Insert the last output, and make room for this one's next round.
  void remember() {
    if (!finished_.empty() && cache_ != nullptr) cache_->insert(finished_);
    finished_.clear();
    const std::size_t want = output_.size() + kReserve;
    if (output_.capacity() < want) output_.reserve(2 * want);
  }

  Settings settings_;
  SuffixTree text_;                     // of this text
  std::size_t indexed_ = 0;             // tokens of it that are entered
  std::shared_ptr<SuffixCache> cache_;  // of earlier outputs, or null
  SuffixMatches matches_;               // of the text's end, in the cache
  std::vector<TokenId> output_;         // of this request, so far
  bool complete_ = true;                // nothing of it was left out
  std::vector<TokenId> finished_;       // an output that is to be inserted
  SuffixDraft best_;
};

static_assert(Drafter<SuffixDecoding<Shape::kChain>> && Drafter<SuffixDecoding<Shape::kTree>>);

}  // namespace foredraft::inline v0
