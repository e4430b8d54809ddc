#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/core/table_payload.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How often which tokens followed which n-grams of one to four tokens: a hash table of one cache
/// line an n-gram.
///
/// Of an n-gram the five tokens that followed most often are known; a sixth takes the place of the
/// rarest. (Only a token that followed in half of the cases is worth proposing.) Where the table
/// may not grow further, a new n-gram takes the place of the least frequent of the eight whose
/// hashes are near. Counts of an n-gram are halved before they overflow.
///
/// Memory: 64 bytes an entry, at least 16 KiB. Entries are at most max_entries, a power of two, and
/// usually two to four for each n-gram held; half as much again while it grows.
/// @cost add and find O(1): one cache miss or two
class NgramCounts {
 public:
  static constexpr int kLongest = 4;
  static constexpr std::size_t kFollowers = 5;
  static constexpr std::uint32_t kMostCount = 1u << 24;
  static constexpr TokenId kNoToken = -1;

  struct Follower {
    TokenId token = kNoToken;
    std::uint32_t count = 0;  ///< 0: none
  };
  struct alignas(64) Entry {
    std::array<TokenId, kLongest> ngram{kNoToken, kNoToken, kNoToken, kNoToken};
    std::uint32_t sum = 0;  ///< of all that followed; 0: the entry is free
    std::array<Follower, kFollowers> followers{};

    std::uint32_t count_of(TokenId token) const noexcept {
      for (const Follower& follower : followers) {
        if (follower.token == token) return follower.count;
      }
      return 0;
    }
  };

  /// @param max_entries  a power of two
  /// @errors kInvalidOption
  explicit NgramCounts(std::size_t max_entries = std::size_t{1} << 18) : max_entries_(max_entries) {
    if (max_entries < kLeastEntries || max_entries > kMostEntries ||
        !std::has_single_bit(max_entries)) {
      throw Error(ErrorCode::kInvalidOption, "at most " + std::to_string(max_entries) + " n-grams",
                  "a power of two from 256 to 2^26");
    }
  }

  /// N-grams held.
  std::size_t size() const noexcept { return size_; }
  std::size_t max_entries() const noexcept { return max_entries_; }
  std::size_t bytes() const noexcept { return entries_.capacity() * sizeof(Entry); }

  /// Null where the n-gram is not held. @param ngram  1 to 4 tokens
  const Entry* find(std::span<const TokenId> ngram) const noexcept {
    if (entries_.empty()) return nullptr;
    const std::size_t home = home_of(ngram);
    for (std::size_t i = 0; i < kNear; ++i) {
      const Entry& entry = entries_[(home + i) & (entries_.size() - 1)];
      if (is(entry, ngram)) return &entry;
    }
    return nullptr;
  }

  /// `token` followed `ngram` `count` times more.
  /// @errors kOutOfMemory
  void add(std::span<const TokenId> ngram, TokenId token, std::uint32_t count = 1) {
    add(ngram, token, count, count);
  }
  /// Count what followed the n-grams of `shortest` to `longest` tokens at the places from `begin`
  /// on. Those that begin before it are counted, too.
  /// @errors kOutOfMemory
  void learn(std::span<const TokenId> tokens, std::size_t begin, int shortest = 1,
             int longest = kLongest) {
    for (std::size_t i = begin; i < tokens.size(); ++i) {
      for (std::size_t n = idx(shortest); n <= idx(longest) && n <= i; ++n) {
        add(tokens.subspan(i - n, n), tokens[i]);
      }
    }
  }
  /// Add all counts of `other`. @errors kOutOfMemory
  void merge(const NgramCounts& other) {
    for (const Entry& entry : other.entries_) {
      if (entry.sum > 0) merge(entry);
    }
  }
  /// Forget everything, and give the memory back.
  void clear() noexcept {
    entries_ = std::vector<Entry>();
    size_ = 0;
  }

  /// Payload: max_entries and the number of n-grams; of each its tokens, -1 behind a short one, the
  /// sum of its counts, how many followers are known, and of each of these token and count.
  /// @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const;

  /// @errors as read_table
  static NgramCounts load(std::istream& in, const VocabularyFingerprint& vocabulary);

 private:
  static constexpr std::size_t kLeastEntries = 256;
  static constexpr std::size_t kMostEntries = std::size_t{1} << 26;  // 4 GiB
  static constexpr std::size_t kNear = 8;                            // places an n-gram may have

  std::size_t home_of(std::span<const TokenId> ngram) const noexcept {
    std::uint64_t hash = ngram.size();
    for (const TokenId token : ngram) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return hash & (entries_.size() - 1);
  }
  static bool is(const Entry& entry, std::span<const TokenId> ngram) noexcept {
    return entry.sum > 0 && std::equal(ngram.begin(), ngram.end(), entry.ngram.begin()) &&
           (ngram.size() == kLongest || entry.ngram[ngram.size()] == kNoToken);
  }
  static std::span<const TokenId> ngram_of(const Entry& entry) noexcept {
    const auto end = std::find(entry.ngram.begin(), entry.ngram.end(), kNoToken);
    return {entry.ngram.data(), idx(end - entry.ngram.begin())};
  }

  void merge(const Entry& entry) {
    std::uint32_t others = entry.sum;
    for (const Follower& follower : entry.followers) others -= follower.count;
    for (const Follower& follower : entry.followers) {
      if (follower.count == 0) continue;
      add(ngram_of(entry), follower.token, follower.count,
          follower.count + std::exchange(others, 0));
    }
  }

  /// @param sum  what is added to the sum, of which `count` is the token's
  void add(std::span<const TokenId> ngram, TokenId token, std::uint32_t count, std::uint32_t sum) {
    Entry& entry = entry_of(ngram);
    sum = std::min(sum, kMostCount / 2);
    count = std::min(count, sum);
    while (entry.sum > kMostCount - sum) {
      entry.sum /= 2;
      for (Follower& follower : entry.followers) follower.count /= 2;
    }
    entry.sum += sum;
    Follower* place = &entry.followers[0];
    for (Follower& follower : entry.followers) {
      if (follower.token == token) {
        follower.count += count;
        return;
      }
      if (follower.count < place->count) place = &follower;
    }
    *place = {token, count};
  }

  /// The entry of an n-gram, made where there is none: its sum is then 0.
  Entry& entry_of(std::span<const TokenId> ngram) {
    if (2 * size_ >= entries_.size() && entries_.size() < max_entries_) grow();
    const std::size_t home = home_of(ngram);
    Entry* least = nullptr;
    for (std::size_t i = 0; i < kNear; ++i) {
      Entry& entry = entries_[(home + i) & (entries_.size() - 1)];
      if (is(entry, ngram)) return entry;
      if (least == nullptr || entry.sum < least->sum) least = &entry;
    }
    // All near places are taken: chance if the table is well filled, else many hashes alike.
    if (least->sum > 0 && entries_.size() < max_entries_ && 8 * size_ >= entries_.size()) {
      grow();
      return entry_of(ngram);
    }
    size_ += least->sum == 0;
    *least = Entry{};
    std::copy(ngram.begin(), ngram.end(), least->ngram.begin());
    return *least;
  }

  void grow() {
    std::vector<Entry> old = or_out_of_memory("counts of n-grams", [&] {
      return std::vector<Entry>(std::max(kLeastEntries, 2 * entries_.size()));
    });
    entries_.swap(old);
    size_ = 0;
    for (const Entry& entry : old) {
      if (entry.sum > 0) entry_of(ngram_of(entry)) = entry;
    }
  }

  std::size_t max_entries_;
  std::vector<Entry> entries_;  // a power of two, or none
  std::size_t size_ = 0;        // entries in use
};

inline void NgramCounts::save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
  PayloadWriter payload;
  payload.put(static_cast<std::uint32_t>(max_entries_));
  payload.put(static_cast<std::uint64_t>(size_));
  for (const Entry& entry : entries_) {
    if (entry.sum == 0) continue;
    for (const TokenId token : entry.ngram) payload.put(token);
    payload.put(entry.sum);
    payload.put(static_cast<std::uint8_t>(
        std::count_if(entry.followers.begin(), entry.followers.end(),
                      [](const Follower& follower) { return follower.count > 0; })));
    for (const Follower& follower : entry.followers) {
      if (follower.count == 0) continue;
      payload.put(follower.token);
      payload.put(follower.count);
    }
  }
  write_table(out, {TableKind::kNgramCounts, vocabulary, std::move(payload).bytes()});
}

inline NgramCounts NgramCounts::load(std::istream& in, const VocabularyFingerprint& vocabulary) {
  const SavedTable saved = read_table(in, TableKind::kNgramCounts, vocabulary);
  PayloadReader reader(saved.payload, saved.vocabulary.n_vocab);
  const auto most = reader.take_within<std::uint32_t>(kLeastEntries, kMostEntries, "most n-grams");
  if (!std::has_single_bit(most)) throw reader.error(std::to_string(most), "a power of two");
  NgramCounts counts(most);
  const std::size_t size = reader.take_count(kLongest * 4 + 4 + 1 + 8, "n-grams");
  for (std::size_t i = 0; i < size; ++i) {
    Entry entry;
    entry.ngram[0] = reader.take_token("first token of an n-gram");
    for (std::size_t k = 1; k < kLongest; ++k) {
      if (entry.ngram[k - 1] != kNoToken) {
        entry.ngram[k] = reader.take_token_or(kNoToken, "token of an n-gram");
      } else {
        entry.ngram[k] = reader.take_within(kNoToken, kNoToken, "token behind the end");
      }
    }
    entry.sum = reader.take_within<std::uint32_t>(1, kMostCount, "sum of counts");
    const auto n = reader.take_within<std::uint8_t>(1, kFollowers, "number of tokens that follow");
    std::uint32_t left = entry.sum;
    for (std::size_t k = 0; k < n; ++k) {
      Follower follower;
      follower.token = reader.take_token("token that follows");
      if (entry.count_of(follower.token) > 0) {
        throw reader.error("token " + std::to_string(follower.token) + " twice", "once");
      }
      follower.count = reader.take_within<std::uint32_t>(1, left, "count");
      left -= follower.count;
      entry.followers[k] = follower;
    }
    counts.merge(entry);
  }
  reader.end();
  return counts;
}

}  // namespace foredraft::inline v0
