#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/rng.hpp>

/// An engine that is not foredraft's own: a cache that is a list of tokens, and a target whose
/// logits are a function of the tokens before. It checks its caller: a broken contract throws
/// std::logic_error.
namespace foredraft::inline v0::testing {

class TokenCache {
 public:
  struct Snapshot {
    std::vector<TokenId> tokens;
  };

  explicit TokenCache(int capacity = 1024, int max_staged = 512)
      : capacity_(capacity), max_staged_(max_staged) {
    reserve();
  }
  TokenCache(const TokenCache& other) : TokenCache(other.capacity_, other.max_staged_) {
    *this = other;
  }
  TokenCache& operator=(const TokenCache& other) {
    capacity_ = other.capacity_;
    max_staged_ = other.max_staged_;
    tokens_ = other.tokens_;
    staged_ = other.staged_;
    reserve();  // copying a vector leaves its spare room behind
    return *this;
  }
  TokenCache(TokenCache&&) noexcept = default;
  TokenCache& operator=(TokenCache&&) noexcept = default;
  ~TokenCache() = default;

  int size() const { return static_cast<int>(tokens_.size()); }
  int capacity() const { return capacity_; }
  int max_staged() const { return max_staged_; }
  int staged() const { return static_cast<int>(staged_.size()); }
  std::span<const TokenId> tokens() const { return tokens_; }

  void stage(std::span<const Node> nodes) {
    const int total = staged() + static_cast<int>(nodes.size());
    if (total > max_staged_) throw std::logic_error("more nodes than max_staged");
    for (const Node& node : nodes) {
      if (node.parent < kCommitted || node.parent >= staged())
        throw std::logic_error("parent not staged");
      staged_.push_back(node);
    }
  }

  void commit(std::span<const NodeIndex> path) noexcept {
    for (const NodeIndex node : path)
      tokens_.push_back(staged_[static_cast<std::size_t>(node)].token);
    // Keep the subtree below the end of the path; `renumbered_` is the new index of each node, -2
    // where it is dropped.
    const NodeIndex end = path.empty() ? kCommitted : path.back();
    std::size_t kept = 0;
    for (int i = 0; i < staged(); ++i) {
      const Node node = staged_[static_cast<std::size_t>(i)];
      const bool root = node.parent == end && (path.empty() || i > end);
      const int parent =
          root ? kCommitted
               : (node.parent < 0 ? -2 : renumbered_[static_cast<std::size_t>(node.parent)]);
      const bool keep = root || parent >= 0;
      renumbered_[static_cast<std::size_t>(i)] = keep ? static_cast<int>(kept) : -2;
      if (keep) staged_[kept++] = {node.token, parent};
    }
    staged_.resize(kept);
  }
  void discard() noexcept { staged_.clear(); }
  void truncate(int n) noexcept {
    staged_.clear();
    if (n < size()) tokens_.resize(static_cast<std::size_t>(n));
  }
  Snapshot snapshot() const { return {tokens_}; }
  void restore(const Snapshot& snapshot) {
    tokens_.assign(snapshot.tokens.begin(), snapshot.tokens.end());
    staged_.clear();
  }

  /// Tokens that the row of a staged node sees: the committed ones, then its ancestors and itself.
  std::vector<TokenId> prefix_of(NodeIndex node) const {
    std::vector<TokenId> path;
    for (; node >= 0; node = staged_[static_cast<std::size_t>(node)].parent) {
      path.insert(path.begin(), staged_[static_cast<std::size_t>(node)].token);
    }
    path.insert(path.begin(), tokens_.begin(), tokens_.end());
    return path;
  }

 private:
  /// Commits allocate nothing.
  void reserve() {
    tokens_.reserve(static_cast<std::size_t>(capacity_ + max_staged_));
    staged_.reserve(static_cast<std::size_t>(max_staged_));
    renumbered_.resize(static_cast<std::size_t>(max_staged_));
  }

  int capacity_;
  int max_staged_;
  std::vector<TokenId> tokens_;
  std::vector<Node> staged_;
  std::vector<int> renumbered_;  // by commit, of the staged nodes
};
static_assert(Cache<TokenCache>);
static_assert(Truncatable<TokenCache>);

/// Logits from a hash of the last `order` tokens (0: of the whole text, so that one wrong cache row
/// changes everything behind it). `sharpness` scales the logits.
class HashTarget {
 public:
  static constexpr bool row_exact = true;

  explicit HashTarget(int n_vocab = 16, int order = 1, double sharpness = 3.0,
                      std::uint32_t seed = 1)
      : n_vocab_(n_vocab), order_(order), sharpness_(sharpness), seed_(seed) {}

  int vocab_size() const { return n_vocab_; }
  bool is_end(TokenId token) const { return token == end_token; }
  std::string piece(TokenId token) const {
    return pieces.empty() ? std::string(1, static_cast<char>('a' + token % 26)) + ' '
                          : pieces[static_cast<std::size_t>(token)];
  }

  void forward(std::span<Request<TokenCache>> requests) {
    ++passes;
    if (before_forward) before_forward();
    for (Request<TokenCache>& request : requests) {
      request.scores->reset(request.want, request.count, n_vocab_);
      if (request.want.rows == RowNeed::kNothing) continue;
      for (int row = 0; row < request.count; ++row) {
        const auto logits = logits_after(request.cache->prefix_of(request.first + row));
        request.scores->set_row(row, logits);
        add_up_runs(logits, request.want.temperature, request.scores->hand_over_maxima(row),
                    request.scores->hand_over_sums(row));
      }
    }
  }

  std::vector<float> logits_after(std::span<const TokenId> prefix) const {
    if (order_ > 0 && prefix.size() > static_cast<std::size_t>(order_)) {
      prefix = prefix.subspan(prefix.size() - static_cast<std::size_t>(order_));
    }
    std::uint64_t hash = seed_;
    for (const TokenId token : prefix) {
      hash = (hash ^ (static_cast<std::uint64_t>(token) + 1)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    std::vector<float> logits(static_cast<std::size_t>(n_vocab_));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto words =
          philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(hash),
                      static_cast<std::uint32_t>(hash >> 32), 0},
                     {seed_, 0});
      logits[i] = static_cast<float>(sharpness_ * (static_cast<double>(words[0]) * 0x1p-31 - 1.0));
    }
    return logits;
  }

  TokenId end_token = -1;
  std::vector<std::string> pieces;
  std::function<void()> before_forward;  // may throw, to make a pass fail
  int passes = 0;
  double sum_factor = 1.0;  // any other makes the sums of runs wrong

 private:
  /// As a head would hand them over; places are empty where nobody wants them.
  void add_up_runs(std::span<const float> logits, double temperature, std::span<float> maxima,
                   std::span<double> sums) const {
    for (std::size_t run = 0; run < maxima.size(); ++run) {
      const std::size_t begin = run * Scores::kRun;
      const auto tokens = logits.subspan(begin, std::min(Scores::kRun, logits.size() - begin));
      maxima[run] = *std::max_element(tokens.begin(), tokens.end());
      if (sums.empty()) continue;
      sums[run] = 0;
      for (const float x : tokens)
        sums[run] += sum_factor * std::exp((double{x} - maxima[run]) / temperature);
    }
  }

  int n_vocab_;
  int order_;
  double sharpness_;
  std::uint32_t seed_;
};
static_assert(Target<HashTarget, TokenCache>);
static_assert(TextTarget<HashTarget>);

}  // namespace foredraft::inline v0::testing
