#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/decimal_range.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/integer_range.hpp>
#include <foredraft/constraint/json_grammar.hpp>
#include <foredraft/constraint/json_lists.hpp>
#include <foredraft/constraint/json_value.hpp>
#include <foredraft/constraint/other_names.hpp>
#include <foredraft/constraint/regex.hpp>
#include <foredraft/constraint/schema_document.hpp>
#include <foredraft/constraint/string_formats.hpp>

namespace foredraft::inline v0 {

/// Reads a JSON Schema (draft 2020-12) into a grammar whose texts are valid under it.
///
/// Every text of the grammar is valid; not every valid text is one of the grammar, because a model
/// is to be led, not only checked. Members come in the order of `properties`; further ones are
/// written only where `additionalProperties` is there, or no `properties` are, and items behind
/// `prefixItems` only where `items` is. A schema that has keywords of one type, but no `type`, has
/// that type.
///
/// A keyword that is not supported is refused by name and place, and so is a `oneOf` of which it
/// cannot be seen that no value fits two of its branches. docs/design/constraints.md has the list.
class JsonSchemaReader {
 public:
  using Expression = Grammar::Expression;

  /// @errors kInvalidConstraint
  static Grammar read(std::string_view text) {
    JsonSchemaReader reader(text);
    reader.g_.set_root(reader.reference("#"));
    return std::move(reader.g_);
  }

 private:
  using Kind = JsonValue::Kind;
  static constexpr int kMostNested = 120;
  static constexpr int kMostSchemas = 20000;

  explicit JsonSchemaReader(std::string_view text)
      : document_(text), json_(g_), lists_(g_, json_) {}

  [[noreturn]] static void refuse(const std::string& found, const std::string& where,
                                  std::string_view expected, std::string_view hint = {}) {
    SchemaDocument::refuse(found, where, expected, hint);
  }

  Grammar::Rule reference(const std::string& to) {
    if (const auto known = rules_.find(to); known != rules_.end()) return known->second;
    const Grammar::Rule rule = rules_[to] = g_.declare(to);
    g_.define(rule, schema(document_.at(to), to, 0));
    return rule;
  }

  Expression schema(const JsonValue& s, const std::string& where, int nested) {
    if (nested > kMostNested || ++n_schemas_ > kMostSchemas) {
      refuse("parts within parts without an end", where, "a smaller schema");
    }
    if (s.is(Kind::kTrue)) return json_.value();
    if (s.is(Kind::kFalse)) return g_.either({});
    if (!s.is(Kind::kObject))
      refuse("something else than a schema", where, "an object or a boolean");
    check_keywords(s, where);
    if (const JsonValue* to = s.find("$ref")) {
      (void)document_.resolved(s);  // nothing stands beside it
      return g_.call(reference(to->text));
    }
    if (s.find("allOf") != nullptr) return all_of(s, where, nested);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (s.find(keyword) != nullptr) return any_of(s, keyword, where, nested);
    }
    if (const JsonValue* value = s.find("const")) return constants(s, {*value}, "const", where);
    if (const JsonValue* values = s.find("enum")) return constants(s, values->items, "enum", where);
    return typed(s, where, nested);
  }

  static void check_keywords(const JsonValue& s, const std::string& where) {
    constexpr std::string_view kSupported =
        " type enum const properties required additionalProperties items prefixItems minItems "
        "maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
        "exclusiveMaximum anyOf oneOf allOf $ref $defs definitions ";
    for (const auto& [keyword, value] : s.members) {
      const bool word = keyword.find(' ') == keyword.npos;
      const bool known = word && kSupported.find(" " + keyword + " ") != kSupported.npos;
      if (known || SchemaDocument::is_annotation(keyword)) continue;
      if (keyword == "uniqueItems" && value.is(Kind::kFalse)) continue;
      refuse("the keyword `" + keyword + "`, which is not supported,", where,
             "keywords that are supported", "the page on constraints lists them");
    }
  }

  /// The same schema without some keywords.
  static JsonValue without(const JsonValue& s, std::string_view keyword) {
    JsonValue rest = s;
    std::erase_if(rest.members, [&](const auto& member) { return member.first == keyword; });
    return rest;
  }
  static bool says_nothing(const JsonValue& s) {
    return std::all_of(s.members.begin(), s.members.end(), [](const auto& member) {
      return SchemaDocument::is_annotation(member.first);
    });
  }
  static const std::vector<JsonValue>& branches(const JsonValue& s, const char* keyword,
                                                const std::string& where) {
    const JsonValue& list = *s.find(keyword);
    if (!list.items.empty()) return list.items;
    refuse(std::string("`") + keyword + "` that is empty or no list", where, "a list of schemas");
  }

  Expression all_of(const JsonValue& s, const std::string& where, int nested) {
    const auto& parts = branches(s, "allOf", where);
    const JsonValue rest = without(s, "allOf");
    if (parts.size() == 1 && says_nothing(rest)) {
      return schema(parts[0], where + "/allOf/0", nested + 1);
    }
    JsonValue both = rest;
    for (const JsonValue& part : parts) {
      both = SchemaDocument::merged(both, document_.resolved(part), where + "/allOf");
    }
    return schema(both, where, nested + 1);
  }

  Expression any_of(const JsonValue& s, const char* keyword, const std::string& where, int nested) {
    const auto& parts = branches(s, keyword, where);
    const std::string below = where + "/" + keyword;
    const JsonValue rest = without(s, keyword);
    if (keyword == std::string_view("oneOf")) require_disjoint(parts, below);
    std::vector<Expression> alternatives;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string at = below + "/" + std::to_string(i);
      alternatives.push_back(
          says_nothing(rest)
              ? schema(parts[i], at, nested + 1)
              : schema(SchemaDocument::merged(rest, document_.resolved(parts[i]), at), at,
                       nested + 1));
    }
    return g_.either(std::move(alternatives));
  }
  void require_disjoint(const std::vector<JsonValue>& parts, const std::string& where) const {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (document_.disjoint(parts[i], parts[j])) continue;
        refuse("`oneOf` whose branches " + std::to_string(j) + " and " + std::to_string(i) +
                   " may fit the same value",
               where, "branches told apart by type, constants, or a required member's constant",
               "use `anyOf`");
      }
    }
  }

  Expression constants(const JsonValue& s, const std::vector<JsonValue>& values,
                       const std::string& by, const std::string& where) {
    for (const auto& member : s.members) {
      const std::string& keyword = member.first;
      if (keyword == by || keyword == "type" || SchemaDocument::is_annotation(keyword)) continue;
      refuse("`" + keyword + "` beside `" + by + "`", where, "one of them");
    }
    std::vector<Expression> alternatives;
    for (const JsonValue& value : values) {
      if (fits(s, value)) alternatives.push_back(json_.constant(value));
    }
    return g_.either(std::move(alternatives));
  }
  static bool fits(const JsonValue& s, const JsonValue& value) {
    const JsonValue* type = s.find("type");
    if (type == nullptr) return true;
    const bool whole = value.text.find_first_of(".eE") == std::string::npos;
    const auto names = SchemaDocument::types(*type);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      switch (value.kind) {
        case Kind::kNull: return name == "null";
        case Kind::kFalse:
        case Kind::kTrue: return name == "boolean";
        case Kind::kNumber: return name == "number" || (name == "integer" && whole);
        case Kind::kString: return name == "string";
        case Kind::kArray: return name == "array";
        case Kind::kObject: return name == "object";
      }
      return false;
    });
  }

  Expression typed(const JsonValue& s, const std::string& where, int nested) {
    const JsonValue* type = s.find("type");
    const auto names = type != nullptr ? SchemaDocument::types(*type) : implied_types(s);
    if (names.empty()) return json_.value();
    std::vector<Expression> alternatives;
    for (const std::string& name : names) {
      alternatives.push_back(of_type(name, s, where, nested));
    }
    return g_.either(std::move(alternatives));
  }
  static std::vector<std::string> implied_types(const JsonValue& s) {
    const auto has = [&](std::initializer_list<std::string_view> keywords) {
      return std::any_of(keywords.begin(), keywords.end(),
                         [&](std::string_view keyword) { return s.find(keyword) != nullptr; });
    };
    std::vector<std::string> names;
    if (has({"properties", "required", "additionalProperties"})) names.push_back("object");
    if (has({"items", "prefixItems", "minItems", "maxItems"})) names.push_back("array");
    if (has({"minLength", "maxLength", "pattern", "format"})) names.push_back("string");
    if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
      names.push_back("number");
    }
    return names;
  }

  Expression of_type(const std::string& name, const JsonValue& s, const std::string& where,
                     int nested) {
    if (name == "null") return g_.text("null");
    if (name == "boolean") return g_.either({g_.text("true"), g_.text("false")});
    if (name == "integer" || name == "number") return number(s, name == "integer");
    if (name == "string") return string(s, where);
    if (name == "array") return array(s, where, nested);
    return object(s, where, nested);
  }

  /// The narrower one of a bound and its exclusive twin.
  /// @param side  1 for a lower bound, -1 for an upper one
  static std::optional<DecimalRange::Bound> bound(const JsonValue& s, const char* keyword,
                                                  const char* exclusive, int side) {
    std::optional<DecimalRange::Bound> found;
    if (const JsonValue* value = s.find(keyword)) {
      found = {SchemaDocument::integer(*value, keyword), true};
    }
    if (const JsonValue* value = s.find(exclusive)) {
      const std::int64_t other = SchemaDocument::integer(*value, exclusive);
      if (!found || (other - found->value) * side >= 0) found = {other, false};
    }
    return found;
  }

  Expression number(const JsonValue& s, bool whole) {
    const auto low = bound(s, "minimum", "exclusiveMinimum", 1);
    const auto high = bound(s, "maximum", "exclusiveMaximum", -1);
    if (!low && !high) return whole ? json_.integer() : json_.number();
    if (!whole) return DecimalRange::write(g_, low, high);
    std::optional<std::int64_t> first, last;
    if (low) first = low->value + !low->included;
    if (high) last = high->value - !high->included;
    return IntegerRange::write(g_, first, last);
  }

  std::pair<int, int> bounds(const JsonValue& s, const char* low, const char* high) const {
    constexpr std::int64_t kMost = 1'000'000;
    const auto read = [&](const char* keyword, int absent) {
      const JsonValue* value = s.find(keyword);
      if (value == nullptr) return absent;
      const std::int64_t n = SchemaDocument::integer(*value, keyword);
      if (n < 0 || n > kMost)
        refuse(std::string("`") + keyword + "` " + value->text, keyword, "0 to a million");
      return static_cast<int>(n);
    };
    return {read(low, 0), read(high, Grammar::kUnbounded)};
  }

  Expression string(const JsonValue& s, const std::string& where) {
    const JsonValue *pattern = s.find("pattern"), *format = s.find("format");
    const auto [min, max] = bounds(s, "minLength", "maxLength");
    const bool bounded = min > 0 || max != Grammar::kUnbounded;
    if ((pattern != nullptr) + (format != nullptr) + bounded > 1) {
      refuse("two of `pattern`, `format` and a length", where, "one of them",
             "write the length into the pattern");
    }
    if (format != nullptr) return json_.quoted(json_.pattern(pattern_of(format->text, where)));
    if (pattern != nullptr) {
      const CharacterWriter write = JsonGrammar::character;
      return json_.quoted(RegexReader::read(g_, pattern->text, RegexReader::Scope::kSearch, write));
    }
    if (!bounded) return json_.string();
    if (max != Grammar::kUnbounded && max < min) return g_.either({});
    return json_.string(min, max);
  }

  static std::string pattern_of(const std::string& format, const std::string& where) {
    const std::string pattern = pattern_of_format(format);
    if (!pattern.empty()) return pattern;
    refuse("the format `" + format + "`, which is not supported,", where,
           "date, time, date-time, duration, uuid, ipv4, ipv6, hostname, uri or email");
  }

  Expression array(const JsonValue& s, const std::string& where, int nested) {
    const auto [min, max] = bounds(s, "minItems", "maxItems");
    std::vector<Expression> first;
    if (const JsonValue* prefix = s.find("prefixItems")) {
      for (std::size_t i = 0; i < prefix->items.size(); ++i) {
        const std::string at = where + "/prefixItems/" + std::to_string(i);
        first.push_back(schema(prefix->items[i], at, nested + 1));
      }
    }
    const JsonValue* items = s.find("items");
    const auto n_first = static_cast<int>(first.size());
    std::optional<Expression> further;
    if (items != nullptr) {
      if (!items->is(Kind::kFalse)) further = schema(*items, where + "/items", nested + 1);
    } else if (first.empty() || min > n_first) {
      further = json_.value();
    }
    return json_.between("[", lists_.items(first, further, min, max), "]");
  }

  Expression object(const JsonValue& s, const std::string& where, int nested) {
    const JsonValue* properties = s.find("properties");
    const JsonValue* additional = s.find("additionalProperties");
    std::optional<Expression> further;  // values of members that are not named
    if (additional != nullptr) {
      if (!additional->is(Kind::kFalse)) {
        further = schema(*additional, where + "/additionalProperties", nested + 1);
      }
    } else if (properties == nullptr) {
      further = json_.value();
    }
    std::vector<JsonLists::Member> members;
    const auto add = [&](const std::string& name, Expression value, bool required) {
      const Expression pair = json_.pair(g_.text(json_string(name)), value);
      members.push_back({name, g_.call(g_.rule(name, pair)), required});
    };
    std::vector<std::string> required = names(s, "required", where);
    if (properties != nullptr) {
      for (const auto& [name, value] : properties->members) {
        const auto at = std::find(required.begin(), required.end(), name);
        add(name, schema(value, where + "/properties/" + name, nested + 1), at != required.end());
        if (at != required.end()) required.erase(at);
      }
    }
    for (const std::string& name : required) {
      add(name, additional == nullptr ? json_.value() : further.value_or(g_.either({})), true);
    }
    std::optional<Expression> other;
    if (further)
      other = json_.pair(json_.quoted(OtherNames::write(g_, names_of(members, where))), *further);
    return json_.between("{", lists_.members(members, other), "}");
  }
  static std::vector<std::string> names(const JsonValue& s, const char* keyword,
                                        const std::string& where) {
    std::vector<std::string> found;
    const JsonValue* list = s.find(keyword);
    if (list == nullptr) return found;
    for (const JsonValue& name : list->items) {
      if (!name.is(Kind::kString))
        refuse(std::string("no name in `") + keyword + "`", where, "strings");
      if (std::find(found.begin(), found.end(), name.text) == found.end())
        found.push_back(name.text);
    }
    return found;
  }

  static std::vector<std::string> names_of(const std::vector<JsonLists::Member>& members,
                                           const std::string& where) {
    constexpr std::size_t kMostBytes = 200;
    std::vector<std::string> names;
    for (const JsonLists::Member& member : members) {
      if (member.name.size() > kMostBytes) {
        refuse("a long name beside `additionalProperties`", where, "names of at most 200 bytes");
      }
      names.push_back(member.name);
    }
    return names;
  }

  SchemaDocument document_;
  Grammar g_;
  JsonGrammar json_;
  JsonLists lists_;
  std::map<std::string, Grammar::Rule> rules_;  // by reference
  int n_schemas_ = 0;
};

/// @errors kInvalidConstraint, see JsonSchemaReader
inline Grammar json_schema_grammar(std::string_view schema) {
  return JsonSchemaReader::read(schema);
}

}  // namespace foredraft::inline v0
