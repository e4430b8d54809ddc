#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/drafter/pair_table.hpp>

namespace foredraft::inline v0 {

/// All strings of up to `depth` tokens that occur in some texts, with how often each does: a
/// compressed trie that grows by one token at a time.
///
/// One text is open and grows at its end, others are closed and go as a whole. An edge is a stretch
/// of some text; the children of a node are sorted by count, of equal ones the newest first. The
/// suffixes of the open text that occur elsewhere, too, are followed as the text grows, so the
/// place of every match of the text's end is there without a search. A suffix that occurs nowhere
/// else is a leaf, which grows by itself.
///
/// Bound: at most 2 nodes a token held and 136 bytes a node of the most there have been, or 172
/// while it grows; and 8 bytes a token of capacity.
/// @cost append O(longest repeated suffix), which is O(depth); locus and count O(1) where nothing
/// ends within the edge; remove O(tokens * depth)
/// @source Weiner 1973, McCreight 1976; counts and depth as in Oliaro et al. 2024,
/// "SuffixDecoding", arXiv:2411.04975
class SuffixTree {
 public:
  static constexpr int kMaxDepth = 64;

  /// A place in the tree: `offset` tokens down the edge that leads to `node`.
  struct Locus {
    std::int32_t node = 0;
    std::int32_t offset = 0;

    friend bool operator==(const Locus&, const Locus&) = default;
  };

  /// @param capacity tokens of all texts together
  /// @errors kInvalidOption
  SuffixTree(int depth, int capacity) : depth_(depth), capacity_(capacity) {
    if (depth < 2 || depth > kMaxDepth || capacity < 1 || capacity > 1 << 28) {
      throw Error(ErrorCode::kInvalidOption,
                  "a suffix tree of depth " + std::to_string(depth) + " for " +
                      std::to_string(capacity) + " tokens",
                  "depth 2 to 64, 1 to 2^28 tokens");
    }
  }

  int depth() const noexcept { return depth_; }
  int capacity() const noexcept { return capacity_; }
  /// Tokens held.
  int size() const noexcept { return size_; }
  int nodes() const noexcept { return used_; }
  /// Memory taken, with what is kept for growth.
  std::size_t bytes() const noexcept {
    return nodes_.capacity() * sizeof(Node) + text_.capacity() * sizeof(TokenId) + edges_.bytes() +
           groups_.bytes();
  }

  void clear() noexcept {
    nodes_.clear();
    edges_.clear();
    groups_.clear();
    free_ = kNone;
    used_ = n_active_ = size_ = 0;
    open_ = end_;
  }

  /// One more token of the open text. Where it throws, nothing has changed.
  /// @errors kContextOverflow where size() is capacity(); std::bad_alloc
  void append(TokenId token) {
    if (size_ == capacity_) {
      throw Error(ErrorCode::kContextOverflow, "a suffix tree that is full", "room for a token",
                  "remove a text first");
    }
    make_room(2 * (n_active_ + 1));
    text_[end_ & mask_] = token;
    ++end_, ++size_;
    active(end_ - 1) = {};
    // Longest first: a suffix that ends here makes the node that shorter ones may pass.
    for (int length = ++n_active_; length >= 1; --length) {
      if (!advance(end_ - idx32(length), token) || length == depth_) n_active_ = length - 1;
    }
  }

  /// The open text is complete: the next token begins another one.
  /// @return where it begins, for remove()
  /// @errors std::bad_alloc, nothing has changed then
  std::uint32_t close() {
    make_room(n_active_);
    const auto length = static_cast<int>(end_ - open_);
    for (int n = 1; n < std::min(length + 1, depth_); ++n) {
      if (n > n_active_) {
        nodes_[idx(leaf_[(end_ - idx32(n)) % kMaxDepth])].end = static_cast<std::uint8_t>(n);
        continue;
      }
      Locus& at = active(end_ - idx32(n));
      if (at.offset < nodes_[idx(at.node)].length()) split(at, end_ - idx32(at.offset));
    }
    n_active_ = 0;
    const std::uint32_t begin = open_;
    open_ = end_;
    return begin;
  }

  /// Remove the oldest text, while none is open.
  void remove(std::uint32_t begin, int length) noexcept {
    std::array<std::int32_t, kMaxDepth> path;
    for (int i = 0; i < length; ++i) {
      const int limit = std::min(depth_, length - i);
      int n = 0;
      for (int depth = 0, node = kRoot; depth < limit; depth = nodes_[idx(node)].end) {
        node = edges_.find(node, text_[(begin + idx32(i + depth)) & mask_]);
        path[idx(n++)] = node;
      }
      while (n > 0) lower(path[idx(--n)]);
    }
    size_ -= length;
  }

  /// A token of a text that is held. @param place from where close() said that the text begins
  TokenId token(std::uint32_t place) const noexcept { return text_[place & mask_]; }

  /// The longest suffix of the open text that occurs elsewhere, too, and is shorter than `depth`.
  int longest_match() const noexcept { return n_active_; }
  /// Where the text's last `length` tokens are. @param length 1 to longest_match()
  Locus match(int length) const noexcept { return active_[(end_ - idx32(length)) % kMaxDepth]; }

  /// Go on by a token. @return false where the string occurs nowhere; `at` is as before then
  bool follow(Locus& at, TokenId token) const noexcept {
    if (used_ == 0) return false;
    const Node& node = nodes_[idx(at.node)];
    if (at.offset < node.length()) {
      if (!has_label(node, at.offset) || label(node, at.offset) != token) return false;
      ++at.offset;
      return true;
    }
    const std::int32_t child = edges_.find(at.node, token);
    if (child == kNone) return false;
    at = {child, 1};
    return true;
  }

  /// How often the string occurs. @param at not the root
  int count(Locus at) const noexcept {
    const Node& node = nodes_[idx(at.node)];
    int count = node.count;
    for (int n = 1; node.inside > 0 && n <= n_active_; ++n) {
      const Locus other = match(n);
      count -= other.node == at.node && other.offset < at.offset;
    }
    return count;
  }

  /// What follows a string: visit(token, where it leads, how often) in order of falling counts, as
  /// long as it returns true.
  template <typename Visit>
  void continuations(Locus at, Visit&& visit) const {
    const Node& node = nodes_[idx(at.node)];
    if (at.offset < node.length()) {
      const Locus next{at.node, at.offset + 1};
      if (has_label(node, at.offset)) visit(label(node, at.offset), next, count(next));
      return;
    }
    std::int32_t child = node.first;
    if (child == kNone) return;
    do {
      const Node& found = nodes_[idx(child)];
      if (!visit(found.token, Locus{child, 1}, int{found.count})) return;
      child = found.next;
    } while (child != node.first);
  }

 private:
  static constexpr std::int32_t kNone = PairTable::kNone;
  static constexpr std::int32_t kRoot = 0;

  struct Node {
    std::uint32_t start = 0;  // of the edge's label in the texts; the newest occurrence
    std::int32_t parent = kNone;
    std::int32_t first = kNone;     // child with the greatest count
    std::int32_t next = kNone;      // sibling, in a ring; of a free node the next free one
    std::int32_t previous = kNone;  // sibling, in a ring
    TokenId token = 0;              // first of the label
    std::int32_t count = 0;         // suffixes that took the edge, its first token at least
    std::uint8_t begin = 0;         // depth where the edge begins ...
    std::uint8_t end = 0;           // ... and where the node is
    std::uint8_t inside = 0;        // matches of the open text that end within the edge
    int length() const noexcept { return end - begin; }
  };

  static std::uint32_t idx32(int i) noexcept { return static_cast<std::uint32_t>(i); }

  Locus& active(std::uint32_t start) noexcept { return active_[start % kMaxDepth]; }
  TokenId label(const Node& node, int offset) const noexcept {
    return text_[(node.start + idx32(offset)) & mask_];
  }
  /// The label of a leaf ends with the open text.
  bool has_label(const Node& node, int offset) const noexcept {
    return node.start + idx32(offset) != end_;
  }

  /// Memory for `n` more nodes, so that nothing behind it can fail.
  void make_room(int n) {
    if (text_.empty()) text_.resize(std::bit_ceil(idx(capacity_)));
    mask_ = static_cast<std::uint32_t>(text_.size()) - 1;
    const std::size_t want = idx(used_) + idx(n) + 1;
    if (nodes_.capacity() < want) nodes_.reserve(std::max(want, 2 * nodes_.capacity()));
    edges_.reserve(want);
    groups_.reserve(want);  // a node is in one group
    if (used_ == 0) nodes_.emplace_back(), used_ = 1;
  }

  std::int32_t new_node() noexcept {
    ++used_;
    if (free_ == kNone) {
      nodes_.emplace_back();
      return static_cast<std::int32_t>(nodes_.size()) - 1;
    }
    const std::int32_t node = free_;
    free_ = nodes_[idx(node)].next;
    nodes_[idx(node)] = {};
    return node;
  }

  /// One suffix goes on by `token`, the newest. @return false where it occurs nowhere else
  bool advance(std::uint32_t start, TokenId token) noexcept {
    Locus& at = active(start);
    Node& node = nodes_[idx(at.node)];
    if (at.offset < node.length()) {
      if (label(node, at.offset) == token) {
        if (++at.offset == node.length()) {
          --node.inside;
          node.start = end_ - idx32(at.offset);
        }
        return true;
      }
      split(at, end_ - 1 - idx32(at.offset));
    }
    const std::int32_t child = edges_.find(at.node, token);
    if (child == kNone) {
      leaf_[start % kMaxDepth] = add_leaf(at.node, token);
      return false;
    }
    recount(child, 1);
    Node& taken = nodes_[idx(child)];
    at = {child, 1};
    if (taken.length() > 1) {
      ++taken.inside;
    } else {
      taken.start = end_ - 1;
    }
    return true;
  }

  std::int32_t add_leaf(std::int32_t parent, TokenId token) noexcept {
    const std::int32_t leaf = new_node();
    Node& node = nodes_[idx(leaf)];
    node.start = end_ - 1;
    node.parent = parent;
    node.token = token;
    node.begin = nodes_[idx(parent)].end;
    node.end = static_cast<std::uint8_t>(depth_);
    edges_.set(parent, token, leaf);
    enter(leaf, 1, groups_.find(parent, 1));
    return leaf;
  }

  /// Make a node where a match of the open text ends within an edge, and move the match onto it.
  /// @param start of that match's part of the edge
  void split(Locus& at, std::uint32_t start) noexcept {
    const std::int32_t lower = at.node;
    const int offset = at.offset;
    const std::int32_t upper = new_node();
    Node& u = nodes_[idx(upper)];
    Node& l = nodes_[idx(lower)];
    u = l;
    u.start = start;
    u.first = kNone;
    u.end = static_cast<std::uint8_t>(u.begin + offset);
    u.inside = l.inside = 0;
    replace(lower, upper);
    int stopped = 0;
    for (int n = 1; n <= n_active_; ++n) {
      Locus& other = active(end_ - idx32(n));
      if (other.node != lower) continue;
      if (other.offset > offset) {
        other.offset -= offset;
        if (other.offset + offset < l.length()) ++l.inside;  // else it is at the node
        continue;
      }
      ++stopped;
      other.node = upper;
      if (other.offset < offset) ++u.inside;
    }
    l.parent = upper;
    l.start += idx32(offset);
    l.begin = u.end;
    l.token = label(l, 0);
    edges_.set(upper, l.token, lower);
    enter(lower, l.count - stopped, kNone);
  }

  // ---- children, sorted: groups_ knows the first of each count ----------------------------------

  /// `with` takes the place of `node` among its siblings.
  void replace(std::int32_t node, std::int32_t with) noexcept {
    const Node& old = nodes_[idx(node)];
    Node& now = nodes_[idx(with)];
    now.parent = old.parent;
    now.next = old.next == node ? with : old.next;
    now.previous = old.previous == node ? with : old.previous;
    nodes_[idx(now.next)].previous = with;
    nodes_[idx(now.previous)].next = with;
    if (nodes_[idx(old.parent)].first == node) nodes_[idx(old.parent)].first = with;
    if (groups_.find(old.parent, old.count) == node) groups_.set(old.parent, old.count, with);
    edges_.set(old.parent, now.token, with);
  }

  /// A node that has left its siblings, or had none, becomes the first of its count.
  /// @param place child that it goes before; kNone: behind all
  void enter(std::int32_t node, std::int32_t count, std::int32_t place) noexcept {
    Node& n = nodes_[idx(node)];
    Node& parent = nodes_[idx(n.parent)];
    n.count = count;
    groups_.set(n.parent, count, node);
    if (parent.first == kNone) {
      parent.first = n.next = n.previous = node;
      return;
    }
    n.next = place == kNone ? parent.first : place;  // the ring's end is before its beginning
    n.previous = nodes_[idx(n.next)].previous;
    nodes_[idx(n.previous)].next = node;
    nodes_[idx(n.next)].previous = node;
    if (place == parent.first) parent.first = node;
  }

  void leave(std::int32_t node) noexcept {
    const Node& n = nodes_[idx(node)];
    Node& parent = nodes_[idx(n.parent)];
    if (groups_.find(n.parent, n.count) == node) {
      if (n.next != parent.first && nodes_[idx(n.next)].count == n.count) {
        groups_.set(n.parent, n.count, n.next);
      } else {
        groups_.erase(n.parent, n.count);
      }
    }
    nodes_[idx(n.previous)].next = n.next;
    nodes_[idx(n.next)].previous = n.previous;
    if (parent.first == node) parent.first = n.next == node ? kNone : n.next;
  }

  /// No sibling has the same count.
  bool alone(const Node& n, std::int32_t node) const noexcept {
    const bool last = n.next == nodes_[idx(n.parent)].first;
    return groups_.find(n.parent, n.count) == node &&
           (last || nodes_[idx(n.next)].count != n.count);
  }

  /// Count up or down by 1. Siblings with the old count are passed at once; only a node that is the
  /// first to come down to its count walks past them.
  void recount(std::int32_t node, int by) noexcept {
    Node& n = nodes_[idx(node)];
    const std::int32_t old = n.count;
    std::int32_t place = groups_.find(n.parent, old + by);
    if (place == kNone && alone(n, node)) {
      groups_.erase(n.parent, old);
      n.count = old + by;
      groups_.set(n.parent, n.count, node);
      return;
    }
    leave(node);
    if (place == kNone) {
      place = groups_.find(n.parent, old);
      const std::int32_t first = nodes_[idx(n.parent)].first;
      while (by < 0 && place != kNone && nodes_[idx(place)].count == old) {
        place = nodes_[idx(place)].next == first ? kNone : nodes_[idx(place)].next;
      }
    }
    enter(node, old + by, place);
  }

  // ---- removal, while no text is open -----------------------------------------------------------

  void lower(std::int32_t node) noexcept {
    Node& n = nodes_[idx(node)];
    if (n.count == 1) {
      leave(node);
      edges_.erase(n.parent, n.token);
      release(node);
      return;
    }
    recount(node, -1);
    const std::int32_t child = n.first;
    if (child == kNone || nodes_[idx(child)].count != n.count) return;
    // Nothing branches off or ends here any more: child and node become one edge.
    Node& only = nodes_[idx(child)];
    groups_.erase(node, only.count);
    edges_.erase(node, only.token);
    only.start -= idx32(n.length());
    only.begin = n.begin;
    only.token = n.token;
    replace(node, child);
    release(node);
  }

  void release(std::int32_t node) noexcept {
    nodes_[idx(node)].next = free_;
    free_ = node;
    --used_;
  }

  int depth_;
  int capacity_;
  int size_ = 0;
  std::vector<Node> nodes_;
  PairTable edges_;            // (node, token) -> child
  PairTable groups_;           // (node, count) -> first child with that count
  std::int32_t free_ = kNone;  // released nodes
  int used_ = 0;               // nodes, those not counted
  std::vector<TokenId> text_;  // [power of two] tokens of all texts, a ring
  std::uint32_t mask_ = 0;     // of places in it
  std::uint32_t open_ = 0;     // where the open text begins
  std::uint32_t end_ = 0;      // and ends: tokens appended so far
  int n_active_ = 0;           // longest suffix that occurs elsewhere
  // By where a suffix starts, modulo kMaxDepth:
  std::array<Locus, kMaxDepth> active_ = {};       // those that occur elsewhere
  std::array<std::int32_t, kMaxDepth> leaf_ = {};  // leaves of the others
};

}  // namespace foredraft::inline v0
