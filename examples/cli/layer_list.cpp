#include "layer_list.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include <foredraft/core/error.hpp>
#include <foredraft/model/partial_model.hpp>

#include "speculation.hpp"
#include "usage.hpp"

namespace cli {

namespace {

constexpr int kMostLayers = 1 << 16;

std::optional<int> layer_number(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && n >= 0 && n < kMostLayers ? std::optional(n) : std::nullopt;
}

}  // namespace

LayerList LayerList::parse(const std::string& text) {
  const auto refuse = [&] {
    throw UsageError("--spec-layers " + text, "a number of layers, or layers in ascending order",
                     "20: so many, evenly spread; 0-7,20-27: these");
  };
  LayerList list;
  list.text_ = text;
  if (text.find_first_of(",-") == std::string::npos) {
    list.count_ = layer_number(text).value_or(0);
    if (list.count_ == 0) refuse();
    return list;
  }
  for (const std::string& part : parts_of(text)) {
    const std::size_t dash = part.find('-');
    const auto first = layer_number(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : layer_number(part.substr(dash + 1));
    const int behind = list.ranges_.empty() ? -1 : list.ranges_.back().last;
    if (!first || !last || *first > *last || *first <= behind) refuse();
    list.ranges_.push_back({*first, *last});
  }
  return list;
}

std::vector<int> LayerList::of(int n_layers) const {
  if (!ranges_.empty()) {
    std::vector<int> layers;
    for (const auto& [first, last] : ranges_) {
      for (int layer = first; layer <= last; ++layer) layers.push_back(layer);
    }
    return layers;
  }
  if (count_ > n_layers) {
    throw fd::Error(fd::ErrorCode::kInvalidOption, std::to_string(count_) + " layers that draft",
                    "at most the " + std::to_string(n_layers) + " of the model", "");
  }
  return fd::spread_layers(n_layers, count_ > 0 ? count_ : n_layers - n_layers / 4);
}

}  // namespace cli
