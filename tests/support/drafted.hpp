#pragma once

#include <cstdint>

#include <foredraft/core/result.hpp>

/// Whether a drafter's drafts had a part in some texts: right ones and wrong ones.
struct Drafted {
  void add(const foredraft::Result& result) {
    drafted += result.stats.drafted;
    accepted += result.stats.accepted;
  }
  void add(const Drafted& other) {
    drafted += other.drafted;
    accepted += other.accepted;
  }
  bool both() const { return accepted > 0 && accepted < drafted; }

  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
};
