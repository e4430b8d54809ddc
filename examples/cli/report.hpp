#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <foredraft/core/result.hpp>

#include "generate_arguments.hpp"
#include "models.hpp"
#include "output.hpp"
#include "session.hpp"
#include "usage.hpp"

namespace cli {

/// What the statistics of a run cannot know themselves.
struct RunFacts {
  const GenerateArguments& asked;
  const Method& method;
  const Models& models;
};

/// What is said of a text wherever it is printed.
Json to_json(const fd::Result& result);

/// The object that `generate --json` prints for a text.
/// @param session  that wrote it
Json to_json(const fd::Result& result, std::uint64_t seed, const RunFacts& facts, Session& session);

/// All texts of a run taken together.
class Summary {
 public:
  void add(const fd::Result& result);
  /// The last text was.
  bool cancelled() const {
    return !reasons_.empty() && reasons_.back() == fd::FinishReason::kCancelled;
  }
  /// The lines that stand below the text.
  std::string text(const RunFacts& facts) const;

 private:
  std::string ends() const;

  fd::Stats stats_;
  std::string speculation_;                // of the last text, which knows of those before it
  std::vector<fd::FinishReason> reasons_;  // [texts]
};

}  // namespace cli
