#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fuzz {

/// What has to hold whatever the input is. Nothing catches what this throws.
inline void demand(bool holds, std::string_view what) {
  if (!holds) throw std::logic_error(std::string(what));
}

}  // namespace fuzz
