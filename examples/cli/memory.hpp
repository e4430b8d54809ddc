#pragma once

#include <filesystem>
#include <string>

namespace cli {

/// Memory that this process can still have: what the system calls available, less where a control
/// group or a limit of the shell grants less.
/// @units bytes; infinite where nothing is known
double available_memory();

/// What the limits of a control group leave, of version 2 or 1. Pages of files count as used there
/// but give way to whoever needs memory, so they are left, too.
/// @param root  where the group's files lie: inside a container its own group is the root
/// @units bytes; infinite where there is no limit
double left_in_group(const std::filesystem::path& root = "/sys/fs/cgroup");

/// @errors kOutOfMemory where there is less than `bytes`
void require_memory(double bytes, const std::string& what, const std::string& hint);

}  // namespace cli
