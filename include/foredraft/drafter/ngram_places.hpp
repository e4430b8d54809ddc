#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Where the n-grams of a text occur, newest first. A place is that of an n-gram's last token.
///
/// Places whose n-grams hash alike form a chain, as in an LZ77 compressor; tokens are compared
/// before a place is handed out. The table of chains grows with the text.
///
/// Bound: 16 bytes a token of the longest text so far, and 24 while it grows; at least 4 KiB.
/// @cost index O(n) a token, amortised; newest and older O(n), and O(kMostSteps) at most; truncate
/// O(table + tokens cut)
/// @source hash chains as in RFC 1951, section 4
class NgramPlaces {
 public:
  static constexpr std::int32_t kNone = -1;
  /// Places of other n-grams that a search steps over before it gives up.
  static constexpr int kMostSteps = 256;

  explicit NgramPlaces(int n) : n_(n), heads_(std::size_t{1} << 10, kNone) {}

  int n() const noexcept { return n_; }
  std::size_t bytes() const noexcept {
    return (heads_.capacity() + previous_.capacity()) * sizeof(std::int32_t);
  }

  /// Of the n-gram that ends at `place`. place + 1 >= n.
  std::uint64_t hash(std::span<const TokenId> tokens, std::int32_t place) const noexcept {
    std::uint64_t hash = 0;
    for (int i = 0; i < n_; ++i) {
      hash = (hash ^ static_cast<std::uint32_t>(tokens[idx(place - i)])) * 0x9E3779B97F4A7C15u;
    }
    return hash ^ hash >> 32;
  }

  /// Enter all places but the last, which is the end that others are compared with.
  void index(std::span<const TokenId> tokens) {
    const auto last = std::max(0, static_cast<std::int32_t>(tokens.size()) - 1);
    truncate(last);  // no place may lie beyond a text that became shorter
    previous_.resize(std::max(previous_.size(), idx(last)), kNone);
    if (heads_.size() < idx(last)) {
      std::size_t size = heads_.size();
      while (size < idx(last)) size *= 2;
      heads_.assign(size, kNone);
      indexed_ = 0;
    }
    for (; indexed_ < last; ++indexed_) {
      if (indexed_ + 1 < n_) continue;
      std::int32_t& head = heads_[bucket(hash(tokens, indexed_))];
      previous_[idx(indexed_)] = head;
      head = indexed_;
    }
  }

  /// Newest place, before the last, of the n-gram at the text's end. kNone where there is none.
  std::int32_t newest(std::span<const TokenId> tokens) const noexcept {
    const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
    if (last + 1 < n_) return kNone;
    return first_equal(tokens, heads_[bucket(hash(tokens, last))]);
  }
  /// The next older place of it behind `place`.
  std::int32_t older(std::span<const TokenId> tokens, std::int32_t place) const noexcept {
    return first_equal(tokens, previous_[idx(place)]);
  }

  /// Forget the places from `n` on.
  void truncate(int n) noexcept {
    if (n >= indexed_) return;
    for (std::int32_t& head : heads_) {
      while (head >= n) head = previous_[idx(head)];
    }
    indexed_ = n;
  }
  void clear() noexcept {
    std::fill(heads_.begin(), heads_.end(), kNone);
    indexed_ = 0;
  }

 private:
  std::size_t bucket(std::uint64_t hash) const noexcept { return hash & (heads_.size() - 1); }

  std::int32_t first_equal(std::span<const TokenId> tokens, std::int32_t place) const noexcept {
    const TokenId* const end = tokens.data() + tokens.size();
    for (int step = 0; place != kNone && step < kMostSteps; ++step) {
      if (std::equal(end - n_, end, tokens.data() + place + 1 - n_)) return place;
      place = previous_[idx(place)];
    }
    return kNone;
  }

  int n_;
  std::vector<std::int32_t> heads_;  // newest place of a hash; a power of two, no less than places
  std::vector<std::int32_t> previous_;  // next older place of the same hash
  std::int32_t indexed_ = 0;            // places entered so far
};

}  // namespace foredraft::inline v0
