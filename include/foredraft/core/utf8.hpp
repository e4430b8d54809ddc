#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace foredraft::inline v0 {

/// Bytes of the character that begins with `lead`, or 1 for a byte that cannot begin one.
/// @source RFC 3629: C0, C1 and F5..FF never occur
constexpr std::size_t utf8_length(unsigned char lead) noexcept {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 1;
}

/// Length of the longest prefix that does not end inside a UTF-8 character. At most 3 bytes are
/// left over. Bytes that are not UTF-8 count as complete: they pass through as they are, so nothing
/// can be held for ever.
constexpr std::size_t complete_utf8_prefix(std::string_view text) noexcept {
  const std::size_t longest_tail = text.size() < 3 ? text.size() : 3;
  for (std::size_t back = 1; back <= longest_tail; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    const bool continuation = (byte & 0xC0) == 0x80;
    if (continuation) continue;
    return utf8_length(byte) > back ? text.size() - back : text.size();
  }
  return text.size();
}

/// Bytes of the valid character with which `text` begins; 0 where it begins with none. Overlong
/// forms, surrogates and values above U+10FFFF are not valid.
/// @source RFC 3629, section 4: the second byte carries all of these limits
constexpr std::size_t valid_utf8_character(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = utf8_length(lead);
  if (length == 1 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // above U+10FFFF
  return length;
}

/// Length of the longest prefix that is valid UTF-8.
constexpr std::size_t valid_utf8_prefix(std::string_view text) noexcept {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = valid_utf8_character(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

/// Hands bytes on without ever splitting a character: for output that is shown while it arrives.
///
/// Holds at most 3 bytes. Bytes that are not UTF-8 pass through as they are.
/// @see TextStream, which watches for stop strings as well
class Utf8Stream {
 public:
  /// What may be shown now; the rest waits for the next call.
  std::string push(std::string_view bytes) {
    held_ += bytes;
    const std::size_t end = complete_utf8_prefix(held_);
    std::string rest = held_.substr(end);
    held_.resize(end);
    std::swap(rest, held_);
    return rest;
  }

  /// What is left, when no more bytes come: the beginning of a character, or nothing.
  std::string flush() {
    std::string rest;
    std::swap(rest, held_);
    return rest;
  }

  std::string_view held() const noexcept { return held_; }

 private:
  std::string held_;
};

}  // namespace foredraft::inline v0
