#include "memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

#include <foredraft/core/error.hpp>

#include "output.hpp"
#include "usage.hpp"

namespace cli {

namespace {

/// The number after `key` in a file of "key value" lines; an empty key: the first word.
std::optional<double> read_number(const std::filesystem::path& path, const std::string& key = {}) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    double value = 0;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    if (words >> value) return value;
    return std::nullopt;  // "max"
  }
  return std::nullopt;
}

/// What `ulimit -v` leaves.
double left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<double>::infinity();
  }
  // Its first word: pages of all that is mapped.
  const double used =
      read_number("/proc/self/statm").value_or(0) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::max(0.0, static_cast<double>(limit.rlim_cur) - used);
}

}  // namespace

double left_in_group(const std::filesystem::path& root) {
  struct Version {
    const char *limit, *used, *statistics, *files[2];
  };
  // What version 1 calls used includes the groups below, and so do its keys with total_.
  constexpr Version kVersions[] = {
      {"memory.max", "memory.current", "memory.stat", {"active_file", "inactive_file"}},
      {"memory/memory.limit_in_bytes",
       "memory/memory.usage_in_bytes",
       "memory/memory.stat",
       {"total_active_file", "total_inactive_file"}},
  };
  double left = std::numeric_limits<double>::infinity();
  for (const Version& version : kVersions) {
    const auto limit = read_number(root / version.limit);
    const auto used = read_number(root / version.used);
    if (!limit || !used) continue;
    double files = 0;
    for (const char* key : version.files) {
      files += read_number(root / version.statistics, key).value_or(0);
    }
    // The files are not read in one moment: pages of files may be more than all that is used.
    left = std::min(left, std::max(0.0, *limit - std::max(0.0, *used - files)));
  }
  return left;
}

double available_memory() {
  double available = std::numeric_limits<double>::infinity();
  if (const auto kilobytes = read_number("/proc/meminfo", "MemAvailable:")) {
    available = *kilobytes * 1024;
  }
  return std::min({available, left_in_group(), left_of_address_space()});
}

void require_memory(double bytes, const std::string& what, const std::string& hint) {
  const double available = available_memory();
  if (bytes <= available) return;
  throw fd::Error(fd::ErrorCode::kOutOfMemory,
                  "a need of " + readable_bytes(bytes) + " for " + what,
                  "at most " + readable_bytes(available) + ", which is what is available", hint);
}

}  // namespace cli
