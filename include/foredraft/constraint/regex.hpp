#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/code_points.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/text_cursor.hpp>

namespace foredraft::inline v0 {

/// Reads a regular expression into a grammar.
///
/// Literals, `.` (all but a newline), classes `[a-z]` and `[^a-z]`, `\d \D \w \W \s \S` (ASCII), the
/// escapes `\t \n \r \f \v \0 \xHH \uHHHH \u{H...}` and of punctuation, `( )`, `(?: )` and named
/// groups, `|`, `* + ? {n} {n,} {n,m}`, lazy or not: which of several ways to match is taken plays no
/// part here. `^` and `$` at the ends of the pattern, or of one of its outermost alternatives.
///
/// Back-references, look-around, `\b`, `\p{...}`, flags and possessive quantifiers are refused by
/// name.
class RegexReader {
 public:
  /// What the pattern has to match.
  enum class Scope {
    kWhole,   ///< the whole text
    kSearch,  ///< a part of it, where it has no `^` or `$`
  };

  /// @param write  how a character is written; UTF-8 if not said otherwise
  /// @errors kInvalidConstraint
  static Grammar::Expression read(Grammar& grammar, std::string_view pattern, Scope scope,
                                  const CharacterWriter& write = utf8_character) {
    RegexReader reader(grammar, pattern, scope, write);
    const auto expression = reader.alternatives(0);
    if (!reader.text_.at_end()) reader.text_.refuse("a `)` that closes nothing", "`(` before it");
    return expression;
  }

 private:
  static constexpr int kMostNested = 100;

  RegexReader(Grammar& grammar, std::string_view pattern, Scope scope, const CharacterWriter& write)
      : grammar_(grammar), text_(pattern, "a pattern"), scope_(scope), write_(write) {}

  Grammar::Expression any_text() {
    return grammar_.repeat(write_(grammar_, {0, CodePoints::kLast}), 0);
  }

  Grammar::Expression alternatives(int nested) {
    if (nested > kMostNested) text_.refuse("groups nested too deeply", "at most 100 levels");
    std::vector<Grammar::Expression> parts;
    do {
      std::vector<Grammar::Expression> parts_of_one;
      const bool outermost = nested == 0;
      const bool from_begin = outermost && text_.take("^");
      if (outermost && !from_begin && scope_ == Scope::kSearch) parts_of_one.push_back(any_text());
      parts_of_one.push_back(sequence(nested));
      const bool to_end = outermost && text_.take("$");
      if (outermost && !to_end && scope_ == Scope::kSearch) parts_of_one.push_back(any_text());
      if (to_end && !text_.at_end() && text_.peek() != '|') refuse_anchor();
      parts.push_back(grammar_.sequence(std::move(parts_of_one)));
    } while (text_.take("|"));
    return grammar_.either(std::move(parts));
  }

  Grammar::Expression sequence(int nested) {
    std::vector<Grammar::Expression> parts;
    while (!text_.at_end() && text_.peek() != '|' && text_.peek() != ')') {
      if (text_.peek() == '$' && nested == 0) break;
      parts.push_back(quantified(atom(nested)));
    }
    return grammar_.sequence(std::move(parts));
  }

  [[noreturn]] void refuse_anchor() const {
    text_.refuse("`^` or `$` inside", "anchors at the ends of the pattern",
                 "the whole answer is matched anyway");
  }

  Grammar::Expression atom(int nested) {
    switch (text_.peek()) {
      case '(': return group(nested);
      case '[': return write_(grammar_, bracket());
      case '^':
      case '$': refuse_anchor();
      case '*':
      case '+':
      case '?':
      case '{': text_.refuse("a quantifier behind nothing", "something to repeat", "write `\\{`");
      case '\\': text_.skip(); return write_(grammar_, escape(false));
      case '.': text_.skip(); return write_(grammar_, CodePoints('\n', '\n').complement());
      default: break;
    }
    const std::uint32_t c = text_.character();
    return write_(grammar_, {c, c});
  }

  Grammar::Expression group(int nested) {
    text_.skip();
    if (text_.take("?")) {
      if (text_.looking_at("<=") || text_.looking_at("<!") || text_.looking_at("=") ||
          text_.looking_at("!")) {
        text_.refuse("look-around", "a pattern without it");
      }
      if (text_.take("<") || text_.take("P<")) {
        while (!text_.at_end() && text_.peek() != '>') text_.skip();
        if (!text_.take(">")) text_.refuse("a name without an end", "`>`");
      } else if (!text_.take(":")) {
        text_.refuse("flags of a group", "`(?:`", "they are not supported");
      }
    }
    const auto inside = alternatives(nested + 1);
    if (!text_.take(")")) text_.refuse("a group without an end", "`)`");
    return inside;
  }

  Grammar::Expression quantified(Grammar::Expression part) {
    int min = 1;
    int max = 1;
    if (text_.take("*")) {
      min = 0, max = Grammar::kUnbounded;
    } else if (text_.take("+")) {
      max = Grammar::kUnbounded;
    } else if (text_.take("?")) {
      min = 0;
    } else if (text_.take("{")) {
      const auto least = text_.number();
      if (!least) text_.refuse("`{` without a number", "`{n}`, `{n,}` or `{n,m}`", "write `\\{`");
      min = max = *least;
      if (text_.take(",")) max = text_.number().value_or(Grammar::kUnbounded);
      if (!text_.take("}")) text_.refuse("a quantifier without an end", "`}`");
      if (max != Grammar::kUnbounded && max < min) {
        text_.refuse("a quantifier whose bounds are the wrong way round", "`{n,m}` with n <= m");
      }
    } else {
      return part;
    }
    text_.take("?");  // lazy: the same texts
    if (text_.peek() == '+') text_.refuse("a possessive quantifier", "an ordinary one");
    if (text_.peek() == '*' || text_.peek() == '?' || text_.peek() == '{') {
      text_.refuse("a quantifier behind another", "one of them", "put a group between");
    }
    return grammar_.repeat(part, min, max);
  }

  /// Behind the backslash.
  CodePoints escape(bool in_class) {
    const char c = text_.peek();
    if (c >= '1' && c <= '9') text_.refuse("a back-reference", "a pattern without any");
    if (!in_class && (c == 'b' || c == 'B')) text_.refuse("a word boundary", "no `\\b`");
    if (c == 'p' || c == 'P') text_.refuse("a Unicode class, `\\p`", "a class of ranges");
    if (c == 'k') text_.refuse("a back-reference", "a pattern without any");
    const std::uint32_t next = text_.character();
    const auto one = [](std::uint32_t point) { return CodePoints(point, point); };
    switch (c) {
      case 'd': return {'0', '9'};
      case 'D': return CodePoints('0', '9').complement();
      case 'w': return word();
      case 'W': return word().complement();
      case 's': return space();
      case 'S': return space().complement();
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'b': return one('\b');  // in a class
      case '0': return one(0);
      case 'x': return one(text_.hex(2));
      case 'u': return one(unicode());
      default: break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter)
      text_.refuse(std::string("the escape `\\") + c + "`", "an escape that is supported");
    return one(next);
  }

  /// Behind `\u`.
  std::uint32_t unicode() {
    if (!text_.take("{")) return text_.hex(4);
    std::uint32_t point = 0;
    do {
      point = point * 16 + text_.hex(1);
      if (point > CodePoints::kLast) text_.refuse("a code point beyond the last", "10FFFF at most");
    } while (!text_.take("}"));
    return point;
  }

  static CodePoints word() {
    CodePoints points('a', 'z');
    points.add('A', 'Z');
    points.add('0', '9');
    points.add('_', '_');
    return points;
  }
  static CodePoints space() {
    CodePoints points('\t', '\r');
    points.add(' ', ' ');
    return points;
  }

  CodePoints bracket() {
    text_.skip();
    const bool negated = text_.take("^");
    CodePoints points;
    while (!text_.take("]")) {
      const std::optional<std::uint32_t> first = member(points);
      const bool range = text_.peek() == '-' && text_.peek(1) != ']' && text_.peek(1) != '\0';
      if (!range) {
        if (first) points.add(*first, *first);
        continue;
      }
      text_.skip();
      CodePoints ignored;
      const std::optional<std::uint32_t> last = member(ignored);
      if (!first || !last || *last < *first) {
        text_.refuse("a range that is none", "two characters, the lower one first", "write `\\-`");
      }
      points.add(*first, *last);
    }
    return negated ? points.complement() : points;
  }
  /// One character of a class; nothing for an escape of many, which joins `points`.
  std::optional<std::uint32_t> member(CodePoints& points) {
    if (text_.at_end()) text_.refuse("a class without an end", "`]`");
    if (!text_.take("\\")) return text_.character();
    const CodePoints set = escape(true);
    const auto& ranges = set.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].second) return ranges[0].first;
    points.add(set);
    return std::nullopt;
  }

  Grammar& grammar_;
  TextCursor text_;
  Scope scope_;
  const CharacterWriter& write_;
};

/// The whole answer matches a pattern. @errors kInvalidConstraint, see RegexReader
inline Grammar regex_grammar(std::string_view pattern) {
  Grammar grammar;
  const CharacterWriter utf8 = utf8_character;
  grammar.set_root(grammar.rule(
      "pattern", RegexReader::read(grammar, pattern, RegexReader::Scope::kWhole, utf8)));
  return grammar;
}

}  // namespace foredraft::inline v0
