#include "terminal.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include <foredraft/core/index.hpp>
#include <foredraft/core/utf8.hpp>

namespace cli {

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

bool wants_colour(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return is_terminal(descriptor) && term != nullptr && std::string_view(term) != "dumb";
}

// Names in a file are somebody else's text: what a terminal would obey is not printed.
std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters as well, and some terminals obey them.
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    shown += c0 || c1 ? std::string_view("\xEF\xBF\xBD") : text.substr(i, 1);  // U+FFFD
    i += c1 ? 1 : 0;
  }
  return shown;
}

std::string excerpt(std::string_view text, std::size_t width) {
  std::string line;
  for (const char c : visible(text))
    line += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  if (line.size() > width) {
    line.resize(foredraft::complete_utf8_prefix(std::string_view(line).substr(0, width)));
    line += "...";
  }
  return "'" + line + "'";
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), enabled_(is_terminal(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() {
  if (enabled_ && shown_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(std::size_t done, std::size_t total) {
  constexpr int kSteps = 30;
  if (!enabled_) return;
  const double part =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
  const int steps = static_cast<int>(part * kSteps);
  if (steps == shown_) return;
  shown_ = steps;
  const std::string bar(foredraft::idx(steps), '#');
  std::fprintf(stderr, "\r\x1b[K%s [%-*s] %3.0f %%", label_.c_str(), kSteps, bar.c_str(),
               100 * part);
  std::fflush(stderr);
}

}  // namespace cli
