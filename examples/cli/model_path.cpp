#include "model_path.hpp"

#include <cstdlib>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>

#include "usage.hpp"

namespace cli {

namespace {

std::filesystem::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Where models lie: the folders that examples/fetch_model.py writes to.
std::vector<std::filesystem::path> model_folders() {
  // With a slash at the end of each: a folder that is named in two ways is searched once.
  std::vector<std::filesystem::path> folders;
  if (const auto chosen = environment("FOREDRAFT_MODELS"); !chosen.empty()) {
    folders.push_back((chosen / "").lexically_normal());
  }
  std::filesystem::path cache = environment("XDG_CACHE_HOME");
  if (cache.empty()) cache = environment("HOME") / ".cache";
  cache = (cache / "foredraft" / "models" / "").lexically_normal();
  if (folders.empty() || folders.front() != cache) folders.push_back(cache);
  return folders;
}

}  // namespace

std::filesystem::path find_model(const std::string& name) {
  std::error_code ignored;
  if (name.empty())
    throw UsageError("an empty model name", "a file or a name", "-m FILE or -m NAME");
  const bool exists = std::filesystem::exists(name, ignored);
  if (exists && !std::filesystem::is_directory(name, ignored)) return name;
  // A path is taken at its word; only a bare name is looked up.
  const bool bare = name.find('/') == std::string::npos && !name.ends_with(".gguf");
  std::string searched;
  for (const std::filesystem::path& folder : model_folders()) {
    if (!bare) break;
    const std::filesystem::path file = folder / (name + ".gguf");
    if (std::filesystem::exists(file, ignored)) return file;
    searched += " or " + file.string();
  }
  if (exists) return name;  // a folder: who opens it says so
  throw fd::Error(
      fd::ErrorCode::kIo, "no model " + fd::in_quotes(name), "a file of that name" + searched,
      bare ? "python3 examples/fetch_model.py " + name + " (--list shows the names it knows)"
           : "is the path right?");
}

}  // namespace cli
