#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <foredraft/model/load_options.hpp>

#include "usage.hpp"

namespace cli {

/// What becomes of the draft model while it is loaded: --quantize-draft, --draft-vocab and
/// --draft-vocab-counts.
struct DraftArguments {
  std::string format = {};  ///< "q4_0", "q8_0", kAsItIs or empty
  int n_vocab = 0;          ///< 0: all
  std::string counts_file = {};

  void add_to(CLI::App& command);
  /// Refuse what would have no effect. @errors UsageError, before anything is opened
  void check(bool with_draft_model) const;
  /// Reads the counts. Nothing where nothing was asked for: the file then says what suits it,
  /// unless it is to be mapped, which needs the weights as they are. Where something was asked for,
  /// nothing else is done.
  /// @errors kIo, kCorruptFile
  std::optional<fd::LoadOptions> options(bool mapped) const;

  static constexpr const char* kAsItIs = "none";
};

/// Counts by token id from lines `id count`, or from JSON: an object {"id": count, ...} or an array
/// [[id, count], ...]. Empty lines are skipped; what is not named counts as 0.
/// @errors kCorruptFile, also for an id that comes twice
std::vector<std::int64_t> parse_counts(std::string_view text);

}  // namespace cli
