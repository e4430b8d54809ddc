#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/text_cursor.hpp>

namespace foredraft::inline v0 {

/// A value of JSON, as small as reading a schema takes. Numbers stay as they are written, members in
/// their order.
struct JsonValue {
  enum class Kind : std::uint8_t {
    kNull,
    kFalse,
    kTrue,
    kNumber,
    kString,
    kArray,
    kObject
  };

  Kind kind = Kind::kNull;
  std::string text = {};  ///< of a string, or a number as written
  std::vector<JsonValue> items = {};
  std::vector<std::pair<std::string, JsonValue>> members = {};

  bool is(Kind other) const noexcept { return kind == other; }
  bool is_bool() const noexcept { return kind == Kind::kTrue || kind == Kind::kFalse; }
  /// Null where there is no such member.
  const JsonValue* find(std::string_view name) const noexcept {
    for (const auto& [key, value] : members) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  friend bool operator==(const JsonValue&, const JsonValue&) = default;
};

/// A string of JSON with its quotes, no longer than it has to be.
inline std::string json_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kNames = "\"\\bfnrt";
  constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t known = kMeant.find(c); known != kMeant.npos) {
      out += '\\';
      out += kNames[known];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte / 16];
      out += kHex[byte % 16];
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A value without blanks.
inline std::string json_text(const JsonValue& value) {
  using Kind = JsonValue::Kind;
  std::string out;
  switch (value.kind) {
    case Kind::kNull: return "null";
    case Kind::kFalse: return "false";
    case Kind::kTrue: return "true";
    case Kind::kNumber: return value.text;
    case Kind::kString: return json_string(value.text);
    case Kind::kArray:
      for (const JsonValue& item : value.items) out += (out.empty() ? "" : ",") + json_text(item);
      return "[" + out + "]";
    case Kind::kObject:
      for (const auto& [name, member] : value.members) {
        out += (out.empty() ? "" : ",") + json_string(name) + ":" + json_text(member);
      }
      return "{" + out + "}";
  }
  return out;
}

/// Reads a value of JSON. @source RFC 8259
class JsonReader {
 public:
  /// @param what  of which the text is one, for messages
  /// @errors kInvalidConstraint, with the place; for two members of one name too
  static JsonValue read(std::string_view text, std::string_view what) {
    JsonReader reader(text, what);
    const JsonValue value = reader.value(0);
    reader.space();
    if (!reader.text_.at_end()) reader.text_.refuse("more behind its end", "one value of JSON");
    return value;
  }

 private:
  static constexpr int kMostNested = 100;
  using Kind = JsonValue::Kind;

  JsonReader(std::string_view text, std::string_view what) : text_(text, what) {}

  void space() {
    while (text_.take(" ") || text_.take("\n") || text_.take("\t") || text_.take("\r")) {
    }
  }

  JsonValue value(int nested) {
    if (nested > kMostNested) text_.refuse("values nested too deeply", "at most 100 levels");
    space();
    if (text_.take("null")) return {Kind::kNull};
    if (text_.take("false")) return {Kind::kFalse};
    if (text_.take("true")) return {Kind::kTrue};
    if (text_.peek() == '"') return {Kind::kString, string()};
    if (text_.take("[")) return array(nested);
    if (text_.take("{")) return object(nested);
    return {Kind::kNumber, number()};
  }

  JsonValue array(int nested) {
    JsonValue made{Kind::kArray};
    space();
    if (text_.take("]")) return made;
    do {
      made.items.push_back(value(nested + 1));
      space();
    } while (text_.take(","));
    if (!text_.take("]")) text_.refuse("an array that goes on strangely", "`,` or `]`");
    return made;
  }

  JsonValue object(int nested) {
    JsonValue made{Kind::kObject};
    space();
    if (text_.take("}")) return made;
    do {
      space();
      if (text_.peek() != '"') text_.refuse("a member without a name", "a string");
      std::string name = string();
      if (made.find(name) != nullptr)
        text_.refuse("two members `" + name + "`", "one of each name");
      space();
      if (!text_.take(":")) text_.refuse("a name without a value", "`:`");
      made.members.emplace_back(std::move(name), value(nested + 1));
      space();
    } while (text_.take(","));
    if (!text_.take("}")) text_.refuse("an object that goes on strangely", "`,` or `}`");
    return made;
  }

  std::string number() {
    const std::size_t begin = text_.position();
    const auto digits = [this] {
      if (text_.peek() < '0' || text_.peek() > '9') text_.refuse("no value", "a value of JSON");
      while (text_.peek() >= '0' && text_.peek() <= '9') text_.skip();
    };
    text_.take("-");
    if (!text_.take("0")) digits();
    if (text_.take(".")) digits();
    if (text_.take("e") || text_.take("E")) {
      if (!text_.take("-")) text_.take("+");
      digits();
    }
    return std::string(text_.since(begin));
  }

  std::string string() {
    text_.skip();
    std::string out;
    while (!text_.take("\"")) {
      if (text_.at_end()) text_.refuse("a string without an end", "`\"`");
      if (static_cast<unsigned char>(text_.peek()) < 0x20) {
        text_.refuse("a control character in a string", "an escape, such as `\\n`");
      }
      append(out, text_.take("\\") ? escape() : text_.character());
    }
    return out;
  }

  std::uint32_t escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (text_.take("u")) return unicode();
    const std::size_t which = text_.at_end() ? kNames.npos : kNames.find(text_.peek());
    if (which == kNames.npos) text_.refuse("an unknown escape", "one of `\"\\/bfnrtu`");
    text_.skip();
    return static_cast<std::uint32_t>(kMeant[which]);
  }
  std::uint32_t unicode() {
    const std::uint32_t high = text_.hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high < 0xDC00 && text_.take("\\u")) {
      const std::uint32_t low = text_.hex(4);
      if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    text_.refuse("half of a surrogate pair", "both halves");
  }

  static void append(std::string& out, std::uint32_t c) {
    const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) return put(c);
    if (c < 0x800) {
      put(0xC0 | c >> 6);
    } else {
      if (c < 0x10000) {
        put(0xE0 | c >> 12);
      } else {
        put(0xF0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3F));
      }
      put(0x80 | (c >> 6 & 0x3F));
    }
    put(0x80 | (c & 0x3F));
  }

  TextCursor text_;
};

}  // namespace foredraft::inline v0
