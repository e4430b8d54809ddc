#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>

#include <foredraft/core/index.hpp>
#endif

namespace foredraft::inline v0::cpu {

/// Processors in the affinity mask of the calling thread. @cost one system call
inline int affinity_cpus() {
#if defined(__linux__)
  // The fixed-size mask holds 1024 processors; the kernel refuses it on a larger machine, so grow
  // until it fits.
  for (int capacity = CPU_SETSIZE; capacity <= CPU_SETSIZE * 64; capacity *= 2) {
    cpu_set_t* mask = CPU_ALLOC(idx(capacity));
    if (mask == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(idx(capacity));
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (known) return std::max(count, 1);
  }
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

/// Processors' worth of time that a quota of cgroup v2 grants; nothing for "max" or a text of
/// another form.
/// @source Linux kernel, Documentation/admin-guide/cgroup-v2.rst, cpu.max: "$MAX $PERIOD"
inline std::optional<double> parse_cpu_max(const std::string& text) {
  std::istringstream in(text);
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// The least CPU quota of this process's cgroup and those above it, or nothing where there is none.
/// @param root  folder that holds proc and sys
/// @source cgroups(7); cgroup v1: Linux kernel, Documentation/scheduler/sched-bwc.rst
inline std::optional<double> cgroup_cpu_quota([[maybe_unused]] const std::string& root = "") {
  std::optional<double> least;
#if defined(__linux__)
  const std::string mount = root + "/sys/fs/cgroup";
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
  };
  const auto note = [&least](std::optional<double> quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  // Lines read "hierarchy:controllers:path"; version 2 has hierarchy 0 and names no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    // A limit set on an ancestor holds for us too. In a container the own path may lie outside of
    // what is mounted: the root of the mount is then our group, and it comes last.
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (v2) {
        note(parse_cpu_max(read(mount + path + "/cpu.max")));
      } else {
        const std::string folder = mount + "/cpu" + path;
        note(parse_cpu_max(read(folder + "/cpu.cfs_quota_us") + " " +
                           read(folder + "/cpu.cfs_period_us")));
      }
      if (path.rfind('/') == std::string::npos) break;
    }
  }
#endif
  return least;
}

/// Threads that can really run at once: the affinity mask, cut to whole processors of the cgroup
/// quota. A spinning thread beyond the quota would eat the time of the others.
/// @param root  folder that holds proc and sys
inline int usable_cpus(const std::string& root = "") {
  int cpus = affinity_cpus();
  if (const std::optional<double> quota = cgroup_cpu_quota(root); quota && *quota < cpus) {
    cpus = std::max(static_cast<int>(std::floor(*quota)), 1);
  }
  return cpus;
}

}  // namespace foredraft::inline v0::cpu
