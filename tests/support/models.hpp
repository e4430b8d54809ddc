#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/catch.hpp"

/// Real models for tests: where examples/fetch_model.py puts them.
inline std::filesystem::path model_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto chosen = variable("FOREDRAFT_MODELS"); !chosen.empty()) return chosen;
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") / ".cache";
  return cache / "foredraft" / "models";
}

/// Whether a test of this run went without its model: main() then reports it as skipped.
inline bool model_was_missing = false;

/// The file of a model, or nothing after a word in the test's output: large models are not fetched
/// for every run.
inline std::optional<std::filesystem::path> model_file(const std::string& name) {
  const std::filesystem::path file = model_folder() / (name + ".gguf");
  if (std::filesystem::exists(file)) return file;
  model_was_missing = true;
  WARN("SKIPPED: " << file << " is not there; examples/fetch_model.py fetches it");
  return std::nullopt;
}
