#pragma once

#include <filesystem>
#include <string>

namespace cli {

/// The file behind -m: a path, or NAME.gguf in $FOREDRAFT_MODELS or in the user's cache.
/// @errors kIo, with the command that fetches a model
std::filesystem::path find_model(const std::string& name);

}  // namespace cli
