#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include <foredraft/core/options.hpp>

#include "arguments.hpp"
#include "draft_arguments.hpp"
#include "engine.hpp"

namespace cli {

/// All that `generate` is told.
struct GenerateArguments {
  std::string model;
  std::string draft;
  std::string speculation;                ///< empty: the default
  std::optional<std::string> acceptance;  ///< absent: match
  std::optional<int> n_max;
  TextArgument prompt;
  MachineArguments machine;
  bool raw = false;
  bool json = false;
  int n_ctx = 0;
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  int samples = 1;
  std::optional<std::uint64_t> seed;  ///< absent: 0
  std::optional<int> repeat_last_n;   ///< absent: the library's default
  std::optional<float> draft_temperature;
  DraftArguments draft_load;
  fd::Options options;  ///< complete behind resolve()

  void add_to(CLI::App& command);

  /// What the user chose, or the default: the draft model where there is one, else lookup. It
  /// refuses what CLI11 cannot see: options that contradict each other or would have no effect.
  /// @errors UsageError, kInvalidOption
  Speculation resolve();

  /// Of keys and values alike.
  CacheType cache_type() const {
    return cache_type_k == "q8_0" ? CacheType::kQ8_0 : CacheType::kF16;
  }
  AcceptanceRule rule() const;
  std::string rule_name() const { return acceptance.value_or("match"); }

  /// Greatest depth of a draft; 0 without speculation.
  int depth(Speculation chosen) const;

 private:
  void add_sampling(CLI::App& command);
  void add_penalties(CLI::App& command);
  void add_speculation(CLI::App& command);
  Speculation resolve_type() const;
  void check_acceptance(Speculation chosen) const;
  void check_samples() const;
  void check_draft_temperature(Speculation chosen) const;
};

std::string_view name_of(Speculation speculation);

}  // namespace cli
