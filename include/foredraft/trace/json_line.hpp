#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// Text of one JSON value without line breaks, written from front to back: as much of JSON as a trace
/// needs, without a library. Who writes sees to it that keys and values alternate.
class JsonLine {
 public:
  JsonLine& begin_object() { return open('{'); }
  JsonLine& end_object() { return close('}'); }
  JsonLine& begin_array() { return open('['); }
  JsonLine& end_array() { return close(']'); }

  JsonLine& key(std::string_view name) {
    value(name);
    text_ += ':';
    comma_ = false;
    return *this;
  }
  /// Bytes that are not UTF-8 become U+FFFD, one for each.
  JsonLine& value(std::string_view bytes) {
    separate();
    text_ += '"';
    while (!bytes.empty()) {
      const std::size_t length = valid_utf8_character(bytes);
      append_character(bytes.substr(0, length));
      bytes.remove_prefix(length == 0 ? 1 : length);
    }
    text_ += '"';
    return *this;
  }
  JsonLine& value(const char* text) { return value(std::string_view(text)); }
  JsonLine& value(bool value) { return raw(value ? "true" : "false"); }
  /// With the fewest digits that are this number again; null for infinities and NaN.
  template <std::floating_point T>
  JsonLine& value(T number) {
    return std::isfinite(number) ? raw(digits(number)) : raw("null");
  }
  template <std::integral T>
  JsonLine& value(T number) {
    return raw(digits(number));
  }
  template <typename T>
  JsonLine& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  const std::string& text() const noexcept { return text_; }
  void clear() noexcept {
    text_.clear();
    comma_ = false;
  }

 private:
  template <typename T>
  static std::string digits(T number) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
  }

  JsonLine& open(char bracket) {
    separate();
    text_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonLine& close(char bracket) {
    text_ += bracket;
    comma_ = true;
    return *this;
  }
  JsonLine& raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  void separate() {
    if (comma_) text_ += ',';
    comma_ = true;
  }

  /// `character` is valid UTF-8, or empty for a byte that is not.
  void append_character(std::string_view character) {
    if (character.empty()) {
      text_ += "\uFFFD";
    } else if (character == "\"" || character == "\\") {
      text_ += '\\';
      text_ += character;
    } else if (const auto byte = static_cast<unsigned char>(character[0]); byte < 0x20) {
      constexpr std::string_view kHex = "0123456789abcdef";
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15];
    } else {
      text_ += character;
    }
  }

  std::string text_;
  bool comma_ = false;  // before the next value
};

}  // namespace foredraft::inline v0
