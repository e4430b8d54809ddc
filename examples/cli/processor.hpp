#pragma once

#include <string>

namespace cli {

/// As the system calls it: "unknown" where it does not say.
std::string processor_name();

}  // namespace cli
