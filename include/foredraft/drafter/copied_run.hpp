#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How sure one may be of something that happened `hits` times of `hits` before: Laplace's rule of
/// succession, (hits + 1) / (hits + 2).
constexpr float succession(int hits) noexcept {
  return (static_cast<float>(hits) + 1.0f) / (static_cast<float>(hits) + 2.0f);
}

/// How a text goes on if it does as it did from `next` on. Where that runs into the text's end it
/// goes on with itself, so what repeats is continued without an end.
class CopiedRun {
 public:
  /// @param next  place of the run's first token, 0 <= next < tokens.size()
  CopiedRun(std::span<const TokenId> tokens, std::int32_t next) noexcept
      : tokens_(tokens), next_(next) {}

  std::int32_t next() const noexcept { return next_; }

  /// Call f(token) for the first `count` tokens.
  template <typename F>
  void each(int count, F&& f) const {
    std::size_t from = idx(next_);
    for (int i = 0; i < count; ++i) {
      f(tokens_[from]);
      if (++from == tokens_.size()) from = idx(next_);
    }
  }

  /// Both go on alike for `count` tokens.
  bool same(const CopiedRun& other, int count) const noexcept {
    std::size_t a = idx(next_);
    std::size_t b = idx(other.next_);
    for (int i = 0; i < count; ++i) {
      if (tokens_[a] != tokens_[b]) return false;
      if (++a == tokens_.size()) a = idx(next_);
      if (++b == tokens_.size()) b = idx(other.next_);
    }
    return true;
  }

  /// How many tokens before the run are those at the text's end, of which `known` are known to be;
  /// at most `most`.
  int match(int known, int most) const noexcept {
    const auto last = static_cast<std::int32_t>(tokens_.size()) - 1;
    int length = known;
    while (length < most && length < next_ &&
           tokens_[idx(next_ - 1 - length)] == tokens_[idx(last - length)]) {
      ++length;
    }
    return length;
  }

  /// Propose `count` tokens behind the deepest node. A node is the surer the longer the match
  /// before it is: `match` tokens, and the run's own up to it.
  /// @param share  factor of the confidence, from 0 to 1
  void draft(DraftTree& tree, int count, int match, float share = 1.0f) const {
    each(count, [&](TokenId token) {
      tree.set_confidence(tree.extend(token), share * succession(match++));
    });
  }

 private:
  std::span<const TokenId> tokens_;
  std::int32_t next_;
};

}  // namespace foredraft::inline v0
