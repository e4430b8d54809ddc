#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <foredraft/core/error.hpp>
#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// A place in a pattern, grammar or schema that is being read.
class TextCursor {
 public:
  /// @param what  of which the text is one, for messages: "a pattern"
  TextCursor(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  bool at_end() const noexcept { return at_ == text_.size(); }
  std::size_t position() const noexcept { return at_; }
  /// The next byte, or 0 at the end.
  char peek(std::size_t ahead = 0) const noexcept {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view expected) const noexcept {
    return text_.substr(at_).starts_with(expected);
  }
  /// Go behind `expected`, if it comes next.
  bool take(std::string_view expected) noexcept {
    const bool there = looking_at(expected);
    if (there) at_ += expected.size();
    return there;
  }
  void skip(std::size_t n = 1) noexcept { at_ += n; }
  std::string_view since(std::size_t begin) const noexcept {
    return text_.substr(begin, at_ - begin);
  }

  /// The next character. @errors kInvalidConstraint where it is not UTF-8, or there is none
  std::uint32_t character() {
    const std::size_t length = valid_utf8_character(text_.substr(at_));
    if (length == 0) refuse(at_end() ? "the end" : "bytes that are not UTF-8", "a character");
    auto point = static_cast<std::uint32_t>(static_cast<unsigned char>(text_[at_]));
    if (length > 1) point &= 0xFFu >> (length + 1);
    for (std::size_t i = 1; i < length; ++i) {
      point = point << 6 | (static_cast<unsigned char>(text_[at_ + i]) & 0x3Fu);
    }
    at_ += length;
    return point;
  }

  /// `digits` hexadecimal digits. @errors kInvalidConstraint where there are fewer
  std::uint32_t hex(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) refuse("too few hexadecimal digits", std::to_string(digits) + " of them");
      value = value * 16 + static_cast<std::uint32_t>(digit);
      skip();
    }
    return value;
  }

  /// A decimal number below ten million, if one comes next.
  std::optional<int> number() {
    const std::size_t begin = at_;
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; skip()) {
      if (value >= 1000000) refuse("a number that is too large", "one below ten million");
      value = value * 10 + (peek() - '0');
    }
    if (at_ == begin) return std::nullopt;
    return value;
  }

  /// @errors kInvalidConstraint always, with the place
  [[noreturn]] void refuse(std::string_view found, std::string_view expected,
                           std::string_view hint = {}) const {
    std::size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n';
    std::string where = " at byte " + std::to_string(at_);
    if (line > 1) where += ", line " + std::to_string(line) + ",";
    throw Error(ErrorCode::kInvalidConstraint,
                std::string(what_) + " with " + std::string(found) + where, expected, hint);
  }

 private:
  static int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace foredraft::inline v0
