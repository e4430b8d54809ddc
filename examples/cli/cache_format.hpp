#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>

#include "usage.hpp"

namespace cli {

/// How the target's keys and values are stored, as --cache-type-k spells it; the default first.
inline const std::vector<std::string> kCacheFormats = {"f16", "q8_0"};

/// work(element) with an element of the format called `name`: from here on its type is known when
/// the program is compiled.
template <typename Work>
auto with_cache_format(std::string_view name, Work work) {
  return name == "q8_0" ? work(fd::q8_0()) : work(fd::f16());
}

}  // namespace cli
