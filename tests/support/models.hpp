#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/skip.hpp"

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

/// The file of a model, or nothing, and the test is skipped: large models are not fetched for every
/// run.
inline std::optional<std::filesystem::path> model_file(const std::string& name) {
  const std::filesystem::path file = model_folder() / (name + ".gguf");
  if (std::filesystem::exists(file)) return file;
  skip("'" + file.string() + "' is not there; examples/fetch_model.py fetches it");
  return std::nullopt;
}
