#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <foredraft/core/types.hpp>
#include <foredraft/core/utf8.hpp>
#include <foredraft/io/bucket_index.hpp>
#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// Pair encoding: a word begins as its bytes, or as its characters, and as long as any two neighbours
/// have a merge, the one of lowest rank (of equal ones the leftmost) is applied.
///
/// Some vocabularies lack tokens for bytes that never occur in well-formed text; such bytes are
/// left out, as other engines do: there is no id that would not mislead the model.
/// @source Sennrich et al. 2016, arXiv:1508.07909; over bytes as in GPT-2
class BytePairEncoder {
 public:
  explicit BytePairEncoder(const Vocabulary& vocabulary) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[byte] = vocabulary.byte_token(static_cast<unsigned char>(byte)).value_or(kNoToken);
    }
    std::vector<Rule> rules;
    rules.reserve(vocabulary.merges().size());
    for (const Merge& merge : vocabulary.merges()) {
      rules.push_back(
          {key(merge.left, merge.right), static_cast<std::uint32_t>(rules.size()), merge.result});
    }
    rules_ = BucketIndex<Rule>(
        rules, [](const Rule& rule) { return hash(rule.pair); },
        [](const Rule& a, const Rule& b) { return a.pair < b.pair; });
  }

 private:
  struct Rule {
    std::uint64_t pair;  // key()
    std::uint32_t rank;
    TokenId result;
  };
  struct Symbol {
    TokenId id;
    std::uint32_t previous, next;  // kEnd at the ends
  };
  struct Candidate {
    std::uint32_t rank, left;
    TokenId left_id, right_id, result;

    /// Order of a heap whose front is the merge to apply next.
    bool operator<(const Candidate& other) const noexcept {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

 public:
  /// Memory to work in, so that a text of many words allocates once. One for each thread.
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;
  };

  /// Appends the tokens of one word of less than 4 GiB.
  /// @cost O(n log n) in its bytes
  void encode(std::string_view word, Workspace& work, std::vector<TokenId>& out) const {
    begin(work);
    for (const char c : word) append(bytes_[static_cast<unsigned char>(c)], work);
    merge(work, out);
  }

  /// The same of characters; one without a token is its bytes, and a byte without one the unknown
  /// token.
  /// @param vocabulary  that of the constructor
  void encode_characters(const Vocabulary& vocabulary, std::string_view word, Workspace& work,
                         std::vector<TokenId>& out) const {
    begin(work);
    while (!word.empty()) {
      const std::string_view character =
          word.substr(0, std::max<std::size_t>(1, valid_utf8_character(word)));
      word.remove_prefix(character.size());
      const auto id = vocabulary.find(character);
      if (id && vocabulary.is_text(*id) && vocabulary.kind(*id) != TokenKind::kByte) {
        append(*id, work);
        continue;
      }
      for (const char c : character) {
        const TokenId byte = bytes_[static_cast<unsigned char>(c)];
        append(byte == kNoToken ? vocabulary.unknown().value() : byte, work);
      }
    }
    merge(work, out);
  }

 private:
  static void begin(Workspace& work) {
    work.symbols.clear();
    work.candidates.clear();
  }
  static void append(TokenId id, Workspace& work) {
    const auto i = static_cast<std::uint32_t>(work.symbols.size());
    if (id != kNoToken) work.symbols.push_back({id, i - 1, i + 1});  // the first wraps to kEnd
  }

  /// Appends what the symbols become.
  void merge(Workspace& work, std::vector<TokenId>& out) const {
    if (work.symbols.empty()) return;
    work.symbols.back().next = kEnd;
    for (std::uint32_t i = 0; i + 1 < work.symbols.size(); ++i) consider(i, work);
    while (!work.candidates.empty()) {
      std::pop_heap(work.candidates.begin(), work.candidates.end());
      const Candidate best = work.candidates.back();
      work.candidates.pop_back();
      apply(best, work);
    }
    for (std::uint32_t i = 0; i != kEnd; i = work.symbols[i].next)
      out.push_back(work.symbols[i].id);
  }

  static constexpr TokenId kNoToken = -1;
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

  static std::uint64_t key(TokenId left, TokenId right) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  /// The golden ratio spreads neighbouring ids; the upper half of the product depends on all bits.
  static std::size_t hash(std::uint64_t pair) noexcept {
    return static_cast<std::size_t>((pair * 0x9e3779b97f4a7c15u) >> 32);
  }

  void consider(std::uint32_t left, Workspace& work) const {
    const TokenId left_id = work.symbols[left].id;
    const TokenId right_id = work.symbols[work.symbols[left].next].id;
    const std::uint64_t pair = key(left_id, right_id);
    const Rule* const rule = rules_.find(hash(pair), [pair](const Rule& r) {
      return r.pair < pair ? -1 : r.pair > pair ? 1 : 0;
    });
    if (rule == nullptr) return;
    work.candidates.push_back({rule->rank, left, left_id, right_id, rule->result});
    std::push_heap(work.candidates.begin(), work.candidates.end());
  }

  void apply(const Candidate& merge, Workspace& work) const {
    auto& symbols = work.symbols;
    Symbol& left = symbols[merge.left];
    // Candidates are not taken out of the heap when their symbols merge otherwise: they no longer
    // fit.
    if (left.id != merge.left_id || left.next == kEnd || symbols[left.next].id != merge.right_id)
      return;
    Symbol& right = symbols[left.next];
    left.id = merge.result;
    left.next = right.next;
    right.id = kNoToken;
    if (left.next != kEnd) symbols[left.next].previous = merge.left;
    if (left.previous != kEnd) consider(left.previous, work);
    if (left.next != kEnd) consider(merge.left, work);
  }

  std::array<TokenId, 256> bytes_{};
  BucketIndex<Rule> rules_;
};

}  // namespace foredraft::inline v0
