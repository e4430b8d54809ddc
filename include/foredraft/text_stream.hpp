#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// Turns pieces of tokens into text that may be shown: it never splits a UTF-8 character, and holds
/// back what may be the beginning of a stop string.
///
/// A value type: the loop works on a copy and keeps it only when the round is committed.
class TextStream {
 public:
  struct Step {
    std::string text;  ///< may be shown now
    bool stopped =
        false;  ///< a stop string is complete; text ends before it and nothing is held any more
  };

  /// @cost O(bytes held * stop bytes); what is held is shorter than the longest stop string plus
  /// one character. A piece of which nothing has to be held is handed on without a copy.
  Step push(std::string piece, std::span<const std::string> stops) {
    if (held_.empty()) {
      held_ = std::move(piece);
    } else {
      held_ += piece;
    }
    std::size_t match = std::string::npos;
    for (const std::string& stop : stops) match = std::min(match, held_.find(stop));
    if (match != std::string::npos) {
      Step step{held_.substr(0, match), true};
      held_.clear();
      return step;
    }
    std::size_t release = held_.size();
    for (const std::string& stop : stops) release = std::min(release, begin_of_partial_match(stop));
    release = complete_utf8_prefix(std::string_view(held_).substr(0, release));
    if (release == held_.size()) return {flush(), false};
    Step step{held_.substr(0, release), false};
    held_.erase(0, release);
    return step;
  }

  /// The rest, when no more tokens come.
  std::string flush() {
    std::string rest = std::move(held_);
    held_.clear();
    return rest;
  }

  const std::string& held() const noexcept { return held_; }

 private:
  /// First place from which all that is held could be the beginning of `stop`.
  std::size_t begin_of_partial_match(std::string_view stop) const {
    const std::string_view held = held_;
    std::size_t begin = held.size() < stop.size() ? 0 : held.size() - stop.size() + 1;
    while (begin < held.size() && !stop.starts_with(held.substr(begin))) ++begin;
    return begin;
  }

  std::string held_;
};

}  // namespace foredraft::inline v0
