#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

using ByteSet = std::bitset<256>;

/// A context-free grammar over bytes: what patterns, grammar files and schemas are read into.
///
/// Expressions are named by their index, and may be used any number of times. Rules may refer to
/// each other, and to themselves, before they are defined.
class Grammar {
 public:
  using Expression = int;
  using Rule = int;
  static constexpr int kUnbounded = -1;

  /// One byte out of `set`.
  Expression bytes(const ByteSet& set) { return add({.kind = Kind::kBytes, .set = set}); }
  /// These bytes one behind the other; nothing at all for an empty text.
  Expression text(std::string_view text) {
    std::vector<Expression> parts;
    for (const char c : text) {
      ByteSet set;
      set.set(static_cast<unsigned char>(c));
      parts.push_back(bytes(set));
    }
    return sequence(std::move(parts));
  }
  Expression sequence(std::vector<Expression> parts) {
    if (parts.size() == 1) return parts.front();
    return add({.kind = Kind::kSequence, .parts = std::move(parts)});
  }
  /// One of them; of none: what no text satisfies.
  Expression either(std::vector<Expression> parts) {
    if (parts.size() == 1) return parts.front();
    return add({.kind = Kind::kEither, .parts = std::move(parts)});
  }
  /// `part` at least `min` times, and at most `max` times if that is not kUnbounded.
  Expression repeat(Expression part, int min, int max = kUnbounded) {
    if (min == 1 && max == 1) return part;
    return add({.kind = Kind::kRepeat, .parts = {part}, .min = min, .max = max});
  }
  Expression optional(Expression part) { return repeat(part, 0, 1); }
  Expression call(Rule rule) { return add({.kind = Kind::kCall, .rule = rule}); }

  /// @param name  for messages
  Rule declare(std::string name) {
    rules_.push_back({std::move(name)});
    return static_cast<Rule>(rules_.size()) - 1;
  }
  void define(Rule rule, Expression body) noexcept { rules_[idx(rule)].body = body; }
  Rule rule(std::string name, Expression body) {
    const Rule made = declare(std::move(name));
    define(made, body);
    return made;
  }

  /// Where a text begins; the rule last set.
  void set_root(Rule rule) noexcept { root_ = rule; }
  Rule root() const noexcept { return root_; }
  const std::string& name(Rule rule) const noexcept { return rules_[idx(rule)].name; }
  bool defined(Rule rule) const noexcept { return rules_[idx(rule)].body >= 0; }
  int rules() const noexcept { return static_cast<int>(rules_.size()); }

  // For who makes an automaton of it.
  enum class Kind {
    kBytes,
    kSequence,
    kEither,
    kRepeat,
    kCall
  };
  struct Node {
    Kind kind;
    ByteSet set = {};
    std::vector<Expression> parts = {};
    int min = 0;
    int max = 0;
    Rule rule = 0;
  };
  const Node& node(Expression expression) const noexcept { return nodes_[idx(expression)]; }
  Expression body(Rule rule) const noexcept { return rules_[idx(rule)].body; }

 private:
  static constexpr std::size_t kMostNodes = std::size_t{1} << 20;
  struct Named {
    std::string name;
    Expression body = -1;
  };

  Expression add(Node node) {
    if (nodes_.size() == kMostNodes) {
      throw Error(ErrorCode::kInvalidConstraint, "a grammar of a million parts", "a smaller one");
    }
    nodes_.push_back(std::move(node));
    return static_cast<Expression>(nodes_.size()) - 1;
  }

  std::vector<Node> nodes_;
  std::vector<Named> rules_;
  Rule root_ = 0;
};

/// One of some texts, whole.
/// @errors kInvalidConstraint where there is none
inline Grammar choice_grammar(const std::vector<std::string>& texts) {
  if (texts.empty()) {
    throw Error(ErrorCode::kInvalidConstraint, "a choice of nothing", "at least one text");
  }
  Grammar grammar;
  std::vector<Grammar::Expression> parts;
  for (const std::string& text : texts) parts.push_back(grammar.text(text));
  grammar.set_root(grammar.rule("choice", grammar.either(std::move(parts))));
  return grammar;
}

}  // namespace foredraft::inline v0
