#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foredraft::inline v0 {

/// Text from a file as it may stand in a message: in quotes, on one line, of bounded length. A
/// model file can hold escape sequences for a terminal, or megabytes where a name should be.
/// (Not named `quoted`: lookup would find std::quoted for strings.)
inline std::string in_quotes(std::string_view text, std::size_t longest = 60) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string shown = "\"";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      shown.append({'\\', c});
    } else if (byte < 0x20 || byte >= 0x7F) {
      shown.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    } else {
      shown += c;
    }
  }
  shown += '"';
  if (text.size() > longest) shown += "...";
  return shown;
}

}  // namespace foredraft::inline v0
