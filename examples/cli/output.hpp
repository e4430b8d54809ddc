#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace cli {

/// Objects keep their members in the order in which they were added.
using Json = nlohmann::ordered_json;

/// A number that JSON can hold: 0 for infinities and NaN.
double finite(double value);

/// JSON numbers are doubles: the one with the fewest digits that is this float again, 0 for
/// infinities and NaN.
double shortest(float value);

/// As printf has it. The result is cut at 255 bytes.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// Write to stdout at once. @errors kIo, e.g. where the disk is full
void write_out(std::string_view text);

/// What is none, or beyond the type, is nothing.
std::optional<std::int64_t> whole_number(const Json& json);

/// On one line. Bytes that are not UTF-8 become U+FFFD.
std::string text_of(const Json& json);
/// Print one object and a line break.
void print_json(const Json& object);

/// Of foredraft: "0.1.0"
std::string version();

/// "1.12 GB" @units bytes, powers of ten
std::string readable_bytes(double bytes);
/// "135 M"
std::string readable_count(double count);

}  // namespace cli
