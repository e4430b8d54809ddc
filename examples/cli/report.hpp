#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <foredraft/core/result.hpp>

#include "draft_arguments.hpp"
#include "output.hpp"
#include "usage.hpp"

namespace cli {

/// What the statistics of a run cannot know themselves.
struct RunFacts {
  std::uint64_t seed = 0;   ///< of the first text
  std::string speculation;  ///< "none", "lookup" or "draft"
  std::string acceptance;
  int n_max = 0;  ///< greatest depth of a draft
  int n_ctx = 0;
  std::string cache_type = "f16";
  int threads = 0;
  std::string isa;
  double load_seconds = 0;
  bool logprobs = false;  ///< they were asked for
  std::optional<float> draft_temperature = {};
  DraftArguments draft_load = {};
};

/// The object that `generate --json` prints for a text. @param sample counts from 0
Json to_json(const fd::Result& result, int sample, const RunFacts& facts);

/// All texts of a run taken together.
class Summary {
 public:
  void add(const fd::Result& result);
  /// The lines that stand below the text.
  std::string text(const RunFacts& facts) const;

 private:
  std::string ends() const;

  fd::Stats stats_;
  std::vector<fd::FinishReason> reasons_;  // [texts]
};

}  // namespace cli
