#include "output.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include <foredraft/core/error.hpp>
#include <foredraft/version.hpp>

#include "usage.hpp"

namespace cli {

namespace {

std::string scaled(double value, const char* const (&units)[4]) {
  int unit = 0;
  for (; value >= 1000 && unit < 3; ++unit) value /= 1000;
  // %.3g would write 999.6 as 1e+03.
  return formatted(unit == 0 || value >= 100 ? "%.0f %s" : "%.3g %s", value, units[unit]);
}

}  // namespace

double finite(double value) { return std::isfinite(value) ? value : 0.0; }

double shortest(float value) {
  char text[32];
  const char* end = std::to_chars(text, text + sizeof text, value).ptr;
  double found = 0;
  std::from_chars(text, end, found);
  return finite(found);
}

// Flushed each time: a reader at the end of a pipe gets every token as it comes, and a full disk is
// noticed while there is someone to tell.
void write_out(std::string_view text) {
  errno = 0;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  throw fd::Error(fd::ErrorCode::kIo,
                  std::string("stdout: ") + (errno != 0 ? std::strerror(errno) : "cannot write"),
                  "an output that can be written");
}

std::optional<std::int64_t> whole_number(const Json& json) {
  // What is beyond the type would wrap around when it is read.
  const bool fits =
      json.is_number_integer() &&
      (!json.is_number_unsigned() ||
       json.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  return fits ? std::optional(json.get<std::int64_t>()) : std::nullopt;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print_json(const Json& object) { write_out(text_of(object) + "\n"); }

std::string version() {
  return std::to_string(FOREDRAFT_VERSION_MAJOR) + "." + std::to_string(FOREDRAFT_VERSION_MINOR) +
         "." + std::to_string(FOREDRAFT_VERSION_PATCH);
}

std::string readable_bytes(double bytes) { return scaled(bytes, {"B", "kB", "MB", "GB"}); }
std::string readable_count(double count) { return scaled(count, {"", "k", "M", "G"}); }

}  // namespace cli
