#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <foredraft/constraint/character_kind.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// A grammar as a network of nodes: read a byte and go on, go on at any of several nodes, or go
/// through a rule and then on. All rules end in one node, kFinal.
///
/// It is refused where it is left-recursive (a rule would begin with itself, for ever), and where no
/// text satisfies it.
class Automaton {
 public:
  using Node = int;
  static constexpr Node kFinal = 0;
  /// Rules within rules that may be open. A rule that ends with another one is closed before it.
  static constexpr int kMaxDepth = 256;

  enum class Kind : std::uint8_t {
    kFinal,
    kByte,
    kSplit,
    kCall
  };

  /// @errors kInvalidConstraint
  explicit Automaton(const Grammar& grammar) : grammar_(&grammar) {
    nodes_.push_back({Kind::kFinal});
    root_ = entry_of(grammar.root());
    while (!open_.empty()) {
      const auto [index, body] = open_.back();
      open_.pop_back();
      const Node entry = compile(body, kFinal);
      entries_[idx(index)].node = entry;
    }
    classify_bytes();
    refuse_left_recursion();
    measure_heights();
    if (height(start()) > kMaxDepth) {
      throw Error(ErrorCode::kInvalidConstraint, "a grammar that no text can satisfy",
                  "one whose rules come to an end",
                  "each rule needs an alternative that does not lead back to itself");
    }
    shared_.clear();
    grammar_ = nullptr;  // it need not outlive this
  }

  Node start() const noexcept { return entries_[idx(root_)].node; }
  Kind kind(Node node) const noexcept { return nodes_[idx(node)].kind; }
  /// Behind a byte, or behind the rule of a call.
  Node next(Node node) const noexcept { return nodes_[idx(node)].next; }
  /// Where the rule of a call begins.
  Node callee(Node node) const noexcept { return entries_[idx(nodes_[idx(node)].what)].node; }
  std::span<const Node> targets(Node node) const noexcept {
    return targets_[idx(nodes_[idx(node)].what)];
  }
  /// Bytes that no node tells apart are of one class.
  int class_of(unsigned char byte) const noexcept { return class_of_[byte]; }
  int classes() const noexcept { return static_cast<int>(members_.size()); }
  /// Bytes of a class.
  int members(int byte_class) const noexcept { return members_[idx(byte_class)]; }
  unsigned char first_member(int byte_class) const noexcept {
    return static_cast<unsigned char>(std::find(class_of_.begin(), class_of_.end(), byte_class) -
                                      class_of_.begin());
  }
  bool reads(Node node, int byte_class) const noexcept {
    return classes_of_set_[idx(nodes_[idx(node)].what)][idx(byte_class)];
  }
  /// Kinds of characters that a part of the grammar counts, as [a-z]{2,40} does.
  const std::vector<CharacterKind>& counted() const noexcept { return counted_; }
  /// Further open rules that the way from here to the end of its rule takes at least.
  int height(Node node) const noexcept { return heights_[idx(node)]; }

 private:
  static constexpr std::size_t kMostNodes = std::size_t{1} << 18;
  static constexpr int kManyTimes = 8;  // fewer counts are fewer walks than making the kind costs
  static constexpr std::size_t kManyCharacters = 24;  // fewer make few tokens
  static constexpr int kNever = std::numeric_limits<int>::max() / 2;

  struct Item {
    Kind kind;
    int what = 0;  // index of a set, of targets, of an entry
    Node next = 0;
  };
  struct Entry {
    Node node = kFinal;
    std::string name;
  };

  /// Nodes that do the same are one, so that there are fewer states to be in.
  Node add_shared(Kind kind, int what, Node next) {
    const auto [place, fresh] = shared_.try_emplace({kind, what, next}, kFinal);
    if (fresh) place->second = add(kind, what, next);
    return place->second;
  }
  Node add(Kind kind, int what, Node next) {
    if (nodes_.size() == kMostNodes) {
      throw Error(ErrorCode::kInvalidConstraint,
                  "a grammar of more than " + std::to_string(kMostNodes) + " states",
                  "a smaller one", "bounded repetitions of thousands take a state for each");
    }
    nodes_.push_back({kind, what, next});
    return static_cast<Node>(nodes_.size()) - 1;
  }
  Node add_split(std::vector<Node> targets) {
    if (targets.size() == 1) return targets.front();
    targets_.push_back(std::move(targets));
    return add(Kind::kSplit, static_cast<int>(targets_.size()) - 1, kFinal);
  }

  int entry_of(Grammar::Rule rule) {
    const auto [place, fresh] = entry_of_rule_.try_emplace(rule, static_cast<int>(entries_.size()));
    if (fresh) open(grammar_->name(rule), grammar_->body(rule));
    return place->second;
  }
  /// An expression that is used often becomes a rule of its own.
  int entry_of_part(Grammar::Expression part) {
    const auto [place, fresh] = entry_of_part_.try_emplace(part, static_cast<int>(entries_.size()));
    if (fresh) open("a repetition", part);
    return place->second;
  }
  void open(std::string name, Grammar::Expression body) {
    if (body < 0) {
      throw Error(ErrorCode::kInvalidConstraint, "a rule that is not defined: " + name,
                  "a definition of each rule");
    }
    open_.emplace_back(static_cast<int>(entries_.size()), body);
    entries_.push_back({kFinal, std::move(name)});
  }

  /// The node where `expression` begins, behind which comes `next`.
  Node compile(Grammar::Expression expression, Node next) {
    const Grammar::Node& node = grammar_->node(expression);
    switch (node.kind) {
      case Grammar::Kind::kBytes: return add_shared(Kind::kByte, set_index(node.set), next);
      case Grammar::Kind::kCall: return add_shared(Kind::kCall, entry_of(node.rule), next);
      case Grammar::Kind::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
          next = compile(*part, next);
        }
        return next;
      case Grammar::Kind::kEither: {
        std::vector<Node> targets;
        for (const auto part : node.parts) targets.push_back(compile(part, next));
        return add_split(std::move(targets));
      }
      case Grammar::Kind::kRepeat: return compile_repeat(node, next);
    }
    return next;
  }

  Node compile_repeat(const Grammar::Node& node, Node next) {
    const Node behind = next;
    if (std::max(node.min, node.max) >= kManyTimes) note_counted(node.parts[0]);
    if (node.max == Grammar::kUnbounded) {
      const Node loop = add_split({behind, behind});
      const Node body = compile_part(node.parts[0], loop);
      targets_[idx(nodes_[idx(loop)].what)] = {body, behind};
      next = loop;
    }
    for (int i = node.min; i < node.max; ++i) {
      next = add_split({compile_part(node.parts[0], next), behind});
    }
    for (int i = 0; i < node.min; ++i) next = compile_part(node.parts[0], next);
    return next;
  }
  Node compile_part(Grammar::Expression part, Node next) {
    const auto kind = grammar_->node(part).kind;
    const bool small = kind == Grammar::Kind::kBytes || kind == Grammar::Kind::kCall;
    return small ? compile(part, next) : add_shared(Kind::kCall, entry_of_part(part), next);
  }

  void note_counted(Grammar::Expression part) {
    CharacterKind kind;
    add_characters(part, kind);
    const bool known = std::find(counted_.begin(), counted_.end(), kind) != counted_.end();
    if (kind.ascii.count() >= kManyCharacters && !known) counted_.push_back(kind);
  }
  /// Those of one byte; and whether there are any of several bytes.
  void add_characters(Grammar::Expression part, CharacterKind& kind) const {
    const Grammar::Node& node = grammar_->node(part);
    if (node.kind == Grammar::Kind::kBytes) {
      kind.beyond = kind.beyond || (node.set >> 0x80).any();
      kind.ascii |= node.set << 0x80 >> 0x80;
    } else if (node.kind == Grammar::Kind::kEither) {
      for (const auto one : node.parts) add_characters(one, kind);
    } else if (node.kind == Grammar::Kind::kSequence && !node.parts.empty()) {
      const Grammar::Node& first = grammar_->node(node.parts.front());
      kind.beyond = kind.beyond || (first.set >> 0x80).any();
    }
  }

  int set_index(const ByteSet& set) {
    const auto [place, fresh] = index_of_set_.try_emplace(set, static_cast<int>(sets_.size()));
    if (fresh) sets_.push_back(set);
    return place->second;
  }

  void classify_bytes() {
    class_of_.fill(0);
    int n_classes = 1;
    for (const ByteSet& set : sets_) {
      std::map<std::pair<int, bool>, int> renamed;
      for (std::size_t byte = 0; byte < class_of_.size(); ++byte) {
        const auto key = std::pair{class_of_[byte], set[byte]};
        class_of_[byte] = renamed.try_emplace(key, static_cast<int>(renamed.size())).first->second;
      }
      n_classes = static_cast<int>(renamed.size());
    }
    members_.assign(idx(n_classes), 0);
    for (const int byte_class : class_of_) ++members_[idx(byte_class)];
    for (const ByteSet& set : sets_) {
      ByteSet classes;
      for (std::size_t byte = 0; byte < class_of_.size(); ++byte) {
        if (set[byte]) classes.set(idx(class_of_[byte]));
      }
      classes_of_set_.push_back(classes);
    }
  }

  /// update(node) for each node, and again for whoever reads a node that it has changed, until nothing
  /// changes any more.
  template <typename F>
  void settle(F&& update) const {
    std::vector<std::vector<Node>> readers(nodes_.size());
    std::vector<Node> open;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const auto node = static_cast<Node>(i);
      open.push_back(node);
      if (kind(node) == Kind::kByte || kind(node) == Kind::kCall) {
        readers[idx(next(node))].push_back(node);
      }
      if (kind(node) == Kind::kCall) readers[idx(callee(node))].push_back(node);
      if (kind(node) != Kind::kSplit) continue;
      for (const Node target : targets(node)) readers[idx(target)].push_back(node);
    }
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      if (!update(node)) continue;
      open.insert(open.end(), readers[idx(node)].begin(), readers[idx(node)].end());
    }
  }

  /// Nodes from which their rule may end without a byte.
  std::vector<bool> skippable() const {
    std::vector<bool> empty(nodes_.size(), false);
    settle([&](Node node) {
      if (empty[idx(node)]) return false;
      bool now = kind(node) == Kind::kFinal;
      if (kind(node) == Kind::kSplit) {
        for (const Node target : targets(node)) now = now || empty[idx(target)];
      } else if (kind(node) == Kind::kCall) {
        now = empty[idx(callee(node))] && empty[idx(next(node))];
      }
      empty[idx(node)] = now;
      return now;
    });
    return empty;
  }

  /// Entries that are called before a byte of this one is read.
  std::vector<int> left_calls(int entry, const std::vector<bool>& empty) const {
    std::vector<int> calls;
    std::vector<Node> open{entries_[idx(entry)].node};
    std::map<Node, bool> seen;
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      if (!seen.try_emplace(node, true).second) continue;
      if (kind(node) == Kind::kSplit) {
        open.insert(open.end(), targets(node).begin(), targets(node).end());
      } else if (kind(node) == Kind::kCall) {
        calls.push_back(nodes_[idx(node)].what);
        if (empty[idx(callee(node))]) open.push_back(next(node));
      }
    }
    std::sort(calls.begin(), calls.end());
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    return calls;
  }

  /// Entries are taken away that nobody left calls first; those that stay call each other in a ring.
  void refuse_left_recursion() const {
    const std::vector<bool> empty = skippable();
    std::vector<std::vector<int>> calls;
    std::vector<int> callers(entries_.size(), 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      calls.push_back(left_calls(static_cast<int>(i), empty));
      for (const int callee : calls.back()) ++callers[idx(callee)];
    }
    std::vector<int> free;
    for (std::size_t i = 0; i < callers.size(); ++i) {
      if (callers[i] == 0) free.push_back(static_cast<int>(i));
    }
    while (!free.empty()) {
      const int entry = free.back();
      free.pop_back();
      for (const int callee : calls[idx(entry)]) {
        if (--callers[idx(callee)] == 0) free.push_back(callee);
      }
    }
    for (std::size_t i = 0; i < callers.size(); ++i) {
      if (callers[i] == 0) continue;
      throw Error(ErrorCode::kInvalidConstraint,
                  "a rule that begins with itself, or with rules that do: " + entries_[i].name,
                  "a rule that reads something first",
                  "write `item*` or `item list | item` in place of `list item | item`");
    }
  }

  void measure_heights() {
    heights_.assign(nodes_.size(), kNever);
    settle([&](Node node) {
      const int found = height_of(node);
      const bool lower = found < height(node);
      if (lower) heights_[idx(node)] = found;
      return lower;
    });
  }
  int height_of(Node node) const noexcept {
    switch (kind(node)) {
      case Kind::kFinal: return 0;
      case Kind::kByte:
        return sets_[idx(nodes_[idx(node)].what)].any() ? height(next(node)) : kNever;
      case Kind::kCall: {
        if (next(node) == kFinal) return height(callee(node));
        const int inside = height(callee(node));
        return inside >= kNever ? kNever : std::max(1 + inside, height(next(node)));
      }
      case Kind::kSplit: break;
    }
    int least = kNever;
    for (const Node target : targets(node)) least = std::min(least, height(target));
    return least;
  }

  const Grammar* grammar_;
  std::vector<Item> nodes_;
  std::vector<std::vector<Node>> targets_;
  std::vector<Entry> entries_;
  int root_ = 0;
  std::vector<std::pair<int, Grammar::Expression>> open_;  // entries to be compiled
  std::map<std::tuple<Kind, int, Node>, Node> shared_;
  std::unordered_map<Grammar::Rule, int> entry_of_rule_;
  std::unordered_map<Grammar::Expression, int> entry_of_part_;
  std::unordered_map<ByteSet, int> index_of_set_;
  std::vector<ByteSet> sets_;
  std::vector<CharacterKind> counted_;
  std::vector<ByteSet> classes_of_set_;
  std::array<int, 256> class_of_{};
  std::vector<int> members_;
  std::vector<int> heights_;
};

}  // namespace foredraft::inline v0
