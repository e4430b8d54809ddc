#pragma once

#include <string>

#include <foredraft/core/result.hpp>

#include "output.hpp"
#include "usage.hpp"

namespace cli {

/// What the statistics of a run cannot know themselves.
struct RunFacts {
  std::string speculation;  ///< "none", "lookup" or "draft"
  std::string acceptance;
  int n_max = 0;  ///< greatest depth of a draft
  int n_ctx = 0;
  int threads = 0;
  std::string isa;
  double load_seconds = 0;
};

/// The object that `generate --json` prints.
Json to_json(const fd::Result& result, const RunFacts& facts);

/// The lines that stand below the text.
std::string summary(const fd::Result& result, const RunFacts& facts);

}  // namespace cli
