#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/code_points.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/json_value.hpp>
#include <foredraft/constraint/regex.hpp>

namespace foredraft::inline v0 {

/// The parts of JSON as rules of a grammar.
///
/// What a text may be long without saying anything is bounded, or models go on with it for ever:
/// blanks between tokens are none, one space, or one or two newlines and up to 20 blanks, and numbers
/// have up to 16 digits before the point, 16 behind it, and 3 in the exponent.
class JsonGrammar {
 public:
  using Expression = Grammar::Expression;

  explicit JsonGrammar(Grammar& grammar) : g_(grammar), value_(grammar.declare("value")) {
    space_ = g_.rule("space", pattern("| |\\n{1,2}[ \\t]{0,20}"));
    member_name_ = string_rule("name");
    string_ = string_rule("string");
    integer_ = g_.rule("integer", pattern("-?(0|[1-9]\\d{0,15})"));
    number_ =
        g_.rule("number", pattern("-?(0|[1-9]\\d{0,15})(\\.\\d{1,16})?([eE][+\\-]?\\d{1,3})?"));
    array_ = g_.rule("array", between("[", list(value()), "]"));
    const auto member = g_.rule("member", pair(g_.call(member_name_), value()));
    object_ = g_.rule("object", between("{", list(g_.call(member)), "}"));
    g_.define(value_, g_.either({object(), array(), string(), number(), g_.text("true"),
                                 g_.text("false"), g_.text("null")}));
  }

  Expression space() { return g_.call(space_); }
  Expression value() { return g_.call(value_); }
  Expression string() { return g_.call(string_); }
  Expression integer() { return g_.call(integer_); }
  Expression number() { return g_.call(number_); }
  Expression array() { return g_.call(array_); }
  Expression object() { return g_.call(object_); }

  Expression pattern(std::string_view text) {
    const CharacterWriter utf8 = utf8_character;
    return RegexReader::read(g_, text, RegexReader::Scope::kWhole, utf8);
  }

  /// open, inside and close with blanks between.
  Expression between(std::string_view open, Expression inside, std::string_view close) {
    return g_.sequence({g_.text(open), space(), inside, space(), g_.text(close)});
  }
  /// name: value
  Expression pair(Expression name, Expression value) {
    return g_.sequence({name, space(), g_.text(":"), space(), value});
  }
  Expression comma() { return g_.sequence({space(), g_.text(","), space()}); }
  /// Any number of parts with commas between.
  Expression list(Expression part) {
    return g_.optional(g_.sequence({part, g_.repeat(g_.sequence({comma(), part}), 0)}));
  }

  /// This value, with blanks between its tokens.
  Expression constant(const JsonValue& value) {
    std::vector<Expression> parts;
    const auto add = [&](Expression part) {
      if (!parts.empty()) parts.push_back(comma());
      parts.push_back(part);
    };
    if (value.is(JsonValue::Kind::kArray)) {
      for (const JsonValue& item : value.items) add(constant(item));
      return between("[", g_.sequence(std::move(parts)), "]");
    }
    if (value.is(JsonValue::Kind::kObject)) {
      for (const auto& [name, member] : value.members) {
        add(pair(g_.text(json_string(name)), constant(member)));
      }
      return between("{", g_.sequence(std::move(parts)), "}");
    }
    return g_.text(json_text(value));
  }

  /// A string of min .. max characters.
  Expression string(int min, int max) { return quoted(g_.repeat(any_character(), min, max)); }
  Expression quoted(Expression inside) {
    return g_.sequence({g_.text("\""), inside, g_.text("\"")});
  }

  /// One character inside a string: as it is, or as an escape where it has to be one.
  static Expression character(Grammar& grammar, const CodePoints& points) {
    std::vector<Expression> parts;
    CodePoints escaped(0, 0x1F);
    escaped.add('"', '"');
    escaped.add('\\', '\\');
    if (const CodePoints plain = points.without(escaped); !plain.empty()) {
      parts.push_back(utf8_character(grammar, plain));
    }
    constexpr std::string_view kNames = "\"\\bfnrt";
    constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (!points.contains(static_cast<std::uint32_t>(kMeant[i]))) continue;
      parts.push_back(grammar.text(std::string("\\") + kNames[i]));
    }
    return grammar.either(std::move(parts));
  }

  /// Any character inside a string, in any way to write it.
  Expression any_character() {
    if (any_character_ < 0) {
      CodePoints plain(0x20, CodePoints::kLast);
      plain = plain.without({'"', '"'}).without({'\\', '\\'});
      const auto escape = pattern(
          "\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"
          "|[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))");
      any_character_ = g_.rule(
          "character", g_.either({utf8_character(g_, plain), g_.call(g_.rule("escape", escape))}));
    }
    return g_.call(any_character_);
  }

 private:
  Grammar::Rule string_rule(std::string name) {
    return g_.rule(std::move(name), quoted(g_.repeat(any_character(), 0)));
  }

  Grammar& g_;
  Grammar::Rule value_, space_, member_name_, string_, integer_, number_, array_, object_;
  Grammar::Rule any_character_ = -1;
};

/// Any text of JSON. @param object  no other value than an object
inline Grammar json_grammar(bool object = false) {
  Grammar grammar;
  JsonGrammar json(grammar);
  grammar.set_root(grammar.rule("root", object ? json.object() : json.value()));
  return grammar;
}

}  // namespace foredraft::inline v0
