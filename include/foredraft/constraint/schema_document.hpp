#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <foredraft/constraint/json_value.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// A JSON Schema as a document: where references lead, and what schemas say together.
class SchemaDocument {
 public:
  using Kind = JsonValue::Kind;

  /// @errors kInvalidConstraint
  explicit SchemaDocument(std::string_view text) : root_(JsonReader::read(text, "a JSON Schema")) {}

  const JsonValue& root() const noexcept { return root_; }

  [[noreturn]] static void refuse(const std::string& found, const std::string& where,
                                  std::string_view expected, std::string_view hint = {}) {
    throw Error(ErrorCode::kInvalidConstraint, "a JSON Schema with " + found + " at " + where,
                expected, hint);
  }

  /// Keywords that say nothing of which values are valid.
  static bool is_annotation(std::string_view keyword) noexcept {
    constexpr std::array<std::string_view, 12> kNames{
        "title", "description", "default",  "examples",  "$comment", "$schema",
        "$id",   "deprecated",  "readOnly", "writeOnly", "$defs",    "definitions"};
    return std::find(kNames.begin(), kNames.end(), keyword) != kNames.end();
  }

  /// The schema that a `$ref` names. @errors kInvalidConstraint
  const JsonValue& at(std::string_view reference) const {
    const JsonValue* value = &root_;
    const std::string where(reference);
    if (!reference.starts_with("#")) {
      refuse("a reference to another document", where, "one that begins with `#`",
             "put the schema into `$defs`");
    }
    reference.remove_prefix(1);
    if (!reference.empty() && reference[0] != '/') {
      refuse("an anchor", where, "a JSON pointer, such as `#/$defs/name`");
    }
    while (!reference.empty()) {
      reference.remove_prefix(1);
      const std::size_t end = std::min(reference.find('/'), reference.size());
      value = child(*value, unescaped(reference.substr(0, end)));
      if (value == nullptr) refuse("a reference to nothing", where, "a schema of this document");
      reference.remove_prefix(end);
    }
    return *value;
  }

  /// The schema behind references that stand alone. @errors kInvalidConstraint
  const JsonValue& resolved(const JsonValue& schema) const {
    const JsonValue* at_end = &schema;
    for (int hops = 0; hops < 20; ++hops) {
      const JsonValue* reference = at_end->find("$ref");
      if (reference == nullptr) return *at_end;
      for (const auto& [keyword, value] : at_end->members) {
        if (keyword == "$ref" || is_annotation(keyword)) continue;
        refuse("`" + keyword + "` beside `$ref`", reference->text, "`$ref` alone",
               "use `allOf` with both");
      }
      at_end = &at(reference->text);
    }
    refuse("references that lead on and on", "`$ref`", "a schema at their end");
  }

  /// What two schemas say together, without `$ref`. @errors kInvalidConstraint where that takes more
  /// than putting their keywords together
  static JsonValue merged(const JsonValue& a, const JsonValue& b, const std::string& where) {
    if (a.is(Kind::kFalse) || b.is(Kind::kFalse)) return {Kind::kFalse};
    if (a.is(Kind::kTrue)) return b;
    if (b.is(Kind::kTrue)) return a;
    check_additional(a, b, where);
    check_additional(b, a, where);
    check_items(a, b, where);
    check_items(b, a, where);
    JsonValue both = a;
    for (const auto& [keyword, value] : b.members) {
      const auto known = std::find_if(both.members.begin(), both.members.end(),
                                      [&](const auto& member) { return member.first == keyword; });
      if (known == both.members.end()) {
        both.members.emplace_back(keyword, value);
      } else if (!is_annotation(keyword) && !(known->second == value)) {
        known->second = together(keyword, known->second, value, where);
      }
    }
    return both;
  }

  /// No value is valid under both, as far as types, constants and required members tell.
  bool disjoint(const JsonValue& left, const JsonValue& right, int nested = 0) const {
    const JsonValue& a = resolved(left);
    const JsonValue& b = resolved(right);
    if (a.is(Kind::kFalse) || b.is(Kind::kFalse)) return true;
    if (a.is_bool() || b.is_bool() || nested > 8) return false;
    if (const auto *x = a.find("type"), *y = b.find("type"); x != nullptr && y != nullptr) {
      if (common_types(*x, *y).empty()) return true;
    }
    const auto x = constants(a);
    const auto y = constants(b);
    const auto differs_from_all = [&](const JsonValue& one) {
      return std::all_of(y.begin(), y.end(),
                         [&](const JsonValue& other) { return differ(one, other); });
    };
    if (!x.empty() && !y.empty() && std::all_of(x.begin(), x.end(), differs_from_all)) return true;
    const JsonValue *required = a.find("required"), *others = b.find("required");
    const JsonValue *mine = a.find("properties"), *theirs = b.find("properties");
    if (required == nullptr || others == nullptr || mine == nullptr || theirs == nullptr)
      return false;
    for (const JsonValue& name : common(required->items, others->items)) {
      const JsonValue *p = mine->find(name.text), *q = theirs->find(name.text);
      if (p != nullptr && q != nullptr && disjoint(*p, *q, nested + 1)) return true;
    }
    return false;
  }

  /// Names of `type`, one or several. @errors kInvalidConstraint for one that is not known
  static std::vector<std::string> types(const JsonValue& value) {
    constexpr std::array<std::string_view, 7> kNames{"null",   "boolean", "integer", "number",
                                                     "string", "array",   "object"};
    std::vector<std::string> names;
    if (value.is(Kind::kString)) names.push_back(value.text);
    for (const JsonValue& item : value.items) names.push_back(item.text);
    for (const std::string& name : names) {
      if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) continue;
      refuse("the type `" + name + "`", "`type`", "one of JSON");
    }
    if (names.empty()) refuse("no name", "`type`", "a type of JSON, or several");
    return names;
  }

  /// @errors kInvalidConstraint where the value is no integer of at most 16 digits
  static std::int64_t integer(const JsonValue& value, const std::string& keyword) {
    std::int64_t number = 0;
    std::string_view digits = value.text;
    if (const std::size_t point = digits.find('.'); point != digits.npos) {  // 2.0 is an integer
      if (digits.find_first_not_of('0', point + 1) == digits.npos) digits = digits.substr(0, point);
    }
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    const bool whole = value.is(Kind::kNumber) && error == std::errc() && stop == end;
    constexpr std::int64_t kMost = 9'999'999'999'999'999;
    if (!whole || number > kMost || number < -kMost) {
      refuse("`" + keyword + "` " + json_text(value), keyword, "an integer of at most 16 digits");
    }
    return number;
  }

 private:
  static const JsonValue* child(const JsonValue& value, const std::string& name) {
    if (!value.is(Kind::kArray)) return value.find(name);
    std::size_t place = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
    const bool there = error == std::errc() && end == name.data() + name.size();
    return there && place < value.items.size() ? &value.items[place] : nullptr;
  }

  /// @source RFC 6901: ~1 is a slash, ~0 a tilde
  static std::string unescaped(std::string_view part) {
    std::string name;
    for (std::size_t i = 0; i < part.size(); ++i) {
      unsigned byte = 0;
      if (part.substr(i).starts_with("~1")) {
        name += '/', ++i;
      } else if (part.substr(i).starts_with("~0")) {
        name += '~', ++i;
      } else if (part[i] == '%' && i + 2 < part.size() &&
                 std::from_chars(&part[i + 1], &part[i + 1] + 2, byte, 16).ec == std::errc()) {
        name += static_cast<char>(byte), i += 2;
      } else {
        name += part[i];
      }
    }
    return name;
  }

  /// `additionalProperties` looks at the members of its own schema alone.
  static void check_additional(const JsonValue& a, const JsonValue& b, const std::string& where) {
    const JsonValue* additional = a.find("additionalProperties");
    const JsonValue* others = b.find("properties");
    if (additional == nullptr || additional->is(Kind::kTrue) || others == nullptr) return;
    const JsonValue* own = a.find("properties");
    for (const auto& member : others->members) {
      if (own != nullptr && own->find(member.first) != nullptr) continue;
      refuse("`additionalProperties` that speaks of `" + member.first + "` of another part", where,
             "all members in the schema that has `additionalProperties`");
    }
  }

  /// `items` looks at the `prefixItems` of its own schema alone.
  static void check_items(const JsonValue& a, const JsonValue& b, const std::string& where) {
    const JsonValue* items = a.find("items");
    const JsonValue* others = b.find("prefixItems");
    if (items == nullptr || items->is(Kind::kTrue) || others == nullptr) return;
    const JsonValue* own = a.find("prefixItems");
    if (own != nullptr && own->items.size() >= others->items.size()) return;
    refuse("`items` that speaks of `prefixItems` of another part", where,
           "both in the same schema");
  }

  static JsonValue together(const std::string& keyword, const JsonValue& a, const JsonValue& b,
                            const std::string& where) {
    const auto either = [&](bool first) { return first ? a : b; };
    if (keyword == "properties") return members_of_both(a, b);
    if (keyword == "required") {
      JsonValue all = a;
      for (const JsonValue& name : b.items) {
        if (std::find(a.items.begin(), a.items.end(), name) == a.items.end()) {
          all.items.push_back(name);
        }
      }
      return all;
    }
    if (keyword == "enum") return {Kind::kArray, {}, common(a.items, b.items)};
    if (keyword == "type") {
      JsonValue left{Kind::kArray};
      for (const std::string& name : common_types(a, b))
        left.items.push_back({Kind::kString, name});
      return left.items.empty() ? refuse_parts(keyword, where) : left;
    }
    const bool lower = keyword == "minimum" || keyword == "exclusiveMinimum" ||
                       keyword == "minLength" || keyword == "minItems";
    const bool upper = keyword == "maximum" || keyword == "exclusiveMaximum" ||
                       keyword == "maxLength" || keyword == "maxItems";
    if (lower) return either(integer(a, keyword) > integer(b, keyword));
    if (upper) return either(integer(a, keyword) < integer(b, keyword));
    return refuse_parts(keyword, where);
  }
  [[noreturn]] static JsonValue refuse_parts(const std::string& keyword, const std::string& where) {
    refuse("parts that differ in `" + keyword + "`", where, "parts that can be put together");
  }

  static JsonValue members_of_both(const JsonValue& a, const JsonValue& b) {
    JsonValue all = a;
    for (const auto& [name, schema] : b.members) {
      const auto known =
          std::find_if(all.members.begin(), all.members.end(),
                       [&n = name](const auto& member) { return member.first == n; });
      if (known == all.members.end()) {
        all.members.emplace_back(name, schema);
      } else if (!(known->second == schema)) {
        JsonValue parts{Kind::kArray, {}, {known->second, schema}};
        known->second = JsonValue{Kind::kObject, {}, {}, {{"allOf", std::move(parts)}}};
      }
    }
    return all;
  }

  static std::vector<JsonValue> constants(const JsonValue& schema) {
    if (const JsonValue* value = schema.find("const")) return {*value};
    if (const JsonValue* values = schema.find("enum")) return values->items;
    return {};
  }
  /// Whether two constants surely are different values: 1 and 1.0 are not, and of arrays and objects,
  /// whose parts may be spelled in several ways, nothing is said.
  static bool differ(const JsonValue& a, const JsonValue& b) {
    if (a.kind != b.kind) return true;
    if (a.is(Kind::kArray) || a.is(Kind::kObject)) return false;
    if (!a.is(Kind::kNumber)) return !(a == b);
    const auto number = [](const JsonValue& value) {
      double result = 0;
      std::from_chars(value.text.data(), value.text.data() + value.text.size(), result);
      return result;
    };
    return number(a) != number(b);
  }

  static std::vector<JsonValue> common(const std::vector<JsonValue>& a,
                                       const std::vector<JsonValue>& b) {
    std::vector<JsonValue> both;
    for (const JsonValue& value : a) {
      if (std::find(b.begin(), b.end(), value) != b.end()) both.push_back(value);
    }
    return both;
  }
  /// An integer is a number.
  static std::vector<std::string> common_types(const JsonValue& a, const JsonValue& b) {
    std::vector<std::string> both;
    for (const std::string& x : types(a)) {
      for (const std::string& y : types(b)) {
        const bool whole = (x == "integer" && y == "number") || (x == "number" && y == "integer");
        if (x == y || whole) both.push_back(whole ? "integer" : x);
      }
    }
    return both;
  }

  JsonValue root_;
};

}  // namespace foredraft::inline v0
