#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/state_archive.hpp>
#include <foredraft/core/stats.hpp>
#include <foredraft/core/token_trie.hpp>

namespace foredraft::inline v0 {

/// Snapshots of decoders, found by what a text begins with, so that a beginning which was read once
/// is not read again: the system prompt of many conversations, an earlier turn, another sample.
///
/// A snapshot lies under the tokens that its cache has computed. Any cache and drafter will do, one
/// that cannot be truncated, too, for nothing is taken from a snapshot but all of it. What is reused
/// is what reading would compute again, so no bit of a text changes.
///
/// Together they take at most `budget` bytes, what several share counted once; those go first that
/// were not used for longest. Whoever uses a snapshot also uses those that its text begins with, so
/// what many texts begin with stays.
///
/// Decoders of one kind over the same models share a store. It is used from one thread at a time: a
/// caller with several puts a lock around each call, and works with a copy of what find() returns.
/// @tparam D  a Decoder
template <typename D>
class PrefixStore {
 public:
  using Snapshot = typename D::Snapshot;

  /// @param budget  @units bytes
  explicit PrefixStore(std::size_t budget) : budget_(budget) {}
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  /// Keep what the decoder has computed, for texts that begin like it.
  /// @return false where there is nothing, or more than the whole budget
  /// @cost that of Decoder::snapshot, where it is not there already
  bool keep(const D& decoder) {
    const auto computed = decoder.tokens().first(idx(decoder.cache().size()));
    if (computed.empty()) return false;
    if (const auto* known = by_tokens_.deepest(computed)) {
      if ((*known)->tokens.size() == computed.size()) {
        touch(computed);
        return true;
      }
    }
    if (budget_ == 0) return false;
    Snapshot snapshot = decoder.snapshot();
    StateMemory memory;
    memory.add(snapshot);
    if (memory.all() + computed.size_bytes() > budget_) return false;
    std::list<Entry> fresh;
    fresh.push_front({{computed.begin(), computed.end()},
                      std::move(snapshot),
                      memory.own() + computed.size_bytes(),
                      memory.shared()});
    for (const StateMemory::Shared& part : memory.shared()) users_.try_emplace(part.part, 0);
    by_tokens_.put(computed, fresh.begin());
    // Nothing throws from here on.
    for (const StateMemory::Shared& part : memory.shared()) {
      if (users_.find(part.part)->second++ == 0) bytes_ += part.bytes;
    }
    bytes_ += fresh.front().bytes;
    entries_.splice(entries_.begin(), fresh);
    touch(computed);
    while (bytes_ > budget_ && !entries_.empty()) drop_oldest();
    return true;
  }

  /// The deepest snapshot of which all that was computed begins `tokens`; null where there is none.
  /// It stays until the next keep() or clear().
  const Snapshot* find(std::span<const TokenId> tokens) {
    const Entry* entry = deepest(tokens);
    if (entry == nullptr) return nullptr;
    touch(entry->tokens);
    return &entry->snapshot;
  }

  /// Before decoder.generate(prompt): restore the deepest snapshot of `prompt`, unless the decoder
  /// has as much of it itself.
  /// @return tokens of the prompt that generate() need not read
  /// @errors what Decoder::restore throws
  int recall(D& decoder, std::span<const TokenId> prompt) {
    if (prompt.empty()) return 0;
    const auto read = prompt.first(prompt.size() - 1);  // the last one is the anchor
    const int own = own_beginning(decoder, read);
    const Entry* entry = deepest(read);
    const int stored = entry == nullptr ? 0 : static_cast<int>(entry->tokens.size());
    if (stored > own) decoder.restore(entry->snapshot);
    if (entry != nullptr) touch(entry->tokens);
    return std::max(stored, own);
  }

  /// Before decoder.generate(prompt), for decoders that cannot go back to the middle of what they
  /// have read, such as those of models with recurrent layers: recall(), then read the prompt and
  /// keep what was computed at each multiple of `every` tokens. So another prompt that parts from
  /// this one finds the last of these, and reads fewer than `every` tokens again. They take at most a
  /// quarter of the budget; what is behind them is left to generate(), as is all of a prompt that
  /// does not fit into the context. The drafter proposes nothing, and reads only what it taps.
  /// @return what was read, and what need not be; no prompt tokens where nothing was read
  /// @errors kInvalidOption for `every` below 1; as Decoder::prefill
  Stats read(D& decoder, std::span<const TokenId> prompt, Options options, Dim every) {
    if (every < 1) {
      throw Error(ErrorCode::kInvalidOption, "a state every 0 tokens", "one every token or more",
                  "");
    }
    Stats stats;
    stats.reused_tokens = recall(decoder, prompt);
    if (prompt.size() >= idx(decoder.cache().capacity())) return stats;
    options.n_draft = Options::kAutomatic;  // at a fixed depth the drafter would read, too
    const std::size_t step = idx(every);
    std::size_t taken = 0;
    for (std::size_t end = (idx(stats.reused_tokens) / step + 1) * step; end < prompt.size();
         end += step) {
      const Result result = decoder.prefill(prompt.first(end + 1), options);
      stats.prompt_tokens = result.stats.prompt_tokens;
      stats.seconds += result.stats.seconds;
      if (result.finish_reason == FinishReason::kCancelled || !keep(decoder)) break;
      taken += entries_.front().bytes;
      if (taken > budget_ / 4) break;
    }
    return stats;
  }

  void clear() noexcept {
    while (!entries_.empty()) drop_oldest();
  }

  /// Snapshots, and what they take.
  std::size_t size() const noexcept { return entries_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t budget() const noexcept { return budget_; }

 private:
  struct Entry {
    std::vector<TokenId> tokens;  // computed: those of the cache
    Snapshot snapshot;
    std::size_t bytes;  // without what it shares
    std::vector<StateMemory::Shared> parts;
  };
  using Place = typename std::list<Entry>::iterator;

  /// Tokens of `read` that the decoder's cache holds and can go back to.
  static int own_beginning(const D& decoder, std::span<const TokenId> read) noexcept {
    const auto& cache = decoder.cache();
    using Cache = std::remove_cvref_t<decltype(cache)>;
    const auto tokens = decoder.tokens().first(idx(cache.size()));
    const auto common = static_cast<int>(
        std::mismatch(read.begin(), read.end(), tokens.begin(), tokens.end()).first - read.begin());
    if (common == cache.size()) return common;
    if constexpr (HoldsSome<Cache>) {
      return cache.holds(common) ? common : 0;
    } else {
      return Truncatable<Cache> ? common : 0;
    }
  }

  const Entry* deepest(std::span<const TokenId> tokens) noexcept {
    const Place* place = by_tokens_.deepest(tokens);
    return place == nullptr ? nullptr : &**place;
  }

  /// All that begin these tokens were used, the longest most of all.
  void touch(std::span<const TokenId> tokens) noexcept {
    Place behind = entries_.begin();
    while (const Place* place = by_tokens_.deepest(tokens)) {
      const Place entry = *place;
      if (entry == behind) {
        ++behind;
      } else {
        entries_.splice(behind, entries_, entry);
      }
      tokens = tokens.first(entry->tokens.size() - 1);  // which is not empty, see keep()
    }
  }

  void drop_oldest() noexcept {
    const Entry& oldest = entries_.back();
    by_tokens_.erase(oldest.tokens);
    bytes_ -= oldest.bytes;
    for (const StateMemory::Shared& part : oldest.parts) {
      const auto users = users_.find(part.part);
      if (--users->second > 0) continue;
      bytes_ -= part.bytes;
      users_.erase(users);
    }
    entries_.pop_back();
  }

  std::size_t budget_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // the one used last comes first
  TokenTrie<Place> by_tokens_;
  std::unordered_map<const void*, int> users_;  // snapshots that have a shared part
};

}  // namespace foredraft::inline v0
