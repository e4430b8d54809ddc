#pragma once

#include <memory>
#include <string>

#include "usage.hpp"

namespace cli {

/// Lines from the standard input. Where that and stdout are a terminal, a prompt is shown, and with
/// libedit the line can be edited and earlier ones come back. Elsewhere lines are read as they are.
class LineReader {
 public:
  enum class Line {
    kText,
    kInterrupted,  ///< SIGINT while it was written; see InterruptGuard
    kEnd,
  };

  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Somebody sits there.
  bool interactive() const noexcept { return interactive_; }

  /// @param text  the line without its end, for kText
  /// @errors kIo
  Line read(const std::string& prompt, std::string& text);

 private:
  class Editor;

  Line read_plain(std::string& text);

  bool interactive_;
  std::string pending_;  // read, and not yet a line
  std::unique_ptr<Editor> editor_;
};

}  // namespace cli
