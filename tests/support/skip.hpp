#pragma once

#include <string>

#include "support/catch.hpp"

/// Whether a test of this run could not do its work: main() then reports the run as skipped, and
/// ctest's summary names it.
inline bool was_skipped = false;

/// Say that a test cannot be run here, and why; the caller returns then. For a whole test case,
/// because ctest runs each by itself: what can be run everywhere is a test case of its own.
inline void skip(const std::string& why) {
  was_skipped = true;
  WARN("SKIPPED: " << why);
}
