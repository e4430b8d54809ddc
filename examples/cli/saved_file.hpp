#pragma once

#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "terminal.hpp"
#include "usage.hpp"

namespace cli {

/// @errors kIo, which says that `what` was expected
std::ifstream open_saved(const std::string& file, std::string_view what, std::string_view hint);

/// What `load` makes of the file. Its errors name it.
template <typename Load>
auto read_saved(const std::string& file, std::string_view what, std::string_view hint, Load load) {
  std::ifstream in = open_saved(file, what, hint);
  try {
    return load(in);
  } catch (const fd::Error& error) {
    throw error_in("'" + visible(file) + "'", error);
  }
}

/// Write FILE.new and rename it, so that nobody reads half of one, and what was there stays where the
/// disk is full. Two that write at the same time do not mix: one is refused.
/// @errors kIo, and what `save` throws
void write_saved(const std::string& file, const std::function<void(std::ostream&)>& save);

}  // namespace cli
