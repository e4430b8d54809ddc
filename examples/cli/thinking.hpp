#pragma once

#include <array>
#include <string_view>

#include <foredraft/io/chat_format.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "usage.hpp"

namespace cli {

/// How a model marks what it thinks before it answers. The formats' names are llama.cpp's.
struct ThinkingMarkers {
  std::string_view format;
  std::string_view open;
  std::string_view close;
};
inline constexpr std::array kThinkingMarkers{ThinkingMarkers{"deepseek", "<think>", "</think>"},
                                             ThinkingMarkers{"mistral", "[THINK]", "[/THINK]"}};

/// The first for whose markers the vocabulary has a token each; null where it has none.
inline const ThinkingMarkers* thinking_markers(const fd::Tokenizer& tokenizer) {
  const auto single = [&](std::string_view text) {
    return tokenizer.encode(text, {.parse_special = true, .continues = true}).size() == 1;
  };
  for (const ThinkingMarkers& markers : kThinkingMarkers) {
    if (single(markers.open) && single(markers.close)) return &markers;
  }
  return nullptr;
}

/// The prompt has opened a thought, in which the answer begins.
inline bool begins_thinking(const fd::ChatTemplate& chat, const ThinkingMarkers& markers) {
  const std::size_t open = chat.opening.rfind(markers.open);
  return open != chat.opening.npos && chat.opening.find(markers.close, open) == chat.opening.npos;
}

}  // namespace cli
