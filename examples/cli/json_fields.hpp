#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <foredraft/core/error.hpp>

#include "output.hpp"
#include "terminal.hpp"
#include "usage.hpp"

namespace cli {

/// The members of a JSON object that somebody sent, each of the type that is read, or an error says
/// which one is not. null is as good as absent.
class Fields {
 public:
  /// @errors kInvalidOption where it is no object
  explicit Fields(const Json& object, std::string of = "") : object_(object), of_(std::move(of)) {
    if (!object.is_object()) throw refused(of_.empty() ? "the body" : of_, object, "an object");
  }

  /// Null where it is absent.
  const Json* find(const char* name) const {
    const auto member = object_.find(name);
    return member == object_.end() || member->is_null() ? nullptr : &*member;
  }

  // Each leaves the value as it is where the member is absent, and says whether it was there.

  bool read(const char* name, bool& value) const {
    const Json* const member = find(name);
    if (member == nullptr) return false;
    if (!member->is_boolean()) throw refuse(name, "true or false");
    value = member->get<bool>();
    return true;
  }
  bool read(const char* name, std::string& value) const {
    const Json* const member = find(name);
    if (member == nullptr) return false;
    if (!member->is_string()) throw refuse(name, "a text");
    value = member->get<std::string>();
    return true;
  }
  bool read(const char* name, float& value) const {
    const Json* const member = find(name);
    if (member == nullptr) return false;
    if (!member->is_number() || !std::isfinite(member->get<float>()))
      throw refuse(name, "a number");
    value = member->get<float>();
    return true;
  }
  bool read(const char* name, int& value, int least,
            int most = std::numeric_limits<int>::max()) const {
    const Json* const member = find(name);
    if (member == nullptr) return false;
    const auto number = whole_number(*member);
    const bool fits = number && *number >= least && *number <= most;
    if (!fits) {
      throw refuse(name, most == std::numeric_limits<int>::max()
                             ? "a whole number from " + std::to_string(least) + " on"
                             : "a whole number from " + std::to_string(least) + " to " +
                                   std::to_string(most));
    }
    value = static_cast<int>(*number);
    return true;
  }

  fd::Error refuse(const char* name, std::string_view expected) const {
    return refused(of_.empty() ? name : of_ + "." + name, object_.at(name), expected);
  }

 private:
  static fd::Error refused(const std::string& what, const Json& value, std::string_view expected) {
    return {fd::ErrorCode::kInvalidOption, what + " " + excerpt(text_of(value), 40), expected};
  }

  const Json& object_;
  std::string of_;
};

}  // namespace cli
