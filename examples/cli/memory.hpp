#pragma once

#include <string>

namespace cli {

/// Memory that this process can still have: what the system calls available, less where a control
/// group or a limit of the shell grants less.
/// @units bytes; infinite where nothing is known
double available_memory();

/// @errors kOutOfMemory where there is less than `bytes`
void require_memory(double bytes, const std::string& what, const std::string& hint);

}  // namespace cli
