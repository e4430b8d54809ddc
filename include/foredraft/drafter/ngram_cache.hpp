#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/drafter/ngram_counts.hpp>
#include <foredraft/drafter/shared_ngram_counts.hpp>

namespace foredraft::inline v0 {

/// Proposes the token that followed the text's last one to four tokens most often, if it did so in
/// most cases; then goes on behind that one.
///
/// Three levels are asked, of each the longest n-gram first. *Context*: this text, with lax
/// thresholds. *Dynamic*: texts that ended before, of whoever shares it, with strict thresholds.
/// *Static*: pairs of tokens in a corpus, read only. Counts of the first two are weighed with those
/// of the static level behind the same pair.
///
/// All tokens of the text are counted with the n-gram before them, however many come at once. A
/// text enters the dynamic level as it ends: where another one takes its place, or by learn(). What
/// truncate() takes away is no longer proposed; it is not forgotten by the dynamic level, which
/// forget() empties.
///
/// Memory: `context_entries` n-grams of 64 bytes and 8 bytes a token of text; and the levels given.
/// @cost a proposal O(1) a token: 9 n-grams looked up at most. Counting a token: 4 n-grams. Behind
/// truncate() the context is counted anew, O(text), unless the same tokens come again
/// @source llama.cpp, common/ngram-cache.cpp ("lookup decoding"), which loses n-grams across chunks
class NgramCache : public DrafterBase {
 public:
  struct Settings {
    /// N-grams of this text that are held, a power of two; four for each token that is not
    /// repeated.
    std::size_t context_entries = std::size_t{1} << 18;
    bool learns = true;  ///< texts enter the dynamic level; otherwise it is only read
  };
  /// Least evidence for a proposal by an n-gram of 1, 2, 3, 4 tokens.
  struct Thresholds {
    std::array<std::uint32_t, NgramCounts::kLongest> samples;  ///< times that it occurred
    std::array<std::uint32_t, NgramCounts::kLongest> percent;  ///< of these, with the token behind
  };
  static constexpr Thresholds kLax{{2, 2, 1, 1}, {66, 50, 50, 50}};
  static constexpr Thresholds kStrict{{4, 3, 2, 2}, {75, 66, 66, 66}};

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  struct Snapshot {};

  /// With the context alone.
  NgramCache() : NgramCache(nullptr) {}
  /// Levels may be null. @errors kInvalidOption
  explicit NgramCache(std::shared_ptr<SharedNgramCounts> dynamic,
                      std::shared_ptr<const NgramCounts> fixed = nullptr)
      : NgramCache(std::move(dynamic), std::move(fixed), Settings{}) {}
  NgramCache(std::shared_ptr<SharedNgramCounts> dynamic, std::shared_ptr<const NgramCounts> fixed,
             Settings settings)
      : settings_(settings),
        context_(settings.context_entries),
        dynamic_(std::move(dynamic)),
        static_(std::move(fixed)) {}

  int max_depth() const noexcept { return DraftTree::kMaxNodes - 1; }
  /// Memory of this drafter, without the levels that it was given.
  std::size_t bytes() const noexcept {
    return context_.bytes() + text_.capacity() * sizeof(TokenId);
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    count(context.tokens);
    const int depth = std::min({limit.depth, limit.nodes, max_depth()});
    if (depth < 1) return;
    if (dynamic_ == nullptr) return fill(context, depth, nullptr, draft);
    dynamic_->read([&](const NgramCounts& dynamic) { fill(context, depth, &dynamic, draft); });
  }

  void truncate(int n) noexcept { kept_ = std::min(kept_, idx(n)); }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const noexcept { return {}; }
  /// The text that comes next is compared with the one so far, and counted anew where it differs.
  void restore(const Snapshot&) noexcept { reset(); }

  /// Let the text so far enter the dynamic level, as if it had ended. Do so before the level is
  /// saved.
  /// @errors kOutOfMemory
  void learn() {
    if (settings_.learns && dynamic_ != nullptr) dynamic_->learn(text_, learnt_);
    learnt_ = text_.size();
  }
  /// Empty the dynamic level, for all who share it, also of texts that have not entered it yet.
  void forget() {
    if (dynamic_ != nullptr) dynamic_->clear();
    learnt_ = text_.size();
  }

 private:
  /// A token, and how often it followed an n-gram.
  struct Candidate {
    TokenId token = NgramCounts::kNoToken;
    std::uint32_t count = 0;
    std::uint32_t sum = 0;

    float confidence() const noexcept {
      return (static_cast<float>(count) + 1.0f) / (static_cast<float>(sum) + 2.0f);
    }
  };

  /// Count the tokens that are new. What is no longer there enters the dynamic level, and the
  /// context begins anew.
  void count(std::span<const TokenId> tokens) {
    const std::size_t most = std::min(text_.size(), tokens.size());
    kept_ = std::min(kept_, most);
    while (kept_ < most && text_[kept_] == tokens[kept_]) ++kept_;
    if (kept_ < text_.size()) {
      learn_from(kept_);
      text_.resize(kept_);
      context_.clear();
      counted_ = 0;
    }
    text_.insert(text_.end(), tokens.begin() + static_cast<std::ptrdiff_t>(kept_), tokens.end());
    kept_ = text_.size();
    context_.learn(text_, counted_);
    counted_ = text_.size();
  }

  /// The tokens from `begin` on leave the text.
  void learn_from(std::size_t begin) {
    if (settings_.learns && dynamic_ != nullptr) {
      dynamic_->learn(text_, std::max(begin, learnt_));
    }
    learnt_ = std::min(learnt_, begin);
  }

  void fill(const Context& context, int depth, const NgramCounts* dynamic, DraftTree& draft) const {
    std::array<TokenId, NgramCounts::kLongest + DraftTree::kMaxNodes> text{};
    const std::size_t known = std::min(idx(NgramCounts::kLongest), text_.size());
    std::copy(text_.end() - static_cast<std::ptrdiff_t>(known), text_.end(), text.begin());
    for (std::size_t size = known; depth > 0; --depth, ++size) {
      const std::size_t n = std::min(idx(NgramCounts::kLongest), size);
      const auto found = next(std::span(text).subspan(size - n, n), dynamic);
      if (!found || found->token >= context.n_vocab) return;
      text[size] = found->token;
      draft.set_confidence(draft.extend(found->token), found->confidence());
    }
  }

  /// What the levels propose behind the up to four tokens `last`.
  std::optional<Candidate> next(std::span<const TokenId> last, const NgramCounts* dynamic) const {
    const NgramCounts::Entry* pair = nullptr;
    if (static_ != nullptr && last.size() >= 2) pair = static_->find(last.last(2));
    if (const auto found = longest(context_, last, kLax, pair)) return found;
    if (dynamic != nullptr) {
      if (const auto found = longest(*dynamic, last, kStrict, pair)) return found;
    }
    return pair == nullptr ? std::nullopt : best(*pair, kLax, 2, nullptr);
  }

  static std::optional<Candidate> longest(const NgramCounts& counts, std::span<const TokenId> last,
                                          const Thresholds& thresholds,
                                          const NgramCounts::Entry* pair) noexcept {
    for (std::size_t n = last.size(); n > 0; --n) {
      const NgramCounts::Entry* entry = counts.find(last.last(n));
      if (entry == nullptr) continue;
      if (const auto found = best(*entry, thresholds, n, pair)) return found;
    }
    return std::nullopt;
  }

  /// The token with the greatest product of counts, if there is enough evidence for it.
  static std::optional<Candidate> best(const NgramCounts::Entry& entry,
                                       const Thresholds& thresholds, std::size_t n,
                                       const NgramCounts::Entry* pair) noexcept {
    constexpr std::uint64_t kStaticWeight = 100;  // a token that the corpus has there beats others
    Candidate candidate{.sum = entry.sum};
    std::uint64_t most = 0;
    for (const NgramCounts::Follower& follower : entry.followers) {
      const std::uint64_t known = pair == nullptr ? 0 : pair->count_of(follower.token);
      const std::uint64_t score = follower.count * (known > 0 ? kStaticWeight * known : 1);
      if (score <= most) continue;
      most = score;
      candidate.token = follower.token;
      candidate.count = follower.count;
    }
    const bool enough = most > 0 && entry.sum >= thresholds.samples[n - 1] &&
                        std::uint64_t{100} * candidate.count >=
                            std::uint64_t{thresholds.percent[n - 1]} * entry.sum;
    return enough ? std::optional(candidate) : std::nullopt;
  }

  Settings settings_;
  NgramCounts context_;
  std::shared_ptr<SharedNgramCounts> dynamic_;
  std::shared_ptr<const NgramCounts> static_;
  std::vector<TokenId> text_;  // the text as of the last proposal
  std::size_t kept_ = 0;       // tokens of text_ that were not cut off since
  std::size_t counted_ = 0;    // tokens of text_ that the context has counted
  std::size_t learnt_ = 0;     // tokens of text_ that the dynamic level knows already
};

static_assert(Drafter<NgramCache>);

}  // namespace foredraft::inline v0
