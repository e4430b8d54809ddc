#pragma once

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>

#include "support/sanitizers.hpp"

/// A number of /proc/self/status, e.g. "VmRSS:". @units bytes
inline std::optional<std::size_t> process_memory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::size_t kib = 0;
    if (word == field && status >> kib) return kib << 10;
  }
  return std::nullopt;
}

/// Begin a new peak ("VmHWM:"). @return what is in memory now; nothing where the system has no such
/// thing, or the program has a sanitizer, which keeps memory of its own
inline std::optional<std::size_t> begin_memory_peak() {
#ifdef FOREDRAFT_UNDER_SANITIZER
  return std::nullopt;
#else
#ifdef __GLIBC__
  // What is freed goes back to the system; kept for the next request, it would hide a peak or add to
  // one.
  (void)::mallopt(M_MMAP_THRESHOLD, 1 << 16);
  (void)::malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
  const auto now = process_memory("VmRSS:");
  const auto peak = process_memory("VmHWM:");
  if (!now || !peak || *peak > *now + (std::size_t{1} << 20)) return std::nullopt;
  return now;
#endif
}
