#pragma once

#include <string>
#include <string_view>

namespace foredraft::inline v0 {

/// What texts of a JSON Schema's `format` look like, as a regular expression; empty for a format that
/// is not known. All texts of the pattern are valid, most of those that are valid have one.
/// @source RFC 3339 (date, time, duration), RFC 1123 (hostname), RFC 4291 (ipv6), RFC 3986 (uri)
inline std::string pattern_of_format(std::string_view format) {
  // No 29th of February: whether there is one takes the whole year.
  const std::string date =
      "[12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"
      "02-(0[1-9]|1\\d|2[0-8]))";
  const std::string time =
      "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+\\-]([01]\\d|2[0-3]):[0-5]\\d)";
  const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  // At most 63 characters a label, and 253 together.
  const std::string label = "[A-Za-z0-9]{1,15}(-[A-Za-z0-9]{1,15}){0,2}";
  const std::string hostname = "(" + label + "\\.){0,4}[A-Za-z]{1,15}";
  const std::string hex = "[0-9A-Fa-f]{1,4}";
  if (format == "date") return date;
  if (format == "time") return time;
  if (format == "date-time") return date + "T" + time;
  if (format == "duration") {
    const auto falling = [](const char* units) {  // such as 3H20M: none between may be left out
      std::string all;
      std::string rest;
      for (int i = 2; i >= 0; --i) {
        rest = std::string("\\d{1,4}") + units[i] + (rest.empty() ? "" : "(" + rest + ")?");
        all = rest + (all.empty() ? "" : "|" + all);
      }
      return "(" + all + ")";
    };
    return "P(\\d{1,4}W|" + falling("YMD") + "(T" + falling("HMS") + ")?|T" + falling("HMS") + ")";
  }
  if (format == "uuid") return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (format == "ipv4") return byte + "(\\." + byte + "){3}";
  if (format == "ipv6") {
    return "(" + hex + ":){7}" + hex + "|(" + hex + ":){1,6}:" + hex + "|::((" + hex + ":){0,6}" +
           hex + ")?";
  }
  if (format == "hostname") return hostname;
  if (format == "uri") {
    return "(https?|ftp)://" + hostname +
           "(:\\d{1,5})?(/[A-Za-z0-9._~=&+\\-]{0,80}){0,20}(\\?"
           "[A-Za-z0-9._~=&+\\-]{1,200})?(#[A-Za-z0-9._~\\-]{1,80})?";
  }
  if (format == "email") {
    return "[A-Za-z0-9_+\\-]{1,30}(\\.[A-Za-z0-9_+\\-]{1,30}){0,3}@"
           "(" +
           label + "\\.){1,4}[A-Za-z]{2,10}";
  }
  return {};
}

}  // namespace foredraft::inline v0
