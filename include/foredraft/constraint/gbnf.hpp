#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/code_points.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/text_cursor.hpp>

namespace foredraft::inline v0 {

/// Reads a grammar file in GBNF, the notation of llama.cpp: a rule named root and further ones, with
/// literals, classes of characters, the dot, groups, alternatives, and repetitions as in regular
/// expressions. A rule goes on in the next line behind its sign of definition and behind a bar, and
/// inside a group. A number sign begins a comment.
///
/// Rules that name tokens, in angle brackets, are refused.
/// @source grammars/README.md of llama.cpp
class GbnfReader {
 public:
  /// @errors kInvalidConstraint, with the line; a rule that is used must be defined, and `root`
  static Grammar read(std::string_view text) {
    GbnfReader reader(text);
    reader.space(true);
    while (!reader.text_.at_end()) reader.rule();
    reader.check_rules();
    return std::move(reader.grammar_);
  }

 private:
  static constexpr int kMostNested = 100;

  explicit GbnfReader(std::string_view text) : text_(text, "a grammar") {}

  /// Blanks and comments; with `lines` also to the lines that follow.
  void space(bool lines) {
    for (;;) {
      const char c = text_.peek();
      if (c == '#') {
        while (!text_.at_end() && text_.peek() != '\n' && text_.peek() != '\r') text_.skip();
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        text_.skip();
      } else {
        return;
      }
    }
  }

  static bool is_word(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  std::string name() {
    const std::size_t begin = text_.position();
    while (is_word(text_.peek())) text_.skip();
    if (text_.position() == begin) text_.refuse(next(), "the name of a rule");
    return std::string(text_.since(begin));
  }
  std::string next() const {
    if (text_.at_end()) return "its end";
    return std::string("`") + text_.peek() + "`";
  }

  Grammar::Rule rule_named(const std::string& name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_[name] = grammar_.declare(name);
  }

  void rule() {
    const std::string defined = name();
    space(false);
    if (!text_.take("::=")) text_.refuse(next(), "`::=` behind the name of a rule");
    space(true);
    const Grammar::Rule rule = rule_named(defined);
    if (grammar_.defined(rule)) text_.refuse("a second rule `" + defined + "`", "one of each name");
    grammar_.define(rule, alternatives(0));
    if (!text_.at_end() && text_.peek() != '\n' && text_.peek() != '\r') {
      text_.refuse(next(), "the end of the line behind a rule");
    }
    space(true);
  }

  Grammar::Expression alternatives(int nested) {
    if (nested > kMostNested) text_.refuse("groups nested too deeply", "at most 100 levels");
    std::vector<Grammar::Expression> parts{sequence(nested)};
    while (text_.take("|")) {
      space(true);
      parts.push_back(sequence(nested));
    }
    return grammar_.either(std::move(parts));
  }

  Grammar::Expression sequence(int nested) {
    std::vector<Grammar::Expression> parts;
    for (;;) {
      const char c = text_.peek();
      if (c == '"') {
        parts.push_back(quantified(literal()));
      } else if (c == '[') {
        parts.push_back(quantified(utf8_character(grammar_, bracket())));
      } else if (c == '.') {
        text_.skip();
        parts.push_back(quantified(utf8_character(grammar_, {0, CodePoints::kLast})));
      } else if (c == '(') {
        text_.skip();
        space(true);
        const auto inside = alternatives(nested + 1);
        if (!text_.take(")")) text_.refuse(next(), "`)` at the end of a group");
        parts.push_back(quantified(inside));
      } else if (is_word(c)) {
        parts.push_back(quantified(grammar_.call(rule_named(name()))));
      } else if (c == '<' || c == '!') {
        text_.refuse("a token, " + next(), "literals and rules", "write the token's text");
      } else {
        return grammar_.sequence(std::move(parts));
      }
      space(nested > 0);
    }
  }

  Grammar::Expression quantified(Grammar::Expression part) {
    for (;;) {
      if (text_.take("*")) {
        part = grammar_.repeat(part, 0);
      } else if (text_.take("+")) {
        part = grammar_.repeat(part, 1);
      } else if (text_.take("?")) {
        part = grammar_.optional(part);
      } else if (text_.take("{")) {
        part = bounded(part);
      } else {
        return part;
      }
    }
  }
  Grammar::Expression bounded(Grammar::Expression part) {
    space(false);
    const auto min = text_.number();
    if (!min) text_.refuse("`{` without a number", "`{n}`, `{n,}` or `{n,m}`");
    int max = *min;
    space(false);
    if (text_.take(",")) {
      space(false);
      max = text_.number().value_or(Grammar::kUnbounded);
      space(false);
    }
    if (!text_.take("}")) text_.refuse(next(), "`}` behind the bounds of a repetition");
    if (max != Grammar::kUnbounded && max < *min) {
      text_.refuse("bounds the wrong way round", "`{n,m}` with n <= m");
    }
    return grammar_.repeat(part, *min, max);
  }

  Grammar::Expression literal() {
    text_.skip();
    std::vector<Grammar::Expression> parts;
    while (!text_.take("\"")) {
      const std::uint32_t c = character();
      parts.push_back(utf8_character(grammar_, {c, c}));
    }
    return grammar_.sequence(std::move(parts));
  }

  CodePoints bracket() {
    text_.skip();
    const bool negated = text_.take("^");
    CodePoints points;
    while (!text_.take("]")) {
      const std::uint32_t first = character();
      std::uint32_t last = first;
      if (text_.peek() == '-' && text_.peek(1) != ']') {
        text_.skip();
        last = character();
        if (last < first) text_.refuse("a range that is none", "the lower character first");
      }
      points.add(first, last);
    }
    return negated ? points.complement() : points;
  }

  /// A character of a literal or class.
  std::uint32_t character() {
    if (text_.at_end()) text_.refuse("a literal or class without an end", "its closing mark");
    if (!text_.take("\\")) return text_.character();
    const char c = text_.peek();
    text_.skip(text_.at_end() ? 0 : 1);
    switch (c) {
      case 'x': return text_.hex(2);
      case 'u': return text_.hex(4);
      case 'U': {
        const std::uint32_t point = text_.hex(8);
        if (point > CodePoints::kLast) text_.refuse("a code point beyond the last", "0010FFFF");
        return point;
      }
      case 't': return '\t';
      case 'n': return '\n';
      case 'r': return '\r';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<std::uint32_t>(c);
      default: text_.refuse(std::string("the escape `\\") + c + "`", "one that is known");
    }
  }

  void check_rules() {
    for (const auto& [name, rule] : rules_) {
      if (grammar_.defined(rule)) continue;
      throw Error(ErrorCode::kInvalidConstraint, "a grammar that uses the rule `" + name + "`",
                  "its definition");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      throw Error(ErrorCode::kInvalidConstraint, "a grammar without a rule `root`",
                  "`root ::= ...`, where a text begins");
    }
    grammar_.set_root(root->second);
  }

  TextCursor text_;
  Grammar grammar_;
  std::map<std::string, Grammar::Rule> rules_;
};

/// @errors kInvalidConstraint, see GbnfReader
inline Grammar gbnf_grammar(std::string_view text) { return GbnfReader::read(text); }

}  // namespace foredraft::inline v0
