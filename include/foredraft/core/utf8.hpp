#pragma once

#include <cstddef>
#include <string_view>

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

}  // namespace foredraft::inline v0
