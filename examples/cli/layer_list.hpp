#pragma once

#include <string>
#include <vector>

namespace cli {

/// Layers of a model as --spec-layers names them: "0-7,20-27" or "0,1,27", ascending. Whether the
/// model has so many is for the model to say. @errors UsageError
std::vector<int> parse_layers(const std::string& text);

/// The same from numbers: "0-7,20-27". @pre ascending
std::string spelled_layers(const std::vector<int>& layers);

}  // namespace cli
