#pragma once

#include <string>
#include <utility>

#include <unistd.h>

#include <foredraft/core/result.hpp>

#include "output.hpp"
#include "terminal.hpp"
#include "usage.hpp"

namespace cli {

/// Writes texts to stdout as they come, accepted draft tokens in colour where that is a terminal.
class Printer {
 public:
  /// A line above a text. It waits for the text: where an error comes instead, stdout stays empty.
  void begin(const std::string& header) {
    header_ = (begun_ ? "\n" : "") + header;
    begun_ = ends_line_ = true;
  }
  void operator()(const fd::Emitted& token) {
    if (token.text.empty()) return;
    const std::string text = terminal_ ? visible(token.text) : token.text;
    write(colour_ && token.from_draft ? std::string(kCyan) + text + std::string(kPlain) : text);
    ends_line_ = text.back() == '\n';
  }
  /// The prompt of the shell, and the statistics, begin on a line of their own.
  void finish() { write(ends_line_ ? "" : "\n"); }

 private:
  void write(const std::string& text) { write_out(std::exchange(header_, {}) + text); }

  bool terminal_ = is_terminal(STDOUT_FILENO);
  bool colour_ = wants_colour(STDOUT_FILENO);
  bool ends_line_ = false;
  bool begun_ = false;
  std::string header_;
};

}  // namespace cli
