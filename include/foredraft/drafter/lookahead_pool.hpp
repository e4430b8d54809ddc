#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/core/table_payload.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The n-grams of Lookahead: behind each token the continuations of `length` tokens that were seen
/// last, newest first, no two alike. Where there is no place for one more token, that of kWays goes
/// which was used longest ago.
///
/// Bound: all memory is taken at once, keys (16 + 4 guesses length) bytes.
/// @cost a look-up compares kWays tokens, an insertion `guesses` continuations more
class LookaheadPool {
 public:
  static constexpr int kWays = 8;

  /// @param keys tokens that have continuations, a multiple of kWays
  LookaheadPool(int keys, int guesses, int length)
      : guesses_(idx(guesses)),
        length_(idx(length)),
        keys_(idx(keys)),
        tokens_(idx(keys) * guesses_ * length_) {}

  std::size_t bytes() const noexcept {
    return keys_.capacity() * sizeof(Key) + tokens_.capacity() * sizeof(TokenId);
  }
  /// Continuations that are known, of all tokens.
  int size() const noexcept {
    int n = 0;
    for (const Key& key : keys_) n += key.n;
    return n;
  }

  /// @shape [n, length], newest first; empty where the token has none
  std::span<const TokenId> find(TokenId token) noexcept {
    Key* key = set_of(token);
    for (int way = 0; way < kWays; ++way, ++key) {
      if (key->n == 0 || key->token != token) continue;
      key->used = ++clock_;
      return {places_of(*key), idx(key->n) * length_};
    }
    return {};
  }

  /// @shape continuation [length]
  void insert(TokenId token, std::span<const TokenId> continuation) noexcept {
    Key& key = make(token);
    TokenId* const first = places_of(key);
    std::size_t place = 0;
    while (place < idx(key.n) &&
           !std::equal(continuation.begin(), continuation.end(), first + place * length_)) {
      ++place;
    }
    if (place == idx(key.n)) {
      if (place == guesses_) {
        --place;  // the oldest makes room
      } else {
        ++key.n;
      }
    }
    std::copy_backward(first, first + place * length_, first + (place + 1) * length_);
    std::copy(continuation.begin(), continuation.end(), first);
  }

  void forget() noexcept { std::fill(keys_.begin(), keys_.end(), Key{}); }

  /// Payload: tokens of a continuation, number of keys; of each, those used longest ago first, its token,
  /// its number of continuations, and these, newest first.
  /// @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    std::vector<const Key*> known;
    for (const Key& key : keys_) {
      if (key.n > 0) known.push_back(&key);
    }
    std::sort(known.begin(), known.end(),
              [](const Key* a, const Key* b) { return a->used < b->used; });
    PayloadWriter payload;
    payload.put(static_cast<std::uint32_t>(length_));
    payload.put(static_cast<std::uint64_t>(known.size()));
    for (const Key* key : known) {
      payload.put(key->token);
      payload.put(key->n);
      const TokenId* const first = places_of(*key);
      for (std::size_t i = 0; i < idx(key->n) * length_; ++i) payload.put(first[i]);
    }
    write_table(out, {TableKind::kLookahead, vocabulary, std::move(payload).bytes()});
  }

  /// Take what a pool of any size has saved, as much as there is room for, in place of what is known.
  /// @errors as read_table, kInvalidOption for n-grams of another length, kCorruptFile for what save()
  ///   does not write, kOutOfMemory; nothing has changed then
  /// @cost memory of a second pool meanwhile
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    const SavedTable table = read_table(in, TableKind::kLookahead, vocabulary);
    const std::uint32_t most = std::min(table.vocabulary.n_vocab, vocabulary.n_vocab);
    PayloadReader payload(table.payload, most);
    const auto length = payload.take<std::uint32_t>("length");
    if (length != length_) {
      throw Error(ErrorCode::kInvalidOption,
                  "a table of " + std::to_string(length + std::uint64_t{1}) + "-grams",
                  std::to_string(length_ + 1) + "-grams, which this drafter looks up",
                  "give it the settings of the one that saved the table");
    }
    or_out_of_memory("a pool of n-grams", [&] {
      LookaheadPool read(static_cast<int>(keys_.size()), static_cast<int>(guesses_),
                         static_cast<int>(length_));
      const std::size_t of_key = (2 + length_) * sizeof(TokenId);  // at least
      for (std::size_t left = payload.take_count(of_key, "keys"); left > 0; --left) {
        read.take_key(payload);
      }
      payload.end();
      *this = std::move(read);
    });
  }

 private:
  static constexpr std::int32_t kMostSaved = DraftTree::kMaxNodes;  // guesses of a Lookahead

  /// @errors kCorruptFile
  void take_key(PayloadReader& payload) {
    const TokenId token = payload.take_token("token");
    if (!find(token).empty()) throw payload.error("a token again", "each once");
    const auto n = payload.take_within<std::int32_t>(1, kMostSaved, "number of continuations");
    std::vector<std::vector<TokenId>> continuations;
    for (std::int32_t i = 0; i < n; ++i) {
      std::vector<TokenId> one;
      while (one.size() < length_) one.push_back(payload.take_token("token of a continuation"));
      if (std::find(continuations.begin(), continuations.end(), one) != continuations.end()) {
        throw payload.error("a continuation again", "each once");
      }
      continuations.push_back(std::move(one));
    }
    // The newest last, so that it comes first again.
    for (std::size_t i = continuations.size(); i-- > 0;) insert(token, continuations[i]);
  }
  struct Key {
    TokenId token = 0;
    std::int32_t n = 0;  // continuations; 0: nobody's place
    std::uint64_t used = 0;
  };

  Key* set_of(TokenId token) noexcept {
    return keys_.data() + idx(token) % (keys_.size() / idx(kWays)) * idx(kWays);
  }
  TokenId* places_of(const Key& key) noexcept {
    return tokens_.data() + idx(&key - keys_.data()) * guesses_ * length_;
  }
  const TokenId* places_of(const Key& key) const noexcept {
    return tokens_.data() + idx(&key - keys_.data()) * guesses_ * length_;
  }

  /// The token's place, or an empty one, or that of another token.
  Key& make(TokenId token) noexcept {
    Key* const set = set_of(token);
    Key* least = set;
    for (Key* key = set; key != set + kWays; ++key) {
      if (key->n > 0 && key->token == token) {
        least = key;
        break;
      }
      if (key->used < least->used) least = key;
    }
    if (least->token != token) *least = {token, 0, 0};
    least->used = ++clock_;
    return *least;
  }

  std::size_t guesses_;
  std::size_t length_;
  std::uint64_t clock_ = 0;
  std::vector<Key> keys_;        // [keys]
  std::vector<TokenId> tokens_;  // [keys, guesses, length]
};

}  // namespace foredraft::inline v0
