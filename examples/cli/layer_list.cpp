#include "layer_list.hpp"

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

#include "speculation.hpp"
#include "usage.hpp"

namespace cli {

namespace {

// No model comes near it; a mistyped range does not ask for gigabytes.
constexpr int kMostLayers = 1 << 16;

std::optional<int> layer_number(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && n >= 0 && n < kMostLayers ? std::optional(n) : std::nullopt;
}

}  // namespace

std::vector<int> parse_layers(const std::string& text) {
  std::vector<int> layers;
  for (const std::string& part : parts_of(text)) {
    const std::size_t dash = part.find('-');
    const auto first = layer_number(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : layer_number(part.substr(dash + 1));
    const int behind = layers.empty() ? -1 : layers.back();
    if (!first || !last || *first > *last || *first <= behind) {
      throw UsageError("--spec-layers " + text, "numbers of layers, or ranges of them, ascending",
                       "0-7,20-27: the first eight of 28, and the last eight");
    }
    for (int layer = *first; layer <= *last; ++layer) layers.push_back(layer);
  }
  return layers;
}

std::string spelled_layers(const std::vector<int>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(layers[i]);
    if (last > i) text += "-" + std::to_string(layers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace cli
