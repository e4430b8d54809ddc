#include "model_path.hpp"

#include <cstdlib>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/io/quoted.hpp>

#include "usage.hpp"

namespace cli {

namespace {

std::filesystem::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Where models lie: the folders that examples/fetch_model.py writes to.
std::vector<std::filesystem::path> model_folders() {
  std::vector<std::filesystem::path> folders;
  if (const auto chosen = environment("FOREDRAFT_MODELS"); !chosen.empty()) {
    folders.push_back(chosen);
  }
  std::filesystem::path cache = environment("XDG_CACHE_HOME");
  if (cache.empty()) cache = environment("HOME") / ".cache";
  folders.push_back(cache / "foredraft" / "models");
  return folders;
}

}  // namespace

std::filesystem::path find_model(const std::string& name) {
  std::error_code ignored;
  if (name.empty()) throw UsageError("an empty model name", "give -m FILE or -m NAME");
  if (std::filesystem::exists(name, ignored)) return name;
  const auto refuse = [&](const std::string& expected, const std::string& hint) {
    throw fd::Error(fd::ErrorCode::kIo, "no model " + fd::in_quotes(name), expected, hint);
  };
  // A path is taken at its word; only a bare name is looked up.
  if (name.find('/') != std::string::npos || name.ends_with(".gguf")) {
    refuse("a file", "is the path right?");
  }
  std::string searched;
  for (const std::filesystem::path& folder : model_folders()) {
    const std::filesystem::path file = folder / (name + ".gguf");
    if (std::filesystem::exists(file, ignored)) return file;
    searched += (searched.empty() ? "" : " or ") + file.string();
  }
  refuse("a file of that name, or " + searched, "python3 examples/fetch_model.py " + name);
  return {};
}

}  // namespace cli
