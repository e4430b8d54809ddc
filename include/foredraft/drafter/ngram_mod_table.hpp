#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/core/table_payload.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Which token followed each n-gram the last time: a hash table of tokens without their n-grams.
/// Sequences and drafters on any threads share one.
///
/// An entry holds the token in 20 bits and 12 bits of the n-gram's hash, so that of 4096 n-grams
/// that hit the place of another one, one is taken for it. The last writer wins. All is relaxed:
/// whoever reads an entry sees some token that was written there, and a wrong one costs a rejected
/// draft.
///
/// Memory: 4 bytes an entry, from the beginning.
/// @cost put and find O(1), one cache miss; a hash O(n)
/// @source llama.cpp and ik_llama.cpp, common/ngram-mod.cpp, whose entries are tokens alone
class NgramModTable {
 public:
  static constexpr std::size_t kEntries = std::size_t{1} << 22;  ///< 16 MiB
  /// Tokens from here on are not stored: no vocabulary has so many.
  static constexpr TokenId kTokens = (1 << 20) - 1;

  /// @param size_n   tokens of an n-gram
  /// @param entries  a power of two
  /// @errors kInvalidOption, kOutOfMemory
  explicit NgramModTable(int size_n = 16, std::size_t entries = kEntries)
      : size_n_(size_n), entries_(entries) {
    if (size_n < 1 || size_n > 1024 || entries < 16 || entries > kMostEntries ||
        !std::has_single_bit(entries)) {
      throw Error(ErrorCode::kInvalidOption,
                  "a table of " + std::to_string(entries) + " entries for n-grams of " +
                      std::to_string(size_n) + " tokens",
                  "a power of two from 16 to 2^28; 1 to 1024 tokens");
    }
    table_ = or_out_of_memory("a table of n-grams",
                              [&] { return std::make_unique<std::atomic<Entry>[]>(entries); });
    clear();
  }

  int size_n() const noexcept { return size_n_; }
  std::size_t entries() const noexcept { return entries_; }
  std::size_t bytes() const noexcept { return entries_ * sizeof(Entry); }
  /// Part of the entries in use.
  double occupancy() const noexcept {
    return static_cast<double>(used_.load(std::memory_order_relaxed)) /
           static_cast<double>(entries_);
  }

  /// Of an n-gram. @param tokens  size_n of them
  std::uint64_t hash(std::span<const TokenId> tokens) const noexcept {
    std::uint64_t hash = 0;
    for (const TokenId token : tokens) hash = hash * kFactor + static_cast<std::uint32_t>(token);
    return (hash ^ hash >> 32) * kFactor;  // the low bits of a sum of products are poor
  }

  void put(std::uint64_t hash, TokenId token) noexcept {
    if (token >= kTokens) return;
    const Entry entry = tag(hash) << kTokenBits | static_cast<Entry>(token);
    if (table_[place(hash)].exchange(entry, std::memory_order_relaxed) == kEmpty) {
      used_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  std::optional<TokenId> find(std::uint64_t hash) const noexcept {
    const Entry entry = table_[place(hash)].load(std::memory_order_relaxed);
    if (entry == kEmpty || entry >> kTokenBits != tag(hash)) return std::nullopt;
    return static_cast<TokenId>(entry & kTokens);
  }

  /// Forget everything. @cost O(entries)
  void clear() noexcept {
    for (std::size_t i = 0; i < entries_; ++i) table_[i].store(kEmpty, std::memory_order_relaxed);
    used_.store(0, std::memory_order_relaxed);
    failures_.store(0, std::memory_order_relaxed);
  }
  /// clear(), because it is full: whoever drafts from it enters its text again.
  void renew() noexcept {
    clear();
    epoch_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Changes with renew().
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }

  /// Note how a draft fared. @return failures in a row, of whoever drafts from the table
  int note(bool failed) noexcept {
    if (failed) return failures_.fetch_add(1, std::memory_order_relaxed) + 1;
    failures_.store(0, std::memory_order_relaxed);
    return 0;
  }
  int failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

  /// Write what is known. Nobody may change the table meanwhile.
  ///
  /// Payload: size_n, entries and number of those in use; each of these as its place and its bits.
  /// @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const;

  /// @param most_entries  a table of more is refused: a short file may ask for a large one
  /// @errors as read_table
  static std::shared_ptr<NgramModTable> load(std::istream& in,
                                             const VocabularyFingerprint& vocabulary,
                                             std::size_t most_entries = 4 * kEntries);

 private:
  using Entry = std::uint32_t;
  static constexpr Entry kEmpty = 0xffffffffu;  // token kTokens, which is not stored
  static constexpr unsigned kTokenBits = 20;
  static constexpr std::size_t kMostEntries = std::size_t{1} << 28;
  static constexpr std::uint64_t kFactor = 6364136223846793005u;  // Knuth's MMIX generator

  std::size_t place(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash >> 24) & (entries_ - 1);  // below the tag
  }
  static Entry tag(std::uint64_t hash) noexcept { return static_cast<Entry>(hash >> 52); }

  int size_n_;
  std::size_t entries_;
  std::unique_ptr<std::atomic<Entry>[]> table_;  // [entries]
  std::atomic<std::size_t> used_{0};
  std::atomic<int> failures_{0};
  std::atomic<std::uint32_t> epoch_{0};
};

inline void NgramModTable::save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
  PayloadWriter entries;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < entries_; ++i) {
    const Entry entry = table_[i].load(std::memory_order_relaxed);
    if (entry == kEmpty) continue;
    entries.put(static_cast<std::uint32_t>(i));
    entries.put(entry);
    ++count;
  }
  PayloadWriter payload;
  payload.put(static_cast<std::uint32_t>(size_n_));
  payload.put(static_cast<std::uint32_t>(entries_));
  payload.put(count);
  payload.append(entries.bytes());
  write_table(out, {TableKind::kNgramMod, vocabulary, std::move(payload).bytes()});
}

inline std::shared_ptr<NgramModTable> NgramModTable::load(std::istream& in,
                                                          const VocabularyFingerprint& vocabulary,
                                                          std::size_t most_entries) {
  const SavedTable saved = read_table(in, TableKind::kNgramMod, vocabulary);
  PayloadReader reader(saved.payload, saved.vocabulary.n_vocab);
  const auto size_n = reader.take_within<std::uint32_t>(1, 1024, "tokens of an n-gram");
  const auto most = static_cast<std::uint32_t>(std::min(most_entries, kMostEntries));
  const auto entries = reader.take_within<std::uint32_t>(16, most, "number of entries");
  if (!std::has_single_bit(entries)) {
    throw reader.error(std::to_string(entries) + " entries", "a power of two");
  }
  const std::size_t count = reader.take_count(2 * sizeof(Entry), "entries in use");
  auto table = std::make_shared<NgramModTable>(static_cast<int>(size_n), entries);
  std::uint32_t least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = reader.take_within<std::uint32_t>(least, entries - 1, "place");
    const auto entry = reader.take<Entry>("entry");
    const auto token = static_cast<TokenId>(entry & kTokens);
    if (token == kTokens || idx(token) >= saved.vocabulary.n_vocab) {
      throw reader.error("token " + std::to_string(token),
                         "one of " + std::to_string(saved.vocabulary.n_vocab));
    }
    table->table_[place].store(entry, std::memory_order_relaxed);
    least = place + 1;  // in order, so none comes twice
  }
  reader.end();
  table->used_.store(count, std::memory_order_relaxed);
  return table;
}

}  // namespace foredraft::inline v0
