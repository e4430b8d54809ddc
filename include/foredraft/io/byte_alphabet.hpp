#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <foredraft/core/index.hpp>
#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// The alphabet in which byte-level vocabularies are written down: each byte has a printable
/// character, so that merges can be kept in text files. Printable bytes of Latin-1 stand for
/// themselves; the other 68 follow one another from U+0100.
/// @source Radford et al. 2019, the encoder published with GPT-2
class ByteAlphabet {
 public:
  constexpr ByteAlphabet() noexcept {
    std::uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const std::uint16_t code = printable ? static_cast<std::uint16_t>(byte) : next++;
      code_of_[byte] = code;
      byte_of_[code] = static_cast<std::int16_t>(byte);
    }
  }

  /// The character of one byte, as UTF-8. All lie below U+0800: one or two bytes.
  std::string write(unsigned char byte) const {
    const std::uint16_t code = code_of_[byte];
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
  }

  std::string write(std::string_view bytes) const {
    std::string text;
    for (const char c : bytes) text += write(static_cast<unsigned char>(c));
    return text;
  }

  /// The bytes that `text` stands for. Characters outside the alphabet, and bytes that are not
  /// UTF-8, stay as they are: added tokens in real files are written without it.
  std::string read(std::string_view text) const {
    std::string bytes;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = valid_utf8_character(text.substr(at));
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
      std::size_t code = byte_of_.size();
      if (length == 1) code = byte(0);
      if (length == 2) code = idx((byte(0) & 0x1F) << 6 | (byte(1) & 0x3F));
      if (code < byte_of_.size() && byte_of_[code] >= 0) {
        bytes += static_cast<char>(byte_of_[code]);
      } else {
        bytes += text.substr(at, length == 0 ? 1 : length);
      }
      at += length == 0 ? 1 : length;
    }
    return bytes;
  }

 private:
  static constexpr std::size_t kCodes = 0x100 + 68;

  static constexpr std::array<std::int16_t, kCodes> none() noexcept {
    std::array<std::int16_t, kCodes> codes{};
    codes.fill(-1);
    return codes;
  }

  std::array<std::uint16_t, 256> code_of_{};
  std::array<std::int16_t, kCodes> byte_of_ = none();
};

inline constexpr ByteAlphabet kByteAlphabet;

}  // namespace foredraft::inline v0
