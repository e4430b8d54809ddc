#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cli {

bool is_terminal(int descriptor);

/// Colours suit a terminal, unless NO_COLOR is set (no-color.org) or TERM says that it has none.
bool wants_colour(int descriptor);

/// The text without control characters, line breaks and tabs excepted: what a model writes, or a
/// file calls itself, must not steer the terminal.
std::string visible(std::string_view text);

/// One line of `text`, at most `width` bytes, in quotes.
std::string excerpt(std::string_view text, std::size_t width);

inline constexpr std::string_view kCyan = "\x1b[36m";
inline constexpr std::string_view kPlain = "\x1b[0m";

/// A bar on stderr that vanishes when done; nothing at all where stderr is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::size_t done, std::size_t total);

 private:
  std::string label_;
  bool enabled_;
  int shown_ = -1;  // steps on the screen
};

}  // namespace cli
