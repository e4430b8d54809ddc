#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <foredraft/cache/staged_tree.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// A cache that keeps the tokens and nothing else: for targets that compute a row from the text
/// before it, or that keep their keys and values themselves.
/// @cost 4 bytes a position; stage and commit O(nodes)
class TokenCache {
 public:
  struct Snapshot {
    std::vector<TokenId> tokens = {};

    static void parts(auto& self, auto& archive) { archive(self.tokens); }
  };

  explicit TokenCache(int capacity = 1024, int max_staged = 512)
      : tokens_(idx(capacity)), staged_(max_staged) {}

  int size() const noexcept { return size_; }
  int capacity() const noexcept { return static_cast<int>(tokens_.size()); }
  int max_staged() const noexcept { return staged_.max_size(); }
  int staged() const noexcept { return staged_.size(); }

  void stage(std::span<const Node> nodes) { staged_.stage(nodes); }
  void commit(std::span<const NodeIndex> path) noexcept {
    for (const NodeIndex node : path) tokens_[idx(size_++)] = staged_.token(node);
    staged_.commit(path, [](NodeIndex, NodeIndex) {});
  }
  void discard() noexcept { staged_.discard(); }
  void truncate(int n) noexcept {
    discard();
    size_ = std::clamp(n, 0, size_);
  }
  Snapshot snapshot() const { return {{tokens_.begin(), tokens_.begin() + size_}}; }
  /// @errors kContextOverflow where the snapshot comes from a larger cache
  void restore(const Snapshot& snapshot) {
    if (snapshot.tokens.size() > tokens_.size()) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.tokens.size()) + " positions",
                  "at most " + std::to_string(capacity()), "");
    }
    std::copy(snapshot.tokens.begin(), snapshot.tokens.end(), tokens_.begin());
    size_ = static_cast<int>(snapshot.tokens.size());
    discard();
  }

  // For targets.

  std::span<const TokenId> tokens() const noexcept { return {tokens_.data(), idx(size_)}; }
  TokenId token(NodeIndex node) const noexcept { return staged_.token(node); }
  Position position(NodeIndex node) const noexcept { return size_ + staged_.depth(node); }

  /// Tokens that a staged node sees, its own included.
  std::vector<TokenId> text_of(NodeIndex node) const {
    std::vector<TokenId> text(tokens().begin(), tokens().end());
    text.resize(idx(position(node)) + 1);
    for (std::size_t i = text.size(); node >= 0; node = staged_.parent(node)) {
      text[--i] = token(node);
    }
    return text;
  }

 private:
  std::vector<TokenId> tokens_;  // [capacity]
  int size_ = 0;
  StagedTree staged_;
};

static_assert(Cache<TokenCache> && Truncatable<TokenCache>);

}  // namespace foredraft::inline v0
