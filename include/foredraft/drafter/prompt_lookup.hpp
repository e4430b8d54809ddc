#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/drafter/copied_run.hpp>

namespace foredraft::inline v0 {

/// Finds the longest earlier occurrence of the text's end and proposes what followed it there.
///
/// Earlier places are found through chains of positions whose last `min_match` tokens hash alike,
/// newest first, as an LZ77 compressor does; of equally long matches the newest wins. Where the
/// copy runs into the end of the text it goes on with what it has just proposed, so a repetition is
/// drafted to any length.
/// @cost a proposal O(max_candidates * match), 8 bytes a token of history; indexing O(min_match) a
/// token
/// @source Saxena 2023, "Prompt lookup decoding"; hash chains as in RFC 1951, section 4
class PromptLookup : public DrafterBase {
 public:
  struct Settings {
    int min_match = 2;        ///< shorter matches are chance more often than not
    int max_match = 32;       ///< a longer match is not worth telling apart
    int max_candidates = 64;  ///< earlier places looked at, newest first
    /// Drafted tokens for each token of the match: a short match is weak evidence, and rejected
    /// rows cost time.
    double tokens_per_match = 2.0;
  };

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  struct Snapshot {
    int indexed = 0;
  };

  PromptLookup() : PromptLookup(Settings{}) {}
  /// @errors kInvalidOption
  explicit PromptLookup(Settings settings) : settings_(settings), heads_(kBuckets, kNone) {
    if (settings.min_match < 1 || settings.max_match < settings.min_match ||
        settings.max_match > 1024 || settings.max_candidates < 1 ||
        !(settings.tokens_per_match > 0)) {
      throw Error(ErrorCode::kInvalidOption, "settings of PromptLookup out of range",
                  "1 <= min_match <= max_match <= 1024, max_candidates >= 1, tokens_per_match > 0");
    }
  }

  int max_depth() const noexcept { return DraftTree::kMaxNodes - 1; }
  bool continues() const noexcept { return true; }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    index(context.tokens);
    const int depth = std::min(limit.depth, limit.nodes);
    if (depth < 1) return;
    const Text text{context.tokens, context.assumed};
    const Match match = longest_match(text);
    if (match.length < settings_.min_match) return;
    const auto length =
        static_cast<int>(std::min<double>(depth, match.length * settings_.tokens_per_match));
    for (int i = 0; i < length; ++i) {
      const std::int32_t from = match.next + i;
      draft.set_confidence(
          draft.extend(from < text.size() ? text[from] : draft.token(from - text.size() + 1)),
          succession(match.length + i));
    }
  }

  void truncate(int n) noexcept {
    if (n >= indexed_) return;
    std::fill(heads_.begin(), heads_.end(), kNone);  // the chains behind a head may lead beyond n
    previous_.clear();
    indexed_ = 0;
  }
  void reset() noexcept { truncate(0); }
  Snapshot snapshot() const noexcept { return {indexed_}; }
  void restore(const Snapshot& snapshot) noexcept { truncate(snapshot.indexed); }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::size_t kBuckets = std::size_t{1}
                                          << 15;  // a 32k history fills each about once

  struct Match {
    int length = 0;
    std::int32_t next = 0;  // place of the token that followed the match
  };

  /// Final tokens, and behind them those that are assumed.
  struct Text {
    std::span<const TokenId> tokens;
    std::span<const TokenId> assumed;

    std::int32_t size() const noexcept {
      return static_cast<std::int32_t>(tokens.size() + assumed.size());
    }
    TokenId operator[](std::int32_t i) const noexcept {
      return idx(i) < tokens.size() ? tokens[idx(i)] : assumed[idx(i) - tokens.size()];
    }
  };

  std::size_t bucket(const Text& text, std::int32_t end) const noexcept {
    std::uint64_t hash = 0;
    for (int i = 0; i < settings_.min_match; ++i) {
      const auto token = static_cast<std::uint32_t>(text[end - i]);
      hash = (hash ^ token) * 0x9E3779B97F4A7C15u;
    }
    return static_cast<std::size_t>(hash >> 49);  // the top 15 bits
  }

  /// Enter all places of final tokens but the last.
  void index(std::span<const TokenId> tokens) {
    const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
    previous_.resize(std::max(previous_.size(), idx(last)), kNone);
    for (; indexed_ < last; ++indexed_) {
      if (indexed_ + 1 < settings_.min_match) continue;
      std::int32_t& head = heads_[bucket({tokens, {}}, indexed_)];
      previous_[idx(indexed_)] = head;
      head = indexed_;
    }
  }

  /// Of the end of the text.
  Match longest_match(const Text& text) const noexcept {
    const std::int32_t last = text.size() - 1;
    Match best;
    if (last + 1 < settings_.min_match) return best;
    std::int32_t place = heads_[bucket(text, last)];
    for (int seen = 0; place != kNone && seen < settings_.max_candidates; ++seen) {
      int length = 0;
      while (length < settings_.max_match && length <= place &&
             text[place - length] == text[last - length]) {
        ++length;
      }
      if (length > best.length) best = {length, place + 1};
      if (length == settings_.max_match) break;
      place = previous_[idx(place)];
    }
    return best;
  }

  Settings settings_;
  std::vector<std::int32_t> heads_;     // [kBuckets] newest place of a hash
  std::vector<std::int32_t> previous_;  // [indexed_] next older place of the same hash
  std::int32_t indexed_ = 0;            // places entered so far
};

static_assert(Drafter<PromptLookup>);

}  // namespace foredraft::inline v0
